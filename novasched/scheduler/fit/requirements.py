# SPDX-License-Identifier: Apache-2.0
"""NUMA and PCI requirements of a request, and the capacity of a host for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMATopologyLimits,
)
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.pci import (
    DeviceRequest,
    ProviderMapping,
    providers_of,
    requests_of,
)
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.topology import CellLimits, Guest, GuestCell, Networks


class HostCapacity(NamedTuple):
    """Cells and devices of a host, and the limits up to which they may be filled."""

    topology: HostTopology
    pools: HostPools
    limits: CellLimits | None = None

    def devices(
        self, requests: Sequence[DeviceRequest], mapping: ProviderMapping | None
    ) -> HostDevices:
        """Return the devices; ``mapping`` names their providers."""
        return HostDevices(self.pools.free, requests, mapping, self.topology.sockets)


@dataclass(frozen=True)
class FitRequirements:
    """The part of a request that NUMA cells and PCI devices matter to.

    ``guest`` is None for one that fits any cells. Requests that ask the
    same are equal.
    """

    guest: Guest | None
    requests: tuple[DeviceRequest, ...] = ()
    networks: Networks | None = None
    fitting: Fitting = field(default_factory=Fitting)

    @classmethod
    def of(cls, request: RequestSpec, fitting: Fitting) -> FitRequirements:
        """Read the requirements out of a request."""
        topology = request.if_set('numa_topology')
        metadata = request.if_set('network_metadata')
        return cls(
            guest_of(topology, fitting) if topology else None,
            device_requests(request),
            networks_of(metadata),
            fitting,
        )

    @functools.cached_property
    def tracks_devices(self) -> bool:
        """True if it matters which providers an allocation candidate names."""
        return any(request.alias_name is not None for request in self.requests)

    @functools.cached_property
    def tells_candidates_apart(self) -> bool:
        """True if one candidate of a host may pass and another may not."""
        return self.tracks_devices or (self.guest is not None and self.fitting.as_nova)

    def fits(
        self, capacity: HostCapacity, mappings: Iterable[ProviderMapping | None]
    ) -> list[bool]:
        """Return for each mapping of providers whether the guest fits.

        Mappings to the same providers are tested once, but for nova, whose search
        goes on from what the one before it has left.
        """
        mappings = list(mappings)
        if self.guest is not None and self.fitting.as_nova:
            return self._attempts(capacity, mappings)
        providers = self.providers(mappings)
        differing = dict(zip(providers, mappings, strict=True))
        fits = dict(
            zip(differing, self._attempts(capacity, differing.values()), strict=True)
        )
        return [fits[one] for one in providers]

    def _attempts(
        self, capacity: HostCapacity, mappings: Iterable[ProviderMapping | None]
    ) -> list[bool]:
        each = [capacity.devices(self.requests, mapping) for mapping in mappings]
        if self.guest is None:
            return [devices.supports(frozenset()) for devices in each]
        cells, limits = capacity.topology.cells, capacity.limits
        attempts = self.fitting.attempts(cells, self.guest, limits, each)
        return [attempt.fits for attempt in attempts]

    def providers(
        self, mappings: Iterable[ProviderMapping | None]
    ) -> list[tuple[tuple[str, ...], ...]]:
        """Return the providers that each mapping gives to each request for devices."""
        return [
            tuple([providers_of(request, mapping) for request in self.requests])
            for mapping in mappings
        ]

    def equivalence_class(
        self, capacity: HostCapacity, mappings: Sequence[ProviderMapping | None]
    ) -> Hashable:
        """Return the equivalence class of a host: hosts of one class fit alike."""
        topology, pools, limits = capacity
        numa: Any = topology if self.guest is not None else None
        if not self.requests:
            count = pools.by_cell.get
            counts = tuple([count(cell.id, 0) for cell in topology.cells])
            return numa, counts if any(counts) else (), limits, len(mappings)
        providers = self.providers(mappings)
        number = _numbers(pools, providers)
        return (
            numa,
            tuple(
                (
                    *(request.mismatch(pool) for request in self.requests),
                    pool.numa_node,
                    pool.count,
                    number(pool.rp_uuid),
                )
                for pool in pools.free
            ),
            limits,
            tuple(
                tuple(tuple(map(number, uuids)) for uuids in of_mapping)
                for of_mapping in providers
            ),
        )


def device_requests(request: RequestSpec) -> tuple[DeviceRequest, ...]:
    """Return the devices that a request asks for."""
    return requests_of(request.if_set('pci_requests'))


def _numbers(
    pools: HostPools, providers: Iterable[Iterable[Iterable[str]]]
) -> Callable[[str | None], int | None]:
    """Return a function from the uuid of a provider to its number.

    All providers are alike where none is asked for, and all without a pool.
    """
    if not any(uuids for of_mapping in providers for uuids in of_mapping):
        return lambda uuid: None
    numbers: dict[str, int] = {}
    for pool in pools.free:
        if pool.rp_uuid is not None:
            numbers.setdefault(pool.rp_uuid, len(numbers))
    return lambda uuid: None if uuid is None else numbers.get(uuid, -1)


def guest_of(topology: InstanceNUMATopology, fitting: Fitting | None = None) -> Guest:
    """Read the cells that a request asks for, to be fitted by ``fitting``.

    Raises errors.UnsetField for a cell without CPUs, memory or id.
    """
    return Guest(
        tuple(_guest_cell(cell, fitting or Fitting()) for cell in topology.cells),
        isolates_emulator=topology.emulator_threads_policy == 'isolate',
    )


def _guest_cell(cell: InstanceNUMACell, fitting: Fitting) -> GuestCell:
    pinning = cell.cpu_pinning
    reserved = cell.cpuset_reserved
    return GuestCell(
        id=cell.id,
        cpuset=frozenset(cell.cpuset),
        pcpuset=frozenset(cell.pcpuset),
        memory=cell.memory,
        pagesize=cell.pagesize,
        cpu_policy=cell.cpu_policy,
        cpu_thread_policy=cell.cpu_thread_policy,
        pinning=None if pinning is None else tuple(sorted(pinning.items())),
        reserved=None if reserved is None else frozenset(reserved),
        within_free_memory=fitting.pins_within_free_memory,
    )


def topology_of(guest: Guest, original: InstanceNUMATopology) -> InstanceNUMATopology:
    """Return a request's topology with what fitting found; the original stays."""
    pairs = zip(guest.cells, original.cells, strict=True)
    return original.replaced(cells=[_fitted_cell(cell, asked) for cell, asked in pairs])


def _fitted_cell(cell: GuestCell, asked: InstanceNUMACell) -> InstanceNUMACell:
    pinning = cell.pinning
    return asked.replaced(
        id=cell.id,
        pagesize=cell.pagesize,
        cpu_pinning_raw=None if pinning is None else {str(c): h for c, h in pinning},
        cpuset_reserved=None if cell.reserved is None else set(cell.reserved),
    )


def networks_of(metadata: NetworkMetadata | None) -> Networks | None:
    """Read the networks that a request asks for; None if it does not say."""
    if metadata is None:
        return None
    return Networks(frozenset(metadata.physnets), metadata.tunneled)


def limits_of(limits: NUMATopologyLimits | None) -> CellLimits | None:
    """Read the limits that a filter recorded for the cells of a host."""
    if limits is None:
        return None
    asked = limits.if_set('network_metadata')
    cpu, ram = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
    return CellLimits(cpu, ram, networks_of(asked))
