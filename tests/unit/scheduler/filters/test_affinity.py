# SPDX-License-Identifier: Apache-2.0
"""Server groups keep their members apart or together."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.instance_group import InstanceGroup
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from tests import factories

ANTI = ServerGroupAntiAffinityFilter()
TOGETHER = ServerGroupAffinityFilter()
ME = 'U1'


def passes(filter_, hosts, group):
    request = factories.request(instance_uuid=ME, instance_group=group)
    return filter_.apply(hosts, request).host.tolist() == hosts.host.tolist()


@pytest.mark.parametrize(
    ('group', 'running', 'expected'),
    [
        pytest.param(None, ['U5', 'U6'], True, id='no group'),
        pytest.param(
            factories.group('affinity', ['U5']), ['U5'], True, id='another policy'
        ),
        pytest.param(
            factories.group('soft-anti-affinity', ['U5']), ['U5'], True, id='soft'
        ),
        pytest.param(
            factories.group(members=['U8']), ['U5', 'U6'], True, id='no member here'
        ),
        pytest.param(
            factories.group(members=['U5']), ['U5', 'U6'], False, id='a member here'
        ),
        pytest.param(
            factories.group(members=['U5', 'U6'], max_server_per_host=3),
            ['U5', 'U6'],
            True,
            id='below the limit',
        ),
        pytest.param(
            factories.group(members=['U5', 'U6'], max_server_per_host=2),
            ['U5', 'U6'],
            False,
            id='at the limit',
        ),
        pytest.param(
            factories.group(members=[ME, 'U5']),
            [ME, 'U5'],
            True,
            id='here itself',
        ),
        pytest.param(
            factories.group(max_server_per_host=0), [], False, id='a limit of none'
        ),
    ],
)
def test_anti_affinity(group, running, expected):
    hosts = factories.hosts(instances=[dict.fromkeys(running)])
    assert passes(ANTI, hosts, group) is expected


def test_a_limit_that_is_no_number_is_an_invalid_request():
    hosts = factories.hosts(1)
    with pytest.raises(errors.InvalidRequest):
        passes(ANTI, hosts, factories.group(max_server_per_host='two'))


@pytest.mark.parametrize(
    ('group', 'host', 'expected'),
    [
        pytest.param(None, 'h3', True, id='no group'),
        pytest.param(
            factories.group('anti-affinity', hosts=['h1']), 'h3', True, id='apart'
        ),
        pytest.param(
            factories.group('soft-affinity', hosts=['h1']), 'h3', True, id='soft'
        ),
        pytest.param(factories.group('affinity'), 'h3', True, id='nowhere yet'),
        pytest.param(
            factories.group('affinity', hosts=['h1', 'h2']), 'h1', True, id='here'
        ),
        pytest.param(
            factories.group('affinity', hosts=['h1', 'h2']), 'h3', False, id='elsewhere'
        ),
        pytest.param(
            factories.group('affinity', hosts=['h1', 'h2']),
            'H1',
            False,
            id='case counts',
        ),
    ],
)
def test_affinity(group, host, expected):
    assert passes(TOGETHER, factories.hosts(host=[host]), group) is expected


def test_a_group_of_old_has_only_its_policy():
    group = InstanceGroup(policy='affinity', hosts=['h1'])
    assert not passes(TOGETHER, factories.hosts(host=['h3']), group)


@pytest.mark.parametrize(
    ('filter_', 'group', 'reason'),
    [
        (ANTI, factories.group(members=['U5']), '1 members of the group, limit 1'),
        (ANTI, None, 'rejected'),
        (
            TOGETHER,
            factories.group('affinity', hosts=['b', 'a']),
            'the group is on a, b',
        ),
        (TOGETHER, None, 'rejected'),
    ],
)
def test_why(filter_, group, reason):
    host = factories.hosts(instances=[{'U5': None, 'U6': None}]).state(0)
    assert filter_.why(host, factories.request(instance_group=group)) == reason
