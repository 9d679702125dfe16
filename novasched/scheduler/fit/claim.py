# SPDX-License-Identifier: Apache-2.0
"""NUMA and PCI usage of an instance on the host that was picked for it.

Nova: scheduler/host_manager.py, consume_from_request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from novasched.errors import RequestError
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import NOWHERE, HostPools, HostTopology
from novasched.scheduler.fit.pci import Pools, ProviderMapping
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed
from novasched.scheduler.fit.requirements import (
    FitRequirements,
    HostCapacity,
    limits_of,
    topology_of,
)
from novasched.scheduler.fit.topology import (
    Cpus,
    Guest,
    GuestCell,
    HostCell,
    Pages,
)
from novasched.scheduler.hosts import HostState, HostTable


class Booked(NamedTuple):
    """The hosts after the booking, and the cells of the instance where it is now.

    ``problem`` is why not all was booked; the instance keeps its host.
    """

    hosts: HostTable
    topology: InstanceNUMATopology | None
    problem: RequestError | None = None


def book(hosts: HostTable, row: int, request: RequestSpec, fitting: Fitting) -> Booked:
    """Fit the instance once more on its host, and book what it takes.

    ``row`` is a row of the snapshot. If the cells do not fit, nothing is booked of
    them, and the instance keeps those it asks for; for nova it has none then. What
    cannot be booked is left out; for nova, all that comes after it, too.
    """
    topology = request.if_set('numa_topology')
    requirements = FitRequirements.of(request, fitting)
    if requirements.guest is None and not requirements.requests:
        return Booked(hosts, topology)
    host = HostState(hosts.snapshot, row)
    limits = limits_of(host.limits.get('numa_topology'))
    before = HostCapacity(host.numa_topology or NOWHERE, host.pci_stats, limits)
    after, guest, problem = book_on(before, requirements, _providers(request))
    changes: dict[str, Any] = {}
    if after.topology is not before.topology:
        changes['numa_topology'] = after.topology
    if after.pools is not before.pools:
        changes['pci_stats'] = after.pools
    if problem and fitting.as_nova:
        changes['num_io_ops'] = host.num_io_ops - 1
    if topology and guest is not None:
        topology = topology_of(guest, topology)
    elif fitting.as_nova:
        topology = None
    return Booked(hosts.replace(row, **changes), topology, problem)


class BookedCapacity(NamedTuple):
    """The capacity of a host that is left by a guest; see Booked."""

    left: HostCapacity
    guest: Guest | None
    problem: RequestError | None = None


def book_on(
    capacity: HostCapacity,
    requirements: FitRequirements,
    mapping: ProviderMapping | None,
) -> BookedCapacity:
    """Fit a guest, and book its cells and devices; what has not changed is the same."""
    left, guest, problem = _fitted(capacity, requirements, mapping)
    if requirements.requests and not (problem and requirements.fitting.as_nova):
        free, failed = _served(capacity, requirements, guest, mapping)
        problem = problem or failed
        if free is not capacity.pools.free:
            left = left._replace(pools=HostPools.of(free))
    return BookedCapacity(left, guest, problem)


def _fitted(
    capacity: HostCapacity,
    requirements: FitRequirements,
    mapping: ProviderMapping | None,
) -> BookedCapacity:
    """Fit the guest, if it has cells and the host does, and add what it uses of them.

    The guest is None if it did not fit.
    """
    cells, guest = capacity.topology.cells, requirements.guest
    fitting = requirements.fitting
    if guest is None or not cells:
        return BookedCapacity(capacity, guest)
    devices = capacity.devices(requirements.requests, mapping)
    attempt = fitting.attempt(cells, guest, capacity.limits, devices)
    if not attempt.fits:
        return BookedCapacity(capacity, None)
    try:
        after = with_usage(cells, attempt.guest, fitting.as_nova)
    except BookingFailed as problem:
        return BookedCapacity(capacity, attempt.guest, problem)
    left = capacity._replace(topology=HostTopology.of(after))
    return BookedCapacity(left, attempt.guest)


def _served(
    capacity: HostCapacity,
    requirements: FitRequirements,
    guest: Guest | None,
    mapping: ProviderMapping | None,
) -> tuple[Pools, DeviceRequestFailed | None]:
    """Return the pools without what the guest takes, and why they are not."""
    cells = None if guest is None else frozenset(cell.id for cell in guest.cells)
    try:
        return capacity.devices(requirements.requests, mapping).apply(cells), None
    except DeviceRequestFailed as problem:
        as_nova = requirements.fitting.as_nova
        return problem.left if as_nova else capacity.pools.free, problem


def _providers(request: RequestSpec) -> Mapping[str, Sequence[str]] | None:
    """Return the providers of each requested group; None if groups were never set."""
    groups = request.if_set('requested_resources')
    if groups is None:
        return None
    return {group.requester_id or '': group.provider_uuids for group in groups}


class BookingFailed(RequestError):
    """The usage of a cell cannot include a guest cell.

    ``error`` names nova's exception, or ours of the same meaning; ``cell`` is the id
    of the host cell.
    """

    def __init__(self, error: str, cell: int, problem: str) -> None:
        super().__init__(error, cell, problem)
        self.error = error
        self.cell = cell
        self.problem = problem

    def __str__(self) -> str:
        return f'{self.error}: cell {self.cell}: {self.problem}'


def with_usage(
    cells: tuple[HostCell, ...], guest: Guest, as_nova: bool
) -> tuple[HostCell, ...]:
    """Return the cells of a host with a fitted guest on them.

    ``as_nova`` fails wherever nova does. Otherwise a cell without page data has CPUs
    and memory used, and an old cell what it knows of. If cores are taken whole, threads
    that others have stay theirs. Raises BookingFailed for host CPUs that are missing or
    taken. Nova: virt/hardware.py, numa_usage_from_instance_numa.
    """
    return tuple(_used(cell, guest, as_nova) for cell in cells)


def _used(cell: HostCell, guest: Guest, as_nova: bool) -> HostCell:
    if as_nova and cell.pcpuset is None:
        problem = 'the compute reports no dedicated CPUs'
        raise BookingFailed('UnsetField', cell.id, problem)
    for guest_cell in guest.cells:
        if guest_cell.id == cell.id:
            cell = dataclasses.replace(
                cell,
                mempages=_pages(cell, guest_cell, as_nova),
                memory_usage=max(0, cell.memory_usage + guest_cell.memory),
                cpu_usage=max(0, cell.cpu_usage + len(guest_cell.cpuset)),
                pinned_cpus=cell.pinned_cpus | _pinned(cell, guest_cell, as_nova),
            )
    return cell


def _pages(cell: HostCell, guest_cell: GuestCell, as_nova: bool) -> tuple[Pages, ...]:
    size_kb = guest_cell.pagesize
    if not size_kb:
        if cell.smallest_pages is None:
            if as_nova:
                problem = 'the compute reports no memory pages'
                raise BookingFailed('IndexError', cell.id, problem)
            return ()
        size_kb = cell.smallest_pages.size_kb
    return tuple(
        pages._replace(
            used=int(max(0, pages.used + guest_cell.memory * 1024 / size_kb))
        )
        if pages.size_kb == size_kb
        else pages
        for pages in cell.mempages
    )


def _pinned(cell: HostCell, guest_cell: GuestCell, as_nova: bool) -> Cpus:
    """Return the host CPUs that are no longer free for others."""
    if not guest_cell.pins:
        return frozenset()
    cpus = frozenset(host for _, host in guest_cell.pinning or ())
    cpus |= guest_cell.reserved or frozenset()
    if guest_cell.cpu_thread_policy == 'isolate':
        # A CPU of another cell, from an earlier try, is on none of these cores.
        whole = Cpus().union(*(core for core in cell.siblings if core & cpus))
        cpus = whole if as_nova else cpus | (whole & cell.free_cpus)
    if not cpus <= (cell.pcpuset or frozenset()):
        problem = f'CPUs {_listed(cpus)} are not all for pinning'
        raise BookingFailed('CPUPinningUnknown', cell.id, problem)
    if taken := cpus & cell.pinned_cpus:
        problem = f'CPUs {_listed(taken)} are pinned already'
        raise BookingFailed('CPUPinningInvalid', cell.id, problem)
    return cpus


def _listed(cpus: Cpus) -> str:
    return ', '.join(map(str, sorted(cpus)))
