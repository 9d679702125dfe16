# SPDX-License-Identifier: Apache-2.0
"""Resource tracker of a simulated host: what instances claim, and what is left.

CPUs, memory and disk are placement's to refuse; a claim here is refused for NUMA
cells and PCI devices alone. Nova: compute/claims.py.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.claim import BookingFailed, with_usage
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.pci import Pools, requests_of
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed
from novasched.scheduler.fit.requirements import (
    HostCapacity,
    guest_of,
    limits_of,
    topology_of,
)
from novasched.scheduler.fit.topology import CellLimits, Guest, HostCell
from novasched_lab.host_inventory import (
    SimulatedHost,
    Usage,
    numa_cells_of,
    pools_of,
    usage_columns,
)

IO_TASKS = frozenset({'spawning', 'scheduling', 'resize_prep', 'resize_migrating'})
"""Task states that count as I/O."""


class ResourcesUnavailable(errors.RequestError):
    """A host cannot take an instance. Nova: ComputeResourcesUnavailable."""

    def __str__(self) -> str:
        return f'Insufficient compute resources: {self.args[0]}.'


@dataclass(frozen=True)
class Demand:
    """What an instance asks of a host: MiB and GiB, NUMA cells, and devices."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    project_id: str | None = None
    topology: InstanceNUMATopology | None = None
    devices: InstancePCIRequests | None = None
    limits: NUMATopologyLimits | None = None

    @classmethod
    def of_request(
        cls, request: RequestSpec, limits: NUMATopologyLimits | None
    ) -> Self:
        return cls._of(request.flavor, request, limits)

    @classmethod
    def of_instance(cls, instance: Instance) -> Self:
        return cls._of(instance, instance, None)

    @classmethod
    def _of(
        cls,
        size: Flavor | Instance,
        what: RequestSpec | Instance,
        limits: NUMATopologyLimits | None,
    ) -> Self:
        names = ('project_id', 'numa_topology', 'pci_requests')
        project_id, topology, devices = (
            getattr(what, name) if name in what else None for name in names
        )
        disk_gb = (size.root_gb or 0) + (size.ephemeral_gb or 0)
        return cls(
            size.vcpus or 0,
            size.memory_mb or 0,
            disk_gb,
            project_id,
            topology,
            devices,
            limits,
        )


@dataclass(frozen=True)
class Claim:
    """What an instance holds on the host: its demand, NUMA cells and devices."""

    demand: Demand
    guest: Guest | None = None
    devices: Mapping[object, int] = field(default_factory=dict)
    vm_state: str = 'building'
    task_state: str | None = 'spawning'

    @property
    def topology(self) -> InstanceNUMATopology | None:
        """The NUMA cells of the instance, where they are now."""
        asked = self.demand.topology
        if self.guest is None or not asked:
            return None
        return topology_of(self.guest, asked)


