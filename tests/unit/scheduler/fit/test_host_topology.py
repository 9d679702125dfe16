# SPDX-License-Identifier: Apache-2.0
"""What hosts report is parsed when it is first read, and compares by content."""

from __future__ import annotations

import json

from novasched.scheduler.fit.host_topology import (
    HostPools,
    HostTopology,
    host_topology,
)
from tests import factories
from tests.factories import numa_cell, numa_topology

TEXT = numa_topology(numa_cell(0, range(4), threads=2), numa_cell(8, range(4, 7)))


def test_nodes_are_read_once():
    topology = HostTopology(TEXT)
    assert 'cells' not in vars(topology)
    assert [cell.id for cell in topology.cells] == [0, 8]
    assert topology.cells is topology.cells
    assert topology.sockets == {0: 0, 8: 8}
    assert topology.threads_per_core == 2


def test_a_host_may_have_no_nodes():
    assert host_topology(None) is None
    assert host_topology('') is None
    for text in ('nonsense', numa_topology()):
        topology = host_topology(text)
        assert not topology
        assert topology.threads_per_core == 0


def test_text_that_cannot_be_read_is_complained_of_once():
    told = []

    def complain(text, problem):
        told.append((text, problem))

    topology, pools = host_topology('7', complain), HostPools('[7]', complain)
    assert told == []
    for _ in range(2):
        assert (topology.cells, pools.free) == ((), ())
    assert told == [('7', topology.problem), ('[7]', pools.problem)]
    assert topology.problem == "TypeError: argument of type 'int' is not iterable"
    assert pools.problem.startswith('TypeError: ')


def test_what_can_be_read_has_no_problem():
    for text in (TEXT, numa_topology()):
        assert HostTopology(text).problem == ''
    for text in (None, factories.pools(2)):
        assert HostPools(text).problem == ''
    assert HostTopology('7').problem
    assert HostPools('7').problem


def test_topologies_are_equal_if_their_nodes_are():
    text = json.dumps(json.loads(TEXT), indent=1)
    first, second = HostTopology(TEXT), HostTopology(text)
    other = HostTopology(numa_topology(numa_cell()))
    assert first == second == HostTopology.of(first.cells)
    assert hash(first) == hash(second)
    assert first != other
    assert first != TEXT
    assert repr(other).startswith('HostTopology(cells=(HostCell(id=0')


def test_pools_are_read_once_and_shown_as_nova_has_them():
    pools = HostPools(factories.pools({'numa_node': 1, 'count': 3, 'tag': 'x'}, 2))
    assert 'free' not in vars(pools)
    assert pools.free is pools.free
    assert pools.pools == [
        {'vendor_id': '8086', 'product_id': '1520', 'numa_node': None, 'count': 2},
        {
            'vendor_id': '8086',
            'product_id': '1520',
            'numa_node': 1,
            'count': 3,
            'tag': 'x',
        },
    ]
    assert pools.devices == 5
    assert pools.by_node == {None: 2, 1: 3}


def test_pools_are_equal_if_they_hold_the_same():
    first, second = HostPools(factories.pools(2)), HostPools(factories.pools(2))
    assert first == second == HostPools.of(first.free)
    assert hash(first) == hash(second)
    assert first != HostPools()
    assert first != 2
    assert repr(HostPools()) == 'HostPools(pools=[])'
