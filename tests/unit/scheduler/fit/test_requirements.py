# SPDX-License-Identifier: Apache-2.0
"""NUMA and PCI requirements of a request."""

import pytest

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import NOWHERE, HostPools, HostTopology
from novasched.scheduler.fit.requirements import (
    FitRequirements,
    HostCapacity,
    guest_of,
    topology_of,
)
from novasched.scheduler.fit.topology import CellLimits, Networks
from tests.support.clouds import factories, topologies
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)
from tests.support.tables.cases import cases

ID = '7c676751-512d-41c1-b313-66dc92a3b8f6'
TWO = HostTopology(numa_topology(numa_cell(0, range(4)), numa_cell(1, range(4, 8))))
RIGHT, NOVA = Fitting(), Fitting(as_nova=True)


def question(*cells, fitting=RIGHT, **values):
    topology = guest_topology(*cells) if cells else None
    return FitRequirements.of(
        factories.request(numa_topology=topology, **values), fitting
    )


def place(*pools, topology=TWO, limits=None):
    return HostCapacity(topology, HostPools(factories.pools(*pools)), limits)


def mapped(*uuids):
    groups = {f'{ID}-{number}': [uuid] for number, uuid in enumerate(uuids)}
    return {'': ['root'], **groups}


def seen(asked, where, *mappings):
    return asked.equivalence_class(where, mappings or [None])


def test_requests_that_ask_the_same_are_equal():
    networks = NetworkMetadata(physnets={'a'}, tunneled=True)
    first, second = (
        question(
            guest_cell(),
            pci_requests=factories.devices(2),
            network_metadata=networks,
            instance_uuid=f'c0000000-0000-4000-8000-00000000000{number}',
        )
        for number in range(2)
    )
    assert first == second
    assert hash(first) == hash(second)
    assert first.networks == Networks(frozenset('a'), True)
    assert question().guest is None
    assert first != question(guest_cell(), fitting=NOVA)


@cases(
    'asked, tells_apart',
    ('nodes', question(guest_cell()), False),
    ('nodes for nova', question(guest_cell(), fitting=NOVA), True),
    ('nothing for nova', question(fitting=NOVA), False),
    ('a port', question(pci_requests=factories.devices(alias=None)), False),
    ('an alias', question(pci_requests=factories.devices()), True),
)
def test_candidates_matter_where_one_may_fit_and_another_not(asked, tells_apart):
    assert asked.tells_candidates_apart == tells_apart


def test_without_devices_only_their_number_by_node_is_seen():
    asked = question(guest_cell())
    near = {'numa_node': 1, 'count': 2}
    one = seen(asked, place(near))
    assert one == seen(asked, place({'numa_node': 1, 'tag': 'x'}, {'numa_node': 1}))
    assert one != seen(asked, place({'numa_node': 0, 'count': 2}))
    assert seen(asked, place()) == seen(asked, place(3))
    assert seen(asked, place(limits=CellLimits(1.0, 1.0))) != seen(asked, place())


def test_of_devices_it_is_seen_whether_they_match():
    asked = question(pci_requests=factories.devices(request_id=ID))
    one = seen(asked, place({'address': 'a'}, topology=NOWHERE))
    assert one == seen(asked, place({'address': 'b'}, topology=TWO))
    assert one != seen(asked, place({'vendor_id': '10de'}))
    assert one != seen(asked, place({'numa_node': 1}))
    assert one != seen(asked, place(2))


def test_providers_are_seen_by_the_place_of_their_pools():
    asked = question(pci_requests=factories.devices(request_id=ID))
    first, second = place({'rp_uuid': 'a'}, {}), place({'rp_uuid': 'b'}, {})
    assert seen(asked, first, mapped('a')) == seen(asked, second, mapped('b'))
    assert seen(asked, first, mapped('a')) != seen(asked, second, mapped('a'))
    assert seen(asked, first, mapped()) == seen(asked, second, mapped())


@pytest.mark.parametrize('fitting', [RIGHT, NOVA], ids=['right', 'nova'])
def test_each_candidate_has_its_answer(fitting):
    where = place({'numa_node': 1, 'rp_uuid': 'near'})
    devices = factories.devices(request_id=ID, numa_policy='required')
    asked = question(guest_cell(), pci_requests=devices, fitting=fitting)
    assert asked.fits(where, [mapped('far'), mapped('near')]) == [False, True]


class Counting(Fitting):
    def attempts(self, cells, guest, limits, each):
        object.__setattr__(self, 'asked', len(each))
        return super().attempts(cells, guest, limits, each)


@pytest.mark.parametrize(('as_nova', 'asked'), [(False, 2), (True, 3)])
def test_candidates_with_the_same_providers_are_fitted_once(as_nova, asked):
    where = place({'numa_node': 1, 'rp_uuid': 'near'})
    devices = factories.devices(request_id=ID, numa_policy='required')
    fitting = Counting(as_nova=as_nova)
    wants = question(guest_cell(), pci_requests=devices, fitting=fitting)
    mappings = [mapped('near'), mapped('far'), {**mapped('near'), 'other': ['x']}]
    assert wants.fits(where, mappings) == [True, False, True]
    assert fitting.asked == asked


def wanted(**given):
    cell = InstanceNUMACell(id=0, cpuset={0}, pcpuset={1, 2}, memory=512, **given)
    return InstanceNUMATopology(cells=[cell])


def test_a_fitted_guest_goes_there_and_back():
    asked = wanted(cpu_policy='mixed', pagesize=-1)
    asked.emulator_threads_policy = 'isolate'
    fitted = topologies.guest(
        topologies.guest_cell(
            8, shared={0}, dedicated={1, 2}, memory=512, pagesize=4,
            pinning=((1, 10), (2, 11)), reserved=frozenset({12}),
        ),
        isolates_emulator=True,
    )  # fmt: skip
    made = topology_of(fitted, asked)
    assert guest_of(made) == fitted
    assert made.cells[0].cpu_pinning_raw == {'1': 10, '2': 11}
    assert made.emulator_threads_policy == 'isolate'
    assert asked.cells[0].pagesize == -1


def test_a_guest_without_pinning_goes_there_and_back():
    asked = wanted()
    assert guest_of(topology_of(guest_of(asked), asked)) == guest_of(asked)
