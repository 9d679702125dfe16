# SPDX-License-Identifier: Apache-2.0
"""Requests made of what an owner asks for."""

import pytest

from lab.tests.unit.fakes import flavor
from novasched import errors
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import destined, request_spec
from novasched_lab.api.new_instance import instance_of
from tests.support.tables.cases import cases

UUID = 'c0000000-0000-4000-8000-000000000001'
NIC = {'name': 'nic', 'vendor_id': '15b3', 'product_id': '1018'}


def made(image=None, specs=None, **values):
    size = {name: values.pop(name) for name in ('vcpus', 'memory_mb') if name in values}
    return request_spec(
        UUID,
        flavor(extra_specs=specs or {}, **size),
        {'id': 'i', 'properties': image or {}},
        project_id='p',
        user_id='u',
        **values,
    )


@cases(
    'zone, expected',
    ('anywhere', None, (None, None, None)),
    ('a zone', 'az1', ('az1', None, None)),
    ('a host', 'az1:h1', ('az1', ['h1'], None)),
    ('a host and a node', 'az1:h1:n1', ('az1', ['h1'], ['n1'])),
    ('a node', 'az1::n1', ('az1', None, ['n1'])),
)
def test_a_zone_may_force_a_host(zone, expected):
    found = made(availability_zone=zone)
    assert (found.availability_zone, found.force_hosts, found.force_nodes) == expected


def test_hints_are_in_it():
    found = made(hints={'same_host': ['x']})
    assert found.scheduler_hints == {'same_host': ['x']}
    assert found.requested_networks.objects == []
    assert not found.is_bfv


def test_a_destination_can_be_named_later():
    assert destined(made(), 'h1').requested_destination.host == 'h1'


@cases(
    ('specs', 'cells'),
    ('nothing', {}, None),
    (
        'two nodes',
        {'hw:numa_nodes': '2'},
        [({0, 1}, set(), 512, None), ({2, 3}, set(), 512, None)],
    ),
    (
        'a word for pages',
        {'hw:mem_page_size': 'large'},
        [({0, 1, 2, 3}, set(), 1024, -2)],
    ),
    (
        'pages with a unit',
        {'hw:mem_page_size': '2MB'},
        [({0, 1, 2, 3}, set(), 1024, 2048)],
    ),
    ('dedicated', {'hw:cpu_policy': 'dedicated'}, [(set(), {0, 1, 2, 3}, 1024, None)]),
    (
        'dedicated by its resource',
        {'resources:PCPU': '4', 'hw:mem_page_size': '1048576'},
        [(set(), {0, 1, 2, 3}, 1024, 1048576)],
    ),
    (
        'mixed',
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'},
        [({2, 3}, {0, 1}, 1024, None)],
    ),
    (
        'what each node has',
        {
            'hw:numa_nodes': '2',
            'hw:numa_cpus.0': '0-2',
            'hw:numa_mem.0': '768',
            'hw:numa_cpus.1': '3',
            'hw:numa_mem.1': '256',
        },
        [({0, 1, 2}, set(), 768, None), ({3}, set(), 256, None)],
    ),
)
def test_nodes_of_the_guest(specs, cells):
    topology = made(specs=specs, vcpus=4, memory_mb=1024).numa_topology
    found = topology and [
        (set(cell.cpuset), set(cell.pcpuset), cell.memory, cell.pagesize)
        for cell in topology.cells
    ]
    assert found == cells


@cases(
    'specs',
    ('parts that are not equal', {'hw:numa_nodes': '3'}),
    ('more nodes than CPUs', {'hw:numa_nodes': '9'}),
    ('nodes that are no number', {'hw:numa_nodes': 'x'}),
    ('an unknown size of pages', {'hw:mem_page_size': 'huge'}),
    ('pages of no size', {'hw:mem_page_size': f'{2**62}MB'}),
    ('a mix without a mask', {'hw:cpu_policy': 'mixed'}),
    ('a CPU in no node', {'hw:numa_nodes': '1', 'hw:numa_cpus.0': '0'}),
    ('memory in no node', {'hw:numa_nodes': '1', 'hw:numa_cpus.0': '0-3'}),
    ('an unknown alias', {'pci_passthrough:alias': 'gpu:1'}),
    ('an alias without count', {'pci_passthrough:alias': 'nic'}),
)
def test_demands_that_cannot_be(specs):
    with pytest.raises(errors.InvalidDemand):
        made(specs=specs, vcpus=4, memory_mb=1024, aliases=PciAliases([NIC]))


@cases(
    ('specs', 'vcpus', 'words'),
    ('more nodes than any host', {'hw:numa_nodes': '4097'}, 4097, 'may be 4096'),
    ('CPUs without end', {'hw:cpu_policy': 'dedicated'}, 2**31, 'may be 65536'),
    (
        'an unknown policy',
        {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'x'},
        2,
        'CPU thread policy',
    ),
    (
        'nodes that share more CPUs than there can be',
        {
            'hw:numa_nodes': '2',
            'hw:numa_cpus.0': '0-40000',
            'hw:numa_mem.0': '1',
            'hw:numa_cpus.1': '0-40000',
            'hw:numa_mem.1': '1',
        },
        40001,
        'CPUs are named',
    ),
)
def test_demands_without_bounds(specs, vcpus, words):
    with pytest.raises(errors.InvalidRequest, match=words):
        made(specs=specs, vcpus=vcpus, memory_mb=vcpus)


def test_as_many_nodes_as_there_may_be():
    specs = {'hw:numa_nodes': '1024'}
    assert (
        len(made(specs=specs, vcpus=1024, memory_mb=1024).numa_topology.cells) == 1024
    )


def test_an_alias_asks_for_devices():
    found = made(
        specs={'pci_passthrough:alias': 'nic:2'},
        aliases=PciAliases([{**NIC, 'device_type': 'type-VF'}]),
    )
    (request,) = found.pci_requests.requests
    assert (request.count, request.alias_name, request.numa_policy) == (
        2,
        'nic',
        'legacy',
    )
    assert request.spec == [
        {'vendor_id': '15b3', 'product_id': '1018', 'dev_type': 'type-VF'}
    ]
    assert found.requested_resources == []


def test_the_instance_is_what_the_request_is_for():
    found = instance_of(made(image={'hw_cdrom_bus': 'sata'}), 'vm', 3)
    assert (found.uuid, found.vm_state) == (UUID, 'building')
    assert found.system_metadata['image_hw_cdrom_bus'] == 'sata'
    assert (found.vcpus, found.display_name, found.launch_index) == (1, 'vm', 3)


def test_host_and_node_of_a_new_instance_are_unset_as_nova_wants_them():
    found = instance_of(made(), 'vm')
    sent = found.obj_to_primitive()['nova_object.data']
    assert not {'host', 'node', 'compute_id'}.intersection(sent)
    cache = sent['info_cache']['nova_object.data']
    assert cache == {'instance_uuid': UUID, 'network_info': '[]'}
