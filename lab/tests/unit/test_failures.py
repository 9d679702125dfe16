# SPDX-License-Identifier: Apache-2.0
"""What the owner of an instance is told."""

import oslo_messaging

from novasched import errors
from novasched.rpc import faults
from novasched_lab.failures import MaxRetriesExceeded, fault_of, is_no_valid_host
from tests.support.tables.cases import cases

WIRE = faults.to_wire(errors.NoValidHost('full'))


@cases(
    'problem, message',
    ('an error of ours', errors.NoValidHost(''), 'No valid host was found. '),
    ('one in wire form', WIRE, 'No valid host was found. full'),
    ('remote', oslo_messaging.RemoteError('NoValidHost', 'text', []), 'text'),
    ('a defect', oslo_messaging.RemoteError('KeyError', 'x', []), 'KeyError'),
    ('a library', oslo_messaging.MessagingTimeout('late'), 'MessagingTimeout'),
    ('retries', MaxRetriesExceeded('Why.'), 'Exceeded maximum number of retries. Why.'),
)
def test_the_message(problem, message):
    assert fault_of(problem).message == message


@cases(
    'problem, expected',
    ('ours', errors.NoValidHost(''), True),
    ('in wire form', WIRE, True),
    ('remote', oslo_messaging.RemoteError('NoValidHost'), True),
    ('a defect', oslo_messaging.RemoteError('KeyError'), False),
    ('no answer', oslo_messaging.MessagingTimeout(), False),
)
def test_no_valid_host_is_recognised_in_every_form(problem, expected):
    assert is_no_valid_host(problem) == expected
