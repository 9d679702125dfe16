# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched_lab.compute.resource_tracker import (
    Demand,
    ResourcesUnavailable,
    ResourceTracker,
)
from novasched_lab.host_inventory import Devices, SimulatedHost
from tests.support.clouds import factories

HOST = SimulatedHost(
    'a',
    vcpus=8,
    memory_mb=8192,
    disk_gb=100,
    numa_nodes=2,
    devices=(Devices('8086', '1520', 2, numa_node=1),),
)
LIMITS = NUMATopologyLimits(cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0)


def demand(vcpus=1, topology=None, devices=None, **values):
    return Demand(
        vcpus, 512, 1, 'project', topology=topology, devices=devices, limits=LIMITS,
        **values,
    )  # fmt: skip


def pinned(cpus):
    return factories.guest_topology(
        factories.guest_cell(0, range(cpus), 'dedicated', memory=512)
    )


def nic(count=1):
    return factories.devices(count, {'vendor_id': '8086', 'product_id': '1520'})


def test_usage_follows_what_is_held():
    tracker = ResourceTracker(HOST)
    empty = tracker.usage()
    tracker.claim('u1', demand(vcpus=2))
    usage = tracker.usage()
    assert (usage['vcpus_used'], usage['memory_mb_used']) == (2, 512)
    assert (usage['free_ram_mb'], usage['free_disk_gb']) == (7680, 99)
    assert json.loads(usage['stats']) == {
        'num_vm_building': '1',
        'num_task_spawning': '1',
        'num_proj_project': '1',
        'num_instances': '1',
        'io_workload': '1',
        'failed_builds': '0',
    }
    tracker.mark('u1', 'active')
    assert json.loads(tracker.usage()['stats'])['io_workload'] == '0'
    assert tracker.release('u1')
    assert tracker.usage() == empty
    assert not tracker.release('u1')


def test_unknown_instance_is_not_marked():
    tracker = ResourceTracker(HOST)
    tracker.mark('u1', 'active')
    assert not tracker.claims


def test_a_claim_is_made_once():
    tracker = ResourceTracker(HOST)
    first = tracker.claim('u1', demand(topology=pinned(4)))
    assert tracker.claim('u1', demand(topology=pinned(4))) is first
    assert sum(len(cell.pinned_cpus) for cell in tracker.cells) == 4


def test_cpus_are_pinned_until_there_are_none():
    tracker = ResourceTracker(HOST)
    held = [
        tracker.claim(f'u{number}', demand(topology=pinned(4))) for number in (1, 2)
    ]
    taken = [set(each.topology.cells[0].cpu_pinning.values()) for each in held]
    assert taken[0] | taken[1] == set(range(8))
    with pytest.raises(ResourcesUnavailable, match='NUMA topology cannot fit'):
        tracker.claim('u3', demand(topology=pinned(1)))
    assert set(tracker.claims) == {'u1', 'u2'}
    tracker.release('u1')
    again = tracker.claim('u3', demand(topology=pinned(4)))
    assert set(again.topology.cells[0].cpu_pinning.values()) == taken[0]


def test_devices_are_taken_until_there_are_none():
    tracker = ResourceTracker(HOST)
    tracker.claim('u1', demand(devices=nic(2)))
    assert not tracker.pools
    with pytest.raises(ResourcesUnavailable, match='Claim pci failed'):
        tracker.claim('u2', demand(devices=nic()))
    tracker.release('u1')
    assert sum(pool.count for pool in tracker.pools) == 2
    tracker.claim('u2', demand(devices=nic()))
    assert sum(pool.count for pool in tracker.pools) == 1


def test_a_host_without_nodes_takes_no_guest_with_some():
    with pytest.raises(ResourcesUnavailable):
        ResourceTracker(SimulatedHost('a')).claim('u1', demand(topology=pinned(1)))


def test_earlier_claim_is_restored():
    tracker = ResourceTracker(HOST)
    held = tracker.claim('u1', demand(topology=pinned(4), devices=nic()))
    other = ResourceTracker(HOST)
    assert other.restore('u1', demand(topology=held.topology, devices=nic()))
    assert other.cells == tracker.cells
    assert other.pools == tracker.pools


def test_claim_is_restored_as_far_as_possible():
    tracker = ResourceTracker(HOST)
    held = tracker.claim('u1', demand(topology=pinned(4)))
    assert not tracker.restore('u2', demand(topology=held.topology, devices=nic(5)))
    assert tracker.usage()['running_vms'] == 2
    assert sum(len(cell.pinned_cpus) for cell in tracker.cells) == 4


def test_a_resize_on_the_same_host_ends_with_one_claim():
    tracker = ResourceTracker(HOST)
    tracker.claim('u1', demand(vcpus=2))
    tracker.claim('move', demand(vcpus=3))
    tracker.rename('move', 'u1')
    assert set(tracker.claims) == {'u1'}
    assert tracker.usage()['vcpus_used'] == 3


def test_the_demand_of_a_request():
    topology = factories.guest_topology(factories.guest_cell())
    request = factories.request(
        vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, numa_topology=topology
    )
    found = Demand.of_request(request, None)
    assert (found.vcpus, found.memory_mb, found.disk_gb) == (2, 1024, 15)
    assert found.topology is topology


def test_the_demand_of_an_instance():
    instance = Instance(
        vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, project_id='p'
    )
    assert Demand.of_instance(instance) == Demand(2, 1024, 15, 'p')
