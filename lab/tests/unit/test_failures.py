# SPDX-License-Identifier: Apache-2.0
"""What the owner of an instance is told."""

from __future__ import annotations

import oslo_messaging
import pytest

from novasched import errors
from novasched.rpc import faults
from novasched_lab.failures import (
    MaxRetriesExceeded,
    fault_of,
    is_no_valid_host,
)

WIRE = faults.to_wire(errors.NoValidHost('full'))


@pytest.mark.parametrize(
    ('problem', 'message'),
    [
        pytest.param(
            errors.NoValidHost(''), 'No valid host was found. ', id='an error of ours'
        ),
        pytest.param(WIRE, 'No valid host was found. full', id='one in wire form'),
        pytest.param(
            oslo_messaging.RemoteError('NoValidHost', 'text', []), 'text', id='remote'
        ),
        pytest.param(
            oslo_messaging.RemoteError('KeyError', 'x', []), 'KeyError', id='a defect'
        ),
        pytest.param(
            oslo_messaging.MessagingTimeout('late'), 'MessagingTimeout', id='a library'
        ),
        pytest.param(
            MaxRetriesExceeded('Why.'),
            'Exceeded maximum number of retries. Why.',
            id='retries',
        ),
    ],
)
def test_the_message(problem, message):
    assert fault_of(problem).message == message


@pytest.mark.parametrize(
    ('problem', 'expected'),
    [
        pytest.param(errors.NoValidHost(''), True, id='ours'),
        pytest.param(WIRE, True, id='in wire form'),
        pytest.param(oslo_messaging.RemoteError('NoValidHost'), True, id='remote'),
        pytest.param(oslo_messaging.RemoteError('KeyError'), False, id='a defect'),
        pytest.param(oslo_messaging.MessagingTimeout(), False, id='no answer'),
    ],
)
def test_who_answers_that_there_is_no_host(problem, expected):
    assert is_no_valid_host(problem) == expected
