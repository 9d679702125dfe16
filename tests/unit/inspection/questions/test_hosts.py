# SPDX-License-Identifier: Apache-2.0
"""The list of hosts, and which of them a page has."""

from types import SimpleNamespace

import numpy as np
import pytest

from novasched.inspection.questions.hosts import ListedHosts
from novasched.inspection.questions.reports import HostGroup
from novasched.inspection.session.orders import HostsOrder
from novasched.providers.contents import Contents, build
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.tables.cases import cases

AZ1 = Aggregate(1, 'a1', 'az1', metadata={'availability_zone': 'az1'})
SSD = Aggregate(2, 'a2', 'ssd')
GPU = Aggregate(3, 'a3', 'gpu')
NAMES = ['c', 'a', 'b', 'b']


@pytest.fixture
def nodes():
    """Three hosts, of which b has two nodes; a is disabled and down, c is down."""
    return factories.hosts(
        4,
        host=NAMES,
        uuid=['uc', 'ua', 'ub1', 'ub2'],
        cell_uuid=['cell-1', 'cell-2', 'cell-1', 'cell-1'],
        num_instances=[1, 2, 3, 4],
        service_up=[False, False, True, True],
        service_disabled=[False, True, False, False],
        aggregates=[[AZ1], [AZ1, SSD, GPU], [], []],
        service=[{}, {'disabled_reason': 'broken'}, {}, {}],
    )


@pytest.fixture
def providers():
    """A tree for each node but that of a; that of c has a child."""
    return build(
        Contents(
            providers=np.array(
                [[1, 0, 1, 0], [2, 0, 1, 1], [3, 0, 3, 0], [4, 0, 4, 0]]
            ),
            inventories=np.array(
                [
                    (1, 1, 8, 2, 1, 8, 1, 2.0, 2.0),
                    (2, 1, 4, 0, 1, 4, 1, 1.0, 1.0),
                    (3, 1, 4, 0, 1, 4, 1, 1.0, 1.0),
                    (4, 2, 100, 0, 1, 100, 1, 1.0, 1.0),
                ],
                float,
            ),
            usage=np.array([(1, 1, 5), (2, 1, 1), (4, 2, 60)]),
            traits=np.zeros((0, 2), np.int64),
            aggregates=np.zeros((0, 2), np.int64),
            uuids={1: 'uc', 2: 'child', 3: 'ub1', 4: 'ub2'},
            class_names={1: 'VCPU', 2: 'DISK_GB'},
            trait_names={},
            aggregate_uuids={},
        )
    )


@pytest.fixture
def listed(nodes, providers):
    return ListedHosts.of(nodes, {'cell-1': 'one'}, 'nova', providers)


def page(listed, *, number=1, limit=50, slots=None, **criteria):
    return listed.page(HostsOrder(**criteria, page=number, limit=limit), slots)


def names(found):
    return [each.host for each in found.hosts]


def test_hosts_are_listed_by_name(listed):
    found = page(listed)
    assert names(found) == ['a', 'b', 'c']
    assert [each.state for each in found.hosts] == ['disabled', 'enabled', 'down']
    assert [each.zone for each in found.hosts] == ['az1', 'nova', 'az1']
    assert [each.cell for each in found.hosts] == ['cell-2', 'one', 'one']
    assert [each.reason for each in found.hosts] == ['broken', None, None]
    assert found.hosts[0].aggregates == ('az1', 'gpu', 'ssd')
    assert found.aggregates == ['az1', 'gpu', 'ssd']


def test_usage_of_all_provider_trees_of_a_host_is_added_up(listed):
    found = page(listed)
    assert [each.servers for each in found.hosts] == [2, 7, 1]
    assert [each.used for each in found.hosts] == [
        {},
        {'DISK_GB': (60, 100), 'VCPU': (0, 4)},
        {'VCPU': (6, 16)},
    ]


def test_without_placement_it_is_not_known_what_is_used(nodes):
    found = page(ListedHosts.of(nodes, {}, 'nova', None))
    assert [each.used for each in found.hosts] == [{}, {}, {}]


@cases(
    'criteria, expected',
    ('part of a name', {'name': 'A'}, ['a']),
    ('pattern', {'name': '[ab]'}, ['a', 'b']),
    ('cell', {'cell': 'one'}, ['b', 'c']),
    ('zone', {'zone': 'nova'}, ['b']),
    ('aggregate', {'aggregate': 'ssd'}, ['a']),
    ('state', {'state': 'down'}, ['c']),
    ('none', {'zone': 'az1', 'state': 'enabled'}, []),
)
def test_criteria(listed, criteria, expected):
    found = page(listed, **criteria)
    assert (names(found), found.total) == (expected, len(expected))


def test_pages(listed):
    found = page(listed, number=2, limit=2)
    assert (names(found), found.total, found.pages) == (['c'], 3, 2)
    assert page(listed, number=9, limit=2).hosts == []
    assert page(listed, name='nothing').pages == 1


def test_slots_of_a_host_sum_over_its_nodes(listed, nodes):
    usable = nodes[np.array([False, False, True, True])]
    slots = SimpleNamespace(hosts=usable, counts=np.array([2, 3]))
    assert [each.slots for each in page(listed, slots=slots).hosts] == [
        None,
        5,
        None,
    ]
    assert listed.groups(slots) == [
        HostGroup('az1', '', [('c', None)]),
        HostGroup('az1', 'gpu', [('a', None)]),
        HostGroup('nova', '', [('b', 5)]),
    ]
