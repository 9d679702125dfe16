# SPDX-License-Identifier: Apache-2.0
"""Server groups of the policy ``legacy``."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.affinity import (
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
)
from novasched.scheduler.reasons import REJECTED, Code
from tests import factories


def passes(filter_, hosts, group):
    request = factories.request(instance_group=group)
    return filter_.apply(hosts, request).host.tolist() == hosts.host.tolist()


@pytest.mark.parametrize(
    ('group', 'host', 'together', 'apart'),
    [
        pytest.param(None, 'h1', True, True, id='no group'),
        pytest.param(
            factories.group('affinity', hosts=['h1']), 'h3', True, True, id='of today'
        ),
        pytest.param(factories.group('legacy'), 'h1', True, True, id='nowhere yet'),
        pytest.param(
            factories.group('legacy', hosts=['h1', 'h2']), 'h1', True, False, id='here'
        ),
        pytest.param(
            factories.group('legacy', hosts=['h1']), 'h3', False, True, id='elsewhere'
        ),
    ],
)
def test_groups_of_old(group, host, together, apart):
    hosts = factories.hosts(host=[host])
    assert passes(GroupAffinityFilter(), hosts, group) is together
    assert passes(GroupAntiAffinityFilter(), hosts, group) is apart


@pytest.mark.parametrize(
    ('filter_', 'code'),
    [
        (GroupAffinityFilter(), Code.NOT_IN_GROUP),
        (GroupAntiAffinityFilter(), Code.GROUP_LIMIT),
    ],
)
def test_why_groups_of_old(filter_, code):
    host = factories.hosts(1).state(0)
    request = factories.request(instance_group=factories.group('legacy', hosts=['h2']))
    assert filter_.why(host, request) == (code, 'the group is on h2')
    assert filter_.why(host, factories.request()) == REJECTED
