# SPDX-License-Identifier: Apache-2.0
"""The hosts of the walk-through at work: servers come and go on them.

Two of them have devices and dedicated CPUs here, which the published log does not show.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.inspection.session.catalogue import name_uuid
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.scheduler.fit.topology import HostCell
from novasched_lab.compute.resource_tracker import ResourceTracker
from novasched_lab.host_inventory import (
    Devices,
    SimulatedHost,
    Usage,
    numa_cells_of,
    provider_of,
    usage_columns,
)
from novasched_lab.local import cluster
from novasched_lab.resource_providers import Provider

GIB_KB = 1048576
NETWORK_HOSTS = 'nfvm'
NUMA_NODES = 2
PINNED = 10
"""Dedicated CPUs of each NUMA node that servers have already."""
PAGES, PAGES_USED = 180, 96
"""Pages of 1 GiB of each NUMA node."""
SHARED_CPUS = (*range(4), *range(52, 56))
NIC = Devices('8086', '154c', 4, 'type-VF', 0)


class BusyHost(ResourceTracker):
    """A host that has servers already: ``before`` is what these use."""

    def __init__(self, entry: cluster.ClusterHost) -> None:
        host, cells = entry.host, entry.cells
        if NETWORK_HOSTS in host.name:
            host, cells = _network_host(host)
        super().__init__(host)
        self.before = entry.usage
        self.flavor_class = entry.flavor_class
        self.cells = self._all_cells = cells

    def provider(self, aggregates: frozenset[str]) -> Provider:
        """Return the resource provider; what was used before beyond what the servers
        of then have is reserved."""
        made = provider_of(self.host, Usage(), aggregates)
        held = self.held_before().values()
        used = {'MEMORY_MB': self.before.memory_mb, 'DISK_GB': self.before.disk_gb}
        inventories = {
            name: dataclasses.replace(
                each,
                reserved=max(
                    0, used.get(name, 0) - sum(part.get(name, 0) for part in held)
                ),
            )
            for name, each in made.inventories.items()
        }
        return dataclasses.replace(made, inventories=inventories)

    def held_before(self) -> dict[str, dict[str, int]]:
        """Return the earlier allocations of servers, by uuid: amounts by class."""
        cpus = 'PCPU' if self.host.dedicated_cpus else 'VCPU'
        return {
            each.uuid: {cpus: each.vcpus or 0, 'MEMORY_MB': each.memory_mb or 0}
            for each in self.servers_before
        }

    def usage(self) -> dict[str, Any]:
        """Return the columns that follow usage."""
        held, before = [each.demand for each in self.claims.values()], self.before
        number = before.instances + len(held)
        usage = Usage(
            vcpus=before.vcpus + sum(each.vcpus for each in held),
            memory_mb=before.memory_mb + sum(each.memory_mb for each in held),
            disk_gb=before.disk_gb + sum(each.disk_gb for each in held),
            instances=number,
            stats={**before.stats, 'num_instances': str(number)},
        )
        return usage_columns(self.host, usage, self.cells, self.pools)

    @functools.cached_property
    def servers_before(self) -> list[Instance]:
        """The servers that use together what was used before, the oldest first."""
        number = self.before.instances
        memory = shares(self.before.memory_mb, number)
        vcpus = shares(self.before.vcpus, number)
        found = []
        for place in range(number):
            topology = None
            if self._all_cells:
                cell = self._all_cells[place % NUMA_NODES]
                servers = len(range(place % NUMA_NODES, number, NUMA_NODES))
                topology = _topology(cell, servers, place // NUMA_NODES)
                (part,) = topology.cells
                memory[place] = part.memory
                vcpus[place] = len(part.cpuset | part.pcpuset)
            found.append(self._server(place, vcpus[place], memory[place], topology))
        return found

    def _server(
        self,
        place: int,
        vcpus: int,
        memory_mb: int,
        topology: InstanceNUMATopology | None,
    ) -> Instance:
        name = f'app-{self.host.name[-5:]}-{place + 1:02}'
        flavor = Flavor(
            id=0,
            name=f'c{vcpus}.r{memory_mb // 1024}',
            flavorid=f'c{vcpus}.r{memory_mb // 1024}',
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=0,
            ephemeral_gb=0,
            swap=0,
            extra_specs={},
        )
        made = Instance(
            uuid=name_uuid('server', name),
            display_name=name,
            project_id=cluster.OWNER,
            user_id=cluster.OWNER,
            host=self.host.name,
            node=self.host.name,
            vm_state='active',
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=0,
            ephemeral_gb=0,
            flavor=flavor,
            numa_topology=topology,
            system_metadata={},
        )
        made.obj_reset_changes(recursive=True)
        return made


def shares(total: int, parts: int) -> list[int]:
    """Divide a number as evenly as can be."""
    return [(total + place) // parts for place in range(parts)]


def _topology(cell: HostCell, servers: int, place: int) -> InstanceNUMATopology:
    """Return the share of a server of a NUMA node."""
    pages = next(each.used for each in cell.mempages if each.size_kb == GIB_KB)
    pinned = sorted(cell.pinned_cpus)[place::servers]
    vcpus = len(pinned) or shares(cell.cpu_usage, servers)[place]
    made = InstanceNUMACell(
        id=cell.id,
        cpuset=set() if pinned else set(range(vcpus)),
        pcpuset=set(range(len(pinned))),
        memory=shares(pages, servers)[place] * 1024,
        pagesize=GIB_KB,
        cpu_pinning_raw={str(n): cpu for n, cpu in enumerate(pinned)} or None,
    )
    return InstanceNUMATopology(cells=[made])


def _network_host(host: SimulatedHost) -> tuple[SimulatedHost, tuple[HostCell, ...]]:
    """Return a host with devices, and its NUMA nodes with what servers use of them."""
    made = dataclasses.replace(
        host,
        numa_nodes=NUMA_NODES,
        dedicated_cpus=frozenset(range(host.vcpus)).difference(SHARED_CPUS),
        pages={GIB_KB: PAGES},
        devices=(NIC, dataclasses.replace(NIC, numa_node=1)),
    )
    cells = []
    for cell in numa_cells_of(made):
        pinned = frozenset(sorted(cell.pcpuset or ())[:PINNED])
        pages = tuple(
            each._replace(used=PAGES_USED) if each.size_kb == GIB_KB else each
            for each in cell.mempages
        )
        cells.append(
            dataclasses.replace(
                cell,
                mempages=pages,
                cpu_usage=0,  # its servers have dedicated CPUs alone
                memory_usage=PAGES_USED * 1024,
                pinned_cpus=pinned,
            )
        )
    return made, tuple(cells)


def providers_of(hosts: Sequence[BusyHost], uuids: Mapping[str, str]) -> list[Provider]:
    """Return the providers of hosts; ``uuids`` has the uuids of aggregates by name."""
    return [
        each.provider(
            frozenset(
                uuids[name] for name in (each.host.zone, each.flavor_class) if name
            )
        )
        for each in hosts
    ]
