# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from novasched.objects.numa import NUMATopologyLimits
from novasched_lab.compute.book import Book, ResourcesUnavailable
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.fleet import Devices, Host
from tests import factories

HOST = Host(
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
    book = Book(HOST)
    empty = book.usage()
    book.claim('u1', demand(vcpus=2))
    usage = book.usage()
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
    book.mark('u1', 'active')
    assert json.loads(book.usage()['stats'])['io_workload'] == '0'
    assert book.release('u1')
    assert book.usage() == empty
    assert not book.release('u1')


def test_what_is_not_held_is_not_marked():
    book = Book(HOST)
    book.mark('u1', 'active')
    assert not book.held


def test_a_claim_is_made_once():
    book = Book(HOST)
    first = book.claim('u1', demand(topology=pinned(4)))
    assert book.claim('u1', demand(topology=pinned(4))) is first
    assert sum(len(cell.pinned_cpus) for cell in book.cells) == 4


def test_cpus_are_pinned_until_there_are_none():
    book = Book(HOST)
    held = [book.claim(f'u{number}', demand(topology=pinned(4))) for number in (1, 2)]
    taken = [set(each.topology.cells[0].cpu_pinning.values()) for each in held]
    assert taken[0] | taken[1] == set(range(8))
    with pytest.raises(ResourcesUnavailable, match='NUMA topology cannot fit'):
        book.claim('u3', demand(topology=pinned(1)))
    assert set(book.held) == {'u1', 'u2'}
    book.release('u1')
    again = book.claim('u3', demand(topology=pinned(4)))
    assert set(again.topology.cells[0].cpu_pinning.values()) == taken[0]


def test_devices_are_taken_until_there_are_none():
    book = Book(HOST)
    book.claim('u1', demand(devices=nic(2)))
    assert not book.pools
    with pytest.raises(ResourcesUnavailable, match='Claim pci failed'):
        book.claim('u2', demand(devices=nic()))
    book.release('u1')
    assert sum(pool.count for pool in book.pools) == 2
    book.claim('u2', demand(devices=nic()))
    assert sum(pool.count for pool in book.pools) == 1


def test_devices_of_providers_come_from_these():
    tracked = Devices('8086', '1520', 2, resource_class='CUSTOM_NIC')
    book = Book(Host('a', devices=(tracked,)))
    wanted = book.pools[1].rp_uuid
    request = '40000000-0000-4000-8000-000000000001'
    devices = nic()
    devices.requests[0].request_id = request
    book.claim('u1', demand(devices=devices, providers={f'{request}-0': [wanted]}))
    assert [pool.rp_uuid for pool in book.pools] != [wanted]


def test_a_host_without_nodes_takes_no_guest_with_some():
    with pytest.raises(ResourcesUnavailable):
        Book(Host('a')).claim('u1', demand(topology=pinned(1)))


def test_what_was_held_before_is_restored():
    book = Book(HOST)
    held = book.claim('u1', demand(topology=pinned(4), devices=nic()))
    other = Book(HOST)
    assert other.restore('u1', demand(topology=held.topology, devices=nic()))
    assert other.cells == book.cells
    assert other.pools == book.pools


def test_what_cannot_be_restored_is_held_as_far_as_it_goes():
    book = Book(HOST)
    held = book.claim('u1', demand(topology=pinned(4)))
    assert not book.restore('u2', demand(topology=held.topology, devices=nic(5)))
    assert book.usage()['running_vms'] == 2
    assert sum(len(cell.pinned_cpus) for cell in book.cells) == 4


def test_a_resize_on_the_same_host_ends_with_one_claim():
    book = Book(HOST)
    book.claim('u1', demand(vcpus=2))
    book.claim('move', demand(vcpus=3))
    book.rename('move', 'u1')
    assert set(book.held) == {'u1'}
    assert book.usage()['vcpus_used'] == 3


def test_a_host_that_crashes_forgets():
    book = Book(HOST)
    empty = book.usage()
    book.claim('u1', demand(topology=pinned(2), devices=nic()))
    book.failed_builds = 3
    book.clear()
    assert book.usage() == empty
