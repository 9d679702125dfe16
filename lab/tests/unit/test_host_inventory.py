# SPDX-License-Identifier: Apache-2.0
from novasched.scheduler.fit.parse import host_cells, parse_pools
from novasched_lab import host_inventory
from novasched_lab.host_inventory import Devices, SimulatedHost, Usage

NUMA = SimulatedHost(
    'a',
    vcpus=8,
    memory_mb=8192,
    numa_nodes=2,
    dedicated_cpus=frozenset({0, 1, 4, 5}),
    pages={1048576: 2},
)
NIC = Devices('15b3', '1018', 3, 'type-VF', 1, 'physnet0')
GPU = Devices('10de', '2204', 2)


def test_nodes_have_equal_parts():
    first, second = host_inventory.numa_cells_of(NUMA)
    assert first.cpuset | first.pcpuset == {0, 1, 2, 3}
    assert second.pcpuset == {4, 5}
    assert second.siblings == (frozenset({4, 5}), frozenset({6, 7}))
    assert [(each.size_kb, each.total) for each in first.mempages] == [
        (4, (4096 - 2048) * 256),
        (1048576, 2),
    ]


def test_without_dedicated_cpus_all_may_be_pinned():
    (cell,) = host_inventory.numa_cells_of(SimulatedHost('a', numa_nodes=1))
    assert cell.pcpuset == cell.cpuset == frozenset(range(16))


def test_no_nodes():
    assert host_inventory.numa_cells_of(SimulatedHost('a')) == ()
    assert host_inventory.topology_text(()) is None


def test_nodes_are_read_as_they_are_written():
    cells = host_inventory.numa_cells_of(NUMA)
    assert host_cells(host_inventory.topology_text(cells)) == cells


def test_devices_are_read_as_they_are_written():
    pools = host_inventory.pools_of(
        SimulatedHost('a', numa_nodes=2, devices=(NIC, NIC, GPU))
    )
    assert sorted(pool.count for pool in pools) == [2, 6]
    read = parse_pools(host_inventory.pools_text(pools))
    assert {pool.tags: pool for pool in read} == {pool.tags: pool for pool in pools}


def test_the_provider_of_a_host():
    host = SimulatedHost('a', vcpus=8, dedicated_cpus=frozenset({0, 1}), devices=(NIC,))
    found = host_inventory.provider_of(host)
    assert (found.uuid, found.name, found.parent) == (host.uuid, 'a', None)
    assert {name: each.total for name, each in found.inventories.items()} == {
        'VCPU': 6,
        'PCPU': 2,
        'MEMORY_MB': 65536,
        'DISK_GB': 1000,
    }


def test_usage_of_a_host_is_reserved():
    usage = Usage(vcpus=5, memory_mb=512, disk_gb=3)
    found = host_inventory.provider_of(SimulatedHost('a'), usage).inventories
    assert {name: each.reserved for name, each in found.items()} == {
        'VCPU': 2,
        'MEMORY_MB': 512,
        'DISK_GB': 3,
    }
