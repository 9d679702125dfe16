# SPDX-License-Identifier: Apache-2.0
"""What an instance takes from the nodes and devices of the host picked for it.

Nova: scheduler/host_manager.py, consume_from_request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from novasched import errors
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.devices import DeviceRequestFailed
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.guests import Guest
from novasched.scheduler.fit.host_topology import NOWHERE, HostPools, HostTopology
from novasched.scheduler.fit.pools import Pools
from novasched.scheduler.fit.question import Mapped, Place, Question
from novasched.scheduler.fit.topology import HostCell, Limits
from novasched.scheduler.fit.usage import BookingFailed, with_usage
from novasched.scheduler.fit.wire import networks_of, topology_of
from novasched.scheduler.hosts import HostState, HostTable


class Booked(NamedTuple):
    """The hosts after the booking, and the nodes of the instance where it is now.

    ``problem`` is why not all was booked; the instance keeps its host.
    """

    hosts: HostTable
    topology: InstanceNUMATopology | None
    problem: errors.RequestError | None = None


class _Nodes(NamedTuple):
    """The nodes of a host after a guest came; ``guest`` None: it did not fit."""

    cells: tuple[HostCell, ...]
    guest: Guest | None
    problem: errors.RequestError | None = None


def book(hosts: HostTable, row: int, request: RequestSpec, fitting: Fitting) -> Booked:
    """Fit the instance once more on its host, and book what it takes.

    ``row`` is a row of the snapshot. If the nodes do not fit, nothing is booked of
    them, and the instance keeps those it asks for; for nova it has none then. What
    cannot be booked is left out; for nova, all that comes after it, too.
    """
    topology = request.numa_topology if 'numa_topology' in request else None
    question = Question.of(request, fitting)
    if question.guest is None and not question.requests:
        return Booked(hosts, topology)
    host = HostState(hosts.snapshot, row)
    place = Place(host.numa_topology or NOWHERE, host.pci_stats, _limits(host))
    mapping = _providers(request)
    nodes = _fitted(place, question, mapping)
    free, problem = place.pools.free, nodes.problem
    if question.requests and not (problem and fitting.as_nova):
        free, failed = _served(place, question, nodes.guest, mapping)
        problem = problem or failed
    changes: dict[str, Any] = {}
    if nodes.cells is not place.topology.cells:
        changes['numa_topology'] = HostTopology.of(nodes.cells)
    if free is not place.pools.free:
        changes['pci_stats'] = HostPools.of(free)
    if problem and fitting.as_nova:
        changes['num_io_ops'] = host.num_io_ops - 1
    if topology and nodes.guest is not None:
        topology = topology_of(nodes.guest, topology)
    elif fitting.as_nova:
        topology = None
    return Booked(hosts.replace(row, **changes), topology, problem)


def _fitted(place: Place, question: Question, mapping: Mapped | None) -> _Nodes:
    """Fit the guest, if it has nodes and the host does, and add what it uses."""
    cells, guest, fitting = place.topology.cells, question.guest, question.fitting
    if guest is None or not cells:
        return _Nodes(cells, guest)
    devices = place.devices(question.requests, mapping)
    attempt = fitting.attempt(cells, guest, place.limits, devices)
    if not attempt.fits:
        return _Nodes(cells, None)
    try:
        after = with_usage(cells, attempt.guest, fitting.as_nova)
    except BookingFailed as problem:
        return _Nodes(cells, attempt.guest, problem)
    return _Nodes(after, attempt.guest)


def _served(
    place: Place, question: Question, guest: Guest | None, mapping: Mapped | None
) -> tuple[Pools, DeviceRequestFailed | None]:
    """Return the pools without what the guest takes, and why they are not."""
    nodes = None if guest is None else frozenset(cell.id for cell in guest.cells)
    try:
        return place.devices(question.requests, mapping).apply(nodes), None
    except DeviceRequestFailed as problem:
        as_nova = question.fitting.as_nova
        return problem.left if as_nova else place.pools.free, problem


def _limits(host: HostState) -> Limits | None:
    """Return the limits that a filter recorded."""
    limits: NUMATopologyLimits | None = host.limits.get('numa_topology')
    if limits is None:
        return None
    asked = limits.network_metadata if 'network_metadata' in limits else None
    cpu, ram = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
    return Limits(cpu, ram, networks_of(asked))


def _providers(request: RequestSpec) -> Mapping[str, Sequence[str]] | None:
    """Return the providers of each requested group; None: groups were never set."""
    if 'requested_resources' not in request or request.requested_resources is None:
        return None
    return {
        group.requester_id or '': group.provider_uuids
        for group in request.requested_resources
    }
