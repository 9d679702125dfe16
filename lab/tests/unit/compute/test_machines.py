# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from novasched.scheduler.fit.parse import host_cells, parse_pools
from novasched_lab.compute import machines
from novasched_lab.compute.fleet import Devices, Host

NUMA = Host(
    'a',
    vcpus=8,
    memory_mb=8192,
    numa_nodes=2,
    dedicated_cpus=frozenset({0, 1, 4, 5}),
    pages={1048576: 2},
)
NIC = Devices('15b3', '1018', 3, 'type-VF', 1, 'physnet0')
TRACKED = Devices('10de', '2204', 2, resource_class='CUSTOM_GPU')


def test_nodes_have_equal_parts():
    first, second = machines.cells_of(NUMA)
    assert first.cpuset | first.pcpuset == {0, 1, 2, 3}
    assert second.pcpuset == {4, 5}
    assert second.siblings == (frozenset({4, 5}), frozenset({6, 7}))
    assert [(each.size_kb, each.total) for each in first.mempages] == [
        (4, (4096 - 2048) * 256),
        (1048576, 2),
    ]


def test_without_dedicated_cpus_all_may_be_pinned():
    (cell,) = machines.cells_of(Host('a', numa_nodes=1))
    assert cell.pcpuset == cell.cpuset == frozenset(range(16))


def test_no_nodes():
    assert machines.cells_of(Host('a')) == ()
    assert machines.topology_text(()) is None


def test_nodes_are_read_as_they_are_written():
    cells = machines.cells_of(NUMA)
    assert host_cells(machines.topology_text(cells)) == cells


def test_devices_are_read_as_they_are_written():
    pools = machines.pools_of(Host('a', numa_nodes=2, devices=(NIC, NIC, TRACKED)))
    assert sorted(pool.count for pool in pools) == [1, 1, 6]
    assert len({pool.rp_uuid for pool in pools}) == 3
    read = parse_pools(machines.pools_text(pools))
    assert {pool.rp_uuid: pool for pool in read} == {p.rp_uuid: p for p in pools}


def test_providers():
    root, *devices = machines.providers_of(
        Host('a', vcpus=8, dedicated_cpus=frozenset({0, 1}), devices=(NIC, TRACKED))
    )
    assert root.parent is None
    assert {name: each['total'] for name, each in root.inventories.items()} == {
        'VCPU': 6,
        'PCPU': 2,
        'MEMORY_MB': 65536,
        'DISK_GB': 1000,
    }
    assert [each.parent for each in devices] == [root.uuid] * 2
    pools = machines.pools_of(Host('a', devices=(NIC, TRACKED)))
    assert {each.uuid for each in devices} == {
        pool.rp_uuid for pool in pools if pool.rp_uuid
    }
