# SPDX-License-Identifier: Apache-2.0
"""The host or node that a request names."""

from __future__ import annotations

import pytest

from novasched.objects.request_spec import Destination, RequestSpec
from novasched.resources.targets import Target, not_found, target_of


@pytest.mark.parametrize(
    ('fields', 'target'),
    [
        pytest.param({}, None, id='unset'),
        pytest.param({'force_hosts': None, 'force_nodes': []}, None, id='empty'),
        pytest.param({'force_hosts': ['h0', 'h1']}, Target('h0', None), id='forced'),
        pytest.param({'force_nodes': ['n0']}, Target(None, 'n0'), id='a forced node'),
        pytest.param(
            {'requested_destination': Destination(aggregates=['a'])},
            None,
            id='a destination that is not a host',
        ),
        pytest.param(
            {
                'requested_destination': Destination(host='h2'),
                'force_hosts': ['h0'],
                'force_nodes': ['n0'],
            },
            Target('h2', 'n0'),
            id='the destination comes first, member by member',
        ),
        pytest.param(
            {'requested_destination': Destination(node='n2', cell=None)},
            Target(None, 'n2'),
            id='a destination node',
        ),
    ],
)
def test_target(fields, target):
    assert target_of(RequestSpec(**fields)) == target


@pytest.mark.parametrize(
    ('fields', 'reason'),
    [
        ({'force_hosts': ['h']}, 'No such host - host: h node: None '),
        ({}, 'No such host - host: None node: None '),
    ],
)
def test_the_reason_when_there_is_no_such_host(fields, reason):
    assert not_found(RequestSpec(**fields)) == reason