class ResourceTracker:
    """The claims on one host. Callers have one lock for it."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.failed_builds = 0
        self.claims: dict[str, Claim] = {}
        self.cells = self._all_cells = numa_cells_of(host)
        self.pools = self._all_pools = pools_of(host)
        self._fitting = Fitting()

    def claim(self, uuid: str, demand: Demand) -> Claim:
        """Claim what an instance asks for, once; raises ResourcesUnavailable."""
        if uuid in self.claims:
            return self.claims[uuid]
        guest = self._fitted(demand)
        devices, pools = self._allocated(demand, guest)
        try:
            self.cells = _with(self.cells, guest)
        except BookingFailed as problem:
            raise ResourcesUnavailable(str(problem)) from problem
        self.pools = pools
        self.claims[uuid] = Claim(demand, guest, devices)
        return self.claims[uuid]

    def restore(self, uuid: str, demand: Demand) -> bool:
        """Claim for an instance what it held before this process began.

        Its NUMA cells are those in the demand; its devices are allocated again. False
        if some of that is not free; the rest is claimed.
        """
        guest = guest_of(demand.topology) if demand.topology else None
        whole, devices = True, dict[object, int]()
        try:
            self.cells = _with(self.cells, guest)
        except BookingFailed:
            whole = False
        try:
            devices, self.pools = self._allocated(demand, guest)
        except ResourcesUnavailable:
            whole = False
        self.claims[uuid] = Claim(demand, guest, devices)
        return whole

    def mark(self, uuid: str, vm_state: str, task_state: str | None = None) -> None:
        """Note the state of an instance; one without a claim is passed over."""
        claim = self.claims.get(uuid)
        if claim is not None:
            self.claims[uuid] = dataclasses.replace(
                claim, vm_state=vm_state, task_state=task_state
            )

    def release(self, uuid: str) -> bool:
        """Free all that an instance holds; False if that is nothing."""
        claim = self.claims.pop(uuid, None)
        if claim is None:
            return False
        self.cells = self._all_cells
        taken = Counter[object]()
        for other in self.claims.values():
            self.cells = _with(self.cells, other.guest)
            taken.update(other.devices)
        self.pools = _less(self._all_pools, taken)
        return True

    def rename(self, before: str, after: str) -> None:
        """Move a claim to another uuid, and free the claim of that.

        A resize on the same host ends so.
        """
        self.release(after)
        self.claims[after] = self.claims.pop(before)

    def usage(self) -> dict[str, Any]:
        claims = list(self.claims.values())
        counted = Counter[str]()
        for each in claims:
            counted[f'num_vm_{each.vm_state}'] += 1
            counted[f'num_task_{each.task_state}'] += 1
            counted[f'num_proj_{each.demand.project_id}'] += 1
        numbers = {
            **counted,
            'num_instances': len(claims),
            'io_workload': sum(each.task_state in IO_TASKS for each in claims),
            'failed_builds': self.failed_builds,
        }
        usage = Usage(
            vcpus=sum(each.demand.vcpus for each in claims),
            memory_mb=sum(each.demand.memory_mb for each in claims),
            disk_gb=sum(each.demand.disk_gb for each in claims),
            instances=len(claims),
            stats={name: str(number) for name, number in numbers.items()},
        )
        return usage_columns(self.host, usage, self.cells, self.pools)

    def _fitted(self, demand: Demand) -> Guest | None:
        """Fit the NUMA cells of an instance, if it has any, onto the host's."""
        if not demand.topology:
            return None
        guest, limits = guest_of(demand.topology), limits_of(demand.limits)
        requests = requests_of(demand.devices)
        devices = self._capacity(limits).devices(requests, None)
        attempt = self._fitting.attempt(self.cells, guest, limits, devices)
        if not attempt.fits:
            text = 'Requested instance NUMA topology cannot fit the given host NUMA'
            raise ResourcesUnavailable(f'{text} topology')
        return attempt.guest

    def _allocated(
        self, demand: Demand, guest: Guest | None
    ) -> tuple[dict[object, int], Pools]:
        """Return the devices that the requests take, and the pools without them."""
        requests = requests_of(demand.devices)
        if not requests:
            return {}, self.pools
        numa_cells = frozenset(cell.id for cell in guest.cells) if guest else None
        try:
            left = self._capacity(None).devices(requests, None).apply(numa_cells)
        except DeviceRequestFailed as problem:
            raise ResourcesUnavailable('Claim pci failed') from problem
        taken = _counted(self.pools)
        taken.subtract(_counted(left))
        return {kind: count for kind, count in taken.items() if count}, left

    def _capacity(self, limits: CellLimits | None) -> HostCapacity:
        topology, pools = HostTopology.of(self.cells), HostPools.of(self.pools)
        return HostCapacity(topology, pools, limits)


def _with(cells: tuple[HostCell, ...], guest: Guest | None) -> tuple[HostCell, ...]:
    return cells if guest is None else with_usage(cells, guest, False)


def _counted(pools: Pools) -> Counter[object]:
    """Return how many devices there are of each kind, apart from their order."""
    counted = Counter[object]()
    for pool in pools:
        counted[pool.tags, pool.numa_node] += pool.count
    return counted


def _less(pools: Pools, taken: Mapping[object, int]) -> Pools:
    left = []
    for pool in pools:
        count = taken.get((pool.tags, pool.numa_node), 0)
        if count < pool.count:
            left.append(pool.less(count))
    return tuple(left)
