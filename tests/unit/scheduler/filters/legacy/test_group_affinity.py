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
from tests.tables import cases


def passes(filter_, hosts, group):
    request = factories.request(instance_group=group)
    return filter_.apply(hosts, request).host.tolist() == hosts.host.tolist()


@cases(
    'group, host, together, apart',
    ('no group', None, 'h1', True, True),
    ('of today', factories.group('affinity', hosts=['h1']), 'h3', True, True),
    ('nowhere yet', factories.group('legacy'), 'h1', True, True),
    ('here', factories.group('legacy', hosts=['h1', 'h2']), 'h1', True, False),
    ('elsewhere', factories.group('legacy', hosts=['h1']), 'h3', False, True),
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
