# SPDX-License-Identifier: Apache-2.0
"""Where the members of a server group are, and whether we can serve its policy."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.db.server_groups import ServerGroup
from novasched_lab.cells import Link
from novasched_lab.conductor.groups import GroupSetup
from novasched_lab.failures import UnsupportedPolicy
from tests import factories

FILTERS = frozenset({'ServerGroupAntiAffinityFilter', 'ServerGroupAffinityFilter'})


class Servers:
    def __init__(self, **hosts):
        self.hosts = hosts

    def hosts_of(self, uuids):
        if 'down' in self.hosts:
            raise errors.StoreFailed('cell', 'down')
        return {host for uuid, host in self.hosts.items() if uuid in uuids}


class World:
    def __init__(self, policy, members, *cells):
        self.group = policy and ServerGroup(
            'g', 'web', 'p', 'u', policy, {'max_server_per_host': '2'}, tuple(members)
        )
        self.links = [Link(None, Servers(**cell), None) for cell in cells]

    def server_group_of(self, uuid):
        return self.group

    def with_computes(self):
        return self.links


def setup(world, enabled=FILTERS, only=None, **values):
    request = factories.request(**values)
    return GroupSetup(world, world, enabled).of(request, only)


def test_members_are_looked_for_in_all_cells():
    world = World('anti-affinity', ['a', 'b'], {'a': 'h1'}, {'b': 'h2'})
    group = setup(world).instance_group
    assert (group.policy, group.members) == ('anti-affinity', ['a', 'b'])
    assert group.hosts == ['h1', 'h2']
    assert group.rules == {'max_server_per_host': 2}


def test_a_cell_that_fails_is_left_out():
    world = World('affinity', ['a', 'b'], {'down': 'x'}, {'b': 'h2'})
    assert setup(world).instance_group.hosts == ['h2']


def test_one_cell_is_enough_when_it_is_named():
    world = World('affinity', ['a', 'b'], {'a': 'h1'}, {'b': 'h2'})
    assert setup(world, only=world.links[1]).instance_group.hosts == ['h2']


def test_hosts_that_the_request_knows_are_kept():
    world = World('affinity', ['a'], {'a': 'h1'})
    told = factories.group('affinity', hosts=['h9'])
    assert setup(world, instance_group=told).instance_group.hosts == ['h1', 'h9']


def test_a_group_that_is_told_but_has_no_row_gets_the_hosts_of_its_members():
    world = World(None, [], {'a': 'h1'})
    told = factories.group('affinity', members=['a'])
    assert setup(world, instance_group=told).instance_group.hosts == ['h1']


def test_without_a_group_nothing_changes():
    assert setup(World(None, [])).instance_group is None


@pytest.mark.parametrize(
    ('policy', 'enabled'),
    [
        pytest.param('affinity', {'ServerGroupAffinityFilter'}, id='a filter'),
        pytest.param('affinity', {'GroupAffinityFilter'}, id='a filter of old'),
        pytest.param('soft-affinity', {'all_weighers'}, id='all weighers'),
        pytest.param(
            'soft-affinity', {'ServerGroupSoftAffinityWeigher'}, id='one weigher'
        ),
    ],
)
def test_a_policy_that_is_served(policy, enabled):
    assert setup(World(policy, []), frozenset(enabled)).instance_group.policy == policy


@pytest.mark.parametrize(
    ('policy', 'needs'),
    [
        pytest.param('affinity', 'ServerGroupAffinityFilter', id='affinity'),
        pytest.param('anti-affinity', 'ServerGroupAntiAffinityFilter', id='apart'),
        pytest.param('soft-affinity', 'ServerGroupSoftAffinityWeigher', id='soft'),
    ],
)
def test_a_policy_that_nobody_serves(policy, needs):
    with pytest.raises(UnsupportedPolicy) as raised:
        setup(World(policy, []), frozenset())
    assert str(raised.value) == (
        f'ServerGroup policy is not supported: {needs} not configured'
    )
