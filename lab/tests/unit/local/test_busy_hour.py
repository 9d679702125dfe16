# SPDX-License-Identifier: Apache-2.0
"""Hosts that have servers already, and what is asked for in an hour."""

import random

import pytest

from novasched_lab.local import cluster
from novasched_lab.local.busy_hosts import GIB_KB, BusyHost, shares
from novasched_lab.local.wishes import FLAVORS, HOUR_S, KINDS, STORM, wishes


@pytest.fixture(scope='module')
def hosts():
    return [BusyHost(each) for each in cluster.read().hosts]


@pytest.mark.parametrize(
    ('total', 'parts', 'expected'),
    [(7, 3, [2, 2, 3]), (6, 3, [2, 2, 2]), (1, 2, [0, 1]), (5, 0, [])],
)
def test_shares(total, parts, expected):
    assert shares(total, parts) == expected


def test_servers_and_what_is_reserved_use_what_was_used(hosts):
    for host in hosts:
        memory = sum(server.memory_mb for server in host.servers_before)
        inventory = host.provider(frozenset()).inventories['MEMORY_MB']
        assert memory + inventory.reserved == max(memory, host.before.memory_mb)
        assert len(host.servers_before) == host.before.instances


def test_servers_hold_the_pages_and_cpus_of_their_numa_nodes(hosts):
    for host in hosts:
        for cell in host.cells:
            mine = [
                part
                for server in host.servers_before
                for part in server.numa_topology.cells
                if part.id == cell.id
            ]
            pages = next(p.used for p in cell.mempages if p.size_kb == GIB_KB)
            assert sum(part.memory for part in mine) == pages * 1024
            pinned = [cpu for part in mine for cpu in (part.cpu_pinning or {}).values()]
            assert sorted(pinned) == sorted(cell.pinned_cpus)
            shared = sum(len(part.cpuset) for part in mine)
            assert cell.cpu_usage == shared


def test_an_hour_has_something_of_each_kind():
    found = wishes(60, random.Random(1))
    assert len(found) == 60
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    assert 0 <= found[0].at_s <= found[-1].at_s < HOUR_S
    kinds = {each.name.rpartition('-')[0] for each in found}
    assert kinds == {kind.name for kind in KINDS} | {'analytics'}
    assert {each.flavor for each in found} <= FLAVORS.keys()
    assert sum(each.flavor == 'm1.huge' for each in found) == STORM
    assert found == wishes(60, random.Random(1))
