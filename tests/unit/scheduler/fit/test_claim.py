# SPDX-License-Identifier: Apache-2.0
"""NUMA and PCI usage of an instance on the host picked for it."""

from __future__ import annotations

import pytest

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestGroup
from novasched.scheduler.fit.claim import BookingFailed, book, with_usage
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.topology import Pages
from tests.support.clouds import factories, topologies
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)
from tests.support.tables.cases import cases

RIGHT, NOVA = Fitting(), Fitting(as_nova=True)
BOTH = pytest.mark.parametrize('fitting', [RIGHT, NOVA], ids=['right', 'nova'])
TWO = numa_topology(numa_cell(0, range(4)), numa_cell(1, range(4, 8)))
GROUP = '7c676751-512d-41c1-b313-66dc92a3b8f6'


def hosts(topology=TWO, pools=None, limits=None):
    return factories.hosts(
        numa_topology=[None, topology],
        pci_stats=[None, pools],
        limits=[{}, {'numa_topology': limits} if limits else {}],
        num_io_ops=[0, 3],
    )


def limits(**networks):
    return NUMATopologyLimits(
        cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0, **networks
    )


def booked(table, fitting, *cells, **values):
    topology = guest_topology(*cells) if cells else None
    request = factories.request(numa_topology=topology, **values)
    found = book(table, 1, request, fitting)
    assert request.numa_topology is topology
    return found, found.hosts.state(1)


def counts(host):
    return [pool['count'] for pool in host.pci_stats.pools]


@BOTH
def test_nodes_and_devices_are_taken(fitting):
    table = hosts(pools=factories.pools({'numa_node': 1, 'count': 3}), limits=limits())
    found, host = booked(
        table,
        fitting,
        guest_cell(cpus=range(2), policy='dedicated'),
        pci_requests=factories.devices(2, numa_policy='required'),
    )
    assert found.problem is None
    assert [cell.id for cell in found.topology.cells] == [1]
    assert found.topology.cells[0].cpu_pinning == {0: 4, 1: 5}
    assert [sorted(cell.pinned_cpus) for cell in host.numa_topology.cells] == [
        [],
        [4, 5],
    ]
    assert counts(host) == [1]
    assert table.state(1).numa_topology.cells[1].pinned_cpus == frozenset()
    assert counts(table.state(1)) == [3]
    assert host.num_io_ops == 3


@BOTH
def test_a_request_for_neither_books_nothing(fitting):
    table = hosts()
    found, _ = booked(table, fitting)
    assert found.hosts is table
    assert (found.topology, found.problem) == (None, None)


@BOTH
def test_a_field_that_is_not_set_is_no_request(fitting):
    request = factories.request()
    for name in ('numa_topology', 'pci_requests'):
        delattr(request, f'_obj_{name}')
    table = hosts()
    assert book(table, 1, request, fitting).hosts is table


@BOTH
@cases(
    'limits',
    ('too many CPUs', limits()),
    (
        'with networks',
        limits(network_metadata=NetworkMetadata(physnets=set(), tunneled=True)),
    ),
)
def test_limits_hold_that_a_filter_recorded(fitting, limits):
    full = numa_topology(numa_cell(cpu_usage=4))
    found, host = booked(hosts(full, limits=limits), fitting, guest_cell())
    assert host.numa_topology.cells[0].cpu_usage == 4
    assert found.problem is None
    kept = found.topology and [cell.id for cell in found.topology.cells]
    assert kept == (None if fitting.as_nova else [0])


@BOTH
def test_without_limits_ratios_do_not_hold(fitting):
    table = hosts(numa_topology(numa_cell(cpu_usage=9)))
    _, host = booked(table, fitting, guest_cell())
    assert host.numa_topology.cells[0].cpu_usage == 10


@BOTH
def test_a_host_without_nodes_gives_its_devices(fitting):
    table = hosts(None, factories.pools(2))
    found, host = booked(table, fitting, guest_cell(), pci_requests=factories.devices())
    assert host.numa_topology is None
    assert [cell.id for cell in found.topology.cells] == [0]
    assert counts(host) == [1]


@cases(
    'fitting, left, cells, io_ops',
    ('they are left out', RIGHT, [2, 1], [0], 3),
    ('for nova what came before is booked', NOVA, [1], None, 2),
)
def test_devices_that_are_not_there(fitting, left, cells, io_ops):
    table = hosts(pools=factories.pools(2, {'tag': 'x'}))
    asked = factories.devices(2)
    asked.requests.append(factories.devices(9).requests[0])
    found, host = booked(table, fitting, guest_cell(), pci_requests=asked)
    assert type(found.problem).__name__ == 'DeviceRequestFailed'
    assert counts(host) == left
    assert [cell.cpu_usage for cell in host.numa_topology.cells] == [0, 0]
    assert (found.topology and [cell.id for cell in found.topology.cells]) == cells
    assert host.num_io_ops == io_ops


