# SPDX-License-Identifier: Apache-2.0
"""What instances hold on a host, and what it has left for others.

CPUs, memory and disk are placement's to say no to; a claim here is refused for NUMA
nodes and PCI devices alone. Nova: compute/claims.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from novasched import errors
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.scheduler.fit.claim import BookingFailed, with_usage
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.pci import Pools, requests_of
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed
from novasched.scheduler.fit.requirements import (
    HostCapacity,
    guest_of,
    networks_of,
    topology_of,
)
from novasched.scheduler.fit.topology import CellLimits, Guest, HostCell
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.fleet import Host
from novasched_lab.compute.machines import (
    cells_of,
    pools_of,
    pools_text,
    topology_text,
)

IO_TASKS = frozenset({'spawning', 'scheduling', 'resize_prep', 'resize_migrating'})
"""What an instance with one of these task states does counts as I/O."""


class ResourcesUnavailable(errors.RequestError):
    """A host cannot take an instance. Nova: ComputeResourcesUnavailable."""

    def __str__(self) -> str:
        return f'Insufficient compute resources: {self.args[0]}.'


@dataclass(frozen=True)
class Held:
    """What an instance holds: its demand, and its nodes and devices on the host."""

    demand: Demand
    guest: Guest | None = None
    taken: Mapping[object, int] = field(default_factory=dict)
    vm_state: str = 'building'
    task_state: str | None = 'spawning'

    @property
    def topology(self) -> InstanceNUMATopology | None:
        """The NUMA nodes of the instance, where they are now."""
        asked = self.demand.topology
        if self.guest is None or not asked:
            return None
        return topology_of(self.guest, asked)


class Book:
    """What each instance holds on one host. Callers have one lock for it."""

    def __init__(self, host: Host, fitting: Fitting | None = None) -> None:
        self.host = host
        self.failed_builds = 0
        self._fitting = fitting or Fitting()
        self._all_cells, self._all_pools = cells_of(host), pools_of(host)
        self._held: dict[str, Held] = {}
        self._cells, self._pools = self._all_cells, self._all_pools

    @property
    def held(self) -> Mapping[str, Held]:
        """What is held, by the uuid of the instance."""
        return self._held

    @property
    def cells(self) -> tuple[HostCell, ...]:
        """The NUMA nodes, with what is used of them."""
        return self._cells

    @property
    def pools(self) -> Pools:
        """The devices that are free."""
        return self._pools

    def claim(self, uuid: str, demand: Demand) -> Held:
        """Have an instance hold what it asks for, once; raises ResourcesUnavailable."""
        if uuid in self._held:
            return self._held[uuid]
        guest = self._fitted(demand)
        taken, pools = self._served(demand, guest)
        held = Held(demand, guest, taken)
        try:
            cells = self._with(self._cells, guest)
        except BookingFailed as problem:
            raise ResourcesUnavailable(str(problem)) from problem
        self._held[uuid] = held
        self._cells, self._pools = cells, pools
        return held

    def restore(self, uuid: str, demand: Demand) -> bool:
        """Have an instance hold what it held before this process began.

        Its nodes are those in the demand; its devices are served anew. False if it
        cannot be, and holds what it can.
        """
        guest = guest_of(demand.topology) if demand.topology else None
        whole = True
        try:
            cells = self._with(self._cells, guest)
        except BookingFailed:
            cells, whole = self._cells, False
        try:
            taken, pools = self._served(demand, guest)
        except ResourcesUnavailable:
            taken, pools, whole = {}, self._pools, False
        self._held[uuid] = Held(demand, guest, taken)
        self._cells, self._pools = cells, pools
        return whole

    def mark(self, uuid: str, vm_state: str, task_state: str | None = None) -> None:
        """Note what an instance does now; one that holds nothing is passed over."""
        held = self._held.get(uuid)
        if held is not None:
            self._held[uuid] = dataclasses.replace(
                held, vm_state=vm_state, task_state=task_state
            )

    def release(self, uuid: str) -> bool:
        """Take back all that an instance holds; False if that is nothing."""
        held = self._held.pop(uuid, None)
        if held is None:
            return False
        if held.guest is not None:
            self._cells = self._all_cells
            for other in self._held.values():
                self._cells = self._with(self._cells, other.guest)
        if held.taken:
            taken = Counter[object]()
            for other in self._held.values():
                taken.update(other.taken)
            self._pools = _less(self._all_pools, taken)
        return True

    def rename(self, before: str, after: str) -> None:
        """Have an instance hold under one name what it held under another.

        What it held there is taken back, as after a resize on the same host.
        """
        self.release(after)
        self._held[after] = self._held.pop(before)

    def clear(self) -> None:
        """Forget all, as a host does whose process ends."""
        self._held.clear()
        self._cells, self._pools = self._all_cells, self._all_pools
        self.failed_builds = 0

    def usage(self) -> dict[str, object]:
        """Return the columns of a compute_nodes row that follow usage."""
        host, held = self.host, list(self._held.values())
        vcpus = sum(each.demand.vcpus for each in held)
        memory_mb = sum(each.demand.memory_mb for each in held)
        disk_gb = sum(each.demand.disk_gb for each in held)
        stats = self._stats(held)
        return {
            'vcpus_used': vcpus,
            'memory_mb_used': memory_mb,
            'local_gb_used': disk_gb,
            'free_ram_mb': host.memory_mb - memory_mb,
            'free_disk_gb': host.disk_gb - disk_gb,
            'disk_available_least': host.disk_gb - disk_gb,
            'current_workload': int(stats['io_workload']),
            'running_vms': len(held),
            'stats': json.dumps(stats, sort_keys=True),
            'numa_topology': topology_text(self._cells),
            'pci_stats': pools_text(self._pools),
        }

    def _stats(self, held: Sequence[Held]) -> dict[str, str]:
        counted = Counter[str]()
        for each in held:
            counted[f'num_vm_{each.vm_state}'] += 1
            counted[f'num_task_{each.task_state}'] += 1
            counted[f'num_proj_{each.demand.project_id}'] += 1
        io_tasks = sum(each.task_state in IO_TASKS for each in held)
        return {
            **{name: str(number) for name, number in counted.items()},
            'num_instances': str(len(held)),
            'io_workload': str(io_tasks),
            'failed_builds': str(self.failed_builds),
        }

    def _fitted(self, demand: Demand) -> Guest | None:
        """Put the nodes of an instance onto those of the host, if it has any."""
        if not demand.topology:
            return None
        guest, limits = guest_of(demand.topology), _limits(demand.limits)
        devices = self._capacity(limits).devices(
            requests_of(demand.devices), demand.providers
        )
        attempt = self._fitting.attempt(self._cells, guest, limits, devices)
        if not attempt.fits:
            raise ResourcesUnavailable(
                'Requested instance NUMA topology cannot fit the given host NUMA '
                'topology'
            )
        return attempt.guest

    def _served(
        self, demand: Demand, guest: Guest | None
    ) -> tuple[Mapping[object, int], Pools]:
        """Return the devices that the requests take, and the pools without them."""
        requests = requests_of(demand.devices)
        if not requests:
            return {}, self._pools
        nodes = None if guest is None else frozenset(cell.id for cell in guest.cells)
        devices = self._capacity(None).devices(requests, demand.providers)
        try:
            left = devices.apply(nodes)
        except DeviceRequestFailed as problem:
            raise ResourcesUnavailable('Claim pci failed') from problem
        taken = _counted(self._pools)
        taken.subtract(_counted(left))
        return {kind: count for kind, count in taken.items() if count}, left

    def _capacity(self, limits: CellLimits | None) -> HostCapacity:
        topology, pools = HostTopology.of(self._cells), HostPools.of(self._pools)
        return HostCapacity(topology, pools, limits)

    def _with(
        self, cells: tuple[HostCell, ...], guest: Guest | None
    ) -> tuple[HostCell, ...]:
        return cells if guest is None else with_usage(cells, guest, False)


def _limits(limits: NUMATopologyLimits | None) -> CellLimits | None:
    if limits is None:
        return None
    asked = limits.network_metadata if 'network_metadata' in limits else None
    cpu, ram = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
    return CellLimits(cpu, ram, networks_of(asked))


def _counted(pools: Pools) -> Counter[object]:
    """Return how many devices there are of each kind, apart from their order."""
    counted = Counter[object]()
    for pool in pools:
        counted[pool.tags, pool.numa_node, pool.rp_uuid] += pool.count
    return counted


def _less(pools: Pools, taken: Mapping[object, int]) -> Pools:
    left = []
    for pool in pools:
        count = taken.get((pool.tags, pool.numa_node, pool.rp_uuid), 0)
        if count < pool.count:
            left.append(pool.less(count))
    return tuple(left)