@cases(
    'fitting, used_mb, left, failed',
    ('right', RIGHT, 1024, [1], False),
    ('nova', NOVA, 0, [2], True),
)
def test_a_node_that_reports_no_pages(fitting, used_mb, left, failed):
    bare = numa_topology(numa_cell(pages={}))
    table = hosts(bare, factories.pools(2))
    found, host = booked(table, fitting, guest_cell(), pci_requests=factories.devices())
    assert bool(found.problem) == failed
    assert host.numa_topology.cells[0].memory_usage == used_mb
    assert counts(host) == left
    assert [cell.id for cell in found.topology.cells] == [0]


@cases(
    'groups, left',
    ('none were set', None, [2, 1]),
    ('there are none', [], [2, 1]),
    ('of one provider', [(f'{GROUP}-0', 'b'), (None, 'a')], [2, 1]),
    ('of others', [('port', 'a')], [1, 2]),
)
def test_devices_come_from_the_claimed_candidate(groups, left):
    spec = {'vendor_id': '8086', 'rp_uuids': 'b'}
    given = groups and [_group(*one) for one in groups]
    pools = factories.pools(*({'rp_uuid': name, 'count': 2} for name in 'ab'))
    asked = factories.devices(1, spec, request_id=GROUP)
    values = {'pci_requests': asked, 'requested_resources': given}
    _, host = booked(hosts(pools=pools), RIGHT, **values)
    assert counts(host) == left


def _group(name, uuid):
    made = RequestGroup(requester_id=name)
    made.__dict__['_obj_provider_uuids'] = [uuid]
    return made


CORES = ((0, 4), (1, 5), (2, 6), (3, 7))
PAGES = (Pages(2048, 600, 1), Pages(4, 1048576))


@cases('host, guest, error, after',
    ('no page data', {'mempages': ()}, {'shared': {0}},
     'IndexError: cell 0: the compute reports no memory pages',
     {'cpu_usage': 1, 'memory_usage': 1024}),
    ('an old compute', {'pcpuset': None}, {'shared': {0}, 'pagesize': 2048},
     'UnsetField: cell 0: the compute reports no dedicated CPUs',
     {'cpu_usage': 1, 'memory_usage': 1024}),
    ('the CPU of the emulator is on a core that is in use',
     {'cores': CORES, 'pinned_cpus': {5}},
     {'dedicated': {0}, 'pinning': ((0, 0),), 'reserved': frozenset({1}),
      'cpu_thread_policy': 'isolate', 'pagesize': 1},
     'CPUPinningInvalid: cell 0: CPUs 5 are pinned already',
     {'memory_usage': 1024, 'pinned_cpus': {0, 1, 4, 5}}),
)  # fmt: skip
def test_nova_fails_where_we_book_what_there_is(host, guest, error, after):
    cells = (topologies.host_cell(**host),)
    guest = topologies.guest(topologies.guest_cell(**guest))
    with pytest.raises(BookingFailed) as failed:
        with_usage(cells, guest, as_nova=True)
    assert str(failed.value) == error
    used = with_usage(cells, guest, as_nova=False)
    assert used == (topologies.host_cell(**{**host, **after}),)


@pytest.mark.parametrize('as_nova', [False, True])
@cases('taken, cpu, error',
    ('of another node', (), 9, 'CPUPinningUnknown'),
    ('that others have', {1}, 1, 'CPUPinningInvalid'),
)  # fmt: skip
def test_impossible_pinning_is_not_booked(taken, cpu, error, as_nova):
    cells = (topologies.host_cell(pinned_cpus=set(taken)),)
    node = topologies.guest_cell(dedicated={0}, pinning=((0, cpu),))
    with pytest.raises(BookingFailed) as failed:
        with_usage(cells, topologies.guest(node), as_nova)
    assert failed.value.error == error


def test_nova_books_no_cores_for_host_cpus_of_another_node():
    cells = (topologies.host_cell(),)
    node = topologies.guest_cell(
        dedicated={0}, pinning=((0, 9),), cpu_thread_policy='isolate', pagesize=1
    )
    (used,) = with_usage(cells, topologies.guest(node), as_nova=True)
    assert used == topologies.host_cell(memory_usage=1024)
    with pytest.raises(BookingFailed):
        with_usage(cells, topologies.guest(node), as_nova=False)
