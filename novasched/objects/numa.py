# SPDX-License-Identifier: Apache-2.0
"""NUMA topologies: of instances, of hosts, and limits on them.

Memory is in MiB, page sizes in KiB.
"""

from __future__ import annotations

from typing import ClassVar

from oslo_versionedobjects import base as ovo

from novasched.objects import fields
from novasched.objects.base import FilledObject, NovaObject, NovaObjectRegistry
from novasched.objects.network import NetworkMetadata

CPU_POLICIES = ('dedicated', 'shared', 'mixed')
THREAD_POLICIES = ('prefer', 'isolate', 'require')


@NovaObjectRegistry.register
class VirtCPUTopology(NovaObject):
    """The sockets, cores and threads that a guest sees."""

    VERSION = '1.0'

    sockets: int | None = fields.integer(nullable=True, default=1)
    cores: int | None = fields.integer(nullable=True, default=1)
    threads: int | None = fields.integer(nullable=True, default=1)


@NovaObjectRegistry.register
class InstanceNUMACell(ovo.VersionedObjectDictCompat, FilledObject):
    """A guest node; once fitted, with the host's ids of what it is fitted to.

    ``cpuset`` holds shared guest CPUs, ``pcpuset`` dedicated ones. ``pagesize``
    below 0: -1 small, -2 large, -3 any. ``cpu_pinning_raw`` maps a guest CPU, as
    text, to a host CPU.
    """

    VERSION = '1.6'
    UNSET_DEFAULTS: ClassVar = {'pcpuset': set, 'cpu_topology': lambda: None}

    id: int = fields.integer()
    cpuset: set[int] = fields.integer_set()
    pcpuset: set[int] = fields.integer_set()
    cpuset_reserved: set[int] | None = fields.integer_set(nullable=True, default=None)
    memory: int = fields.integer()
    pagesize: int | None = fields.integer(nullable=True, default=None)
    cpu_topology: VirtCPUTopology | None = fields.object_of(
        'VirtCPUTopology', nullable=True
    )
    cpu_pinning_raw: dict[str, int] | None = fields.integer_dict(
        nullable=True, default=None
    )
    cpu_policy: str | None = fields.enum(*CPU_POLICIES, nullable=True, default=None)
    cpu_thread_policy: str | None = fields.enum(
        *THREAD_POLICIES, nullable=True, default=None
    )

    @property
    def cpu_pinning(self) -> dict[int, int] | None:
        """The host CPU of each dedicated guest CPU; None before fitting."""
        raw = self.cpu_pinning_raw
        return None if raw is None else {int(cpu): host for cpu, host in raw.items()}


@NovaObjectRegistry.register
class InstanceNUMATopology(ovo.VersionedObjectDictCompat, NovaObject):
    """The guest nodes of an instance; false when there are none."""

    VERSION = '1.3'
    UNSET_DEFAULTS: ClassVar = {'emulator_threads_policy': lambda: None}

    id: int = fields.integer()
    instance_uuid: str = fields.uuid()
    cells: list[InstanceNUMACell] = fields.objects_of('InstanceNUMACell')
    emulator_threads_policy: str | None = fields.enum('share', 'isolate', nullable=True)

    def __bool__(self) -> bool:
        return bool(self.if_set('cells'))

    def __len__(self) -> int:
        return len(self.cells)

    def as_read(self) -> InstanceNUMATopology:
        """Return a stored topology as nova reads it: up to Ussuri, ``cpuset`` had the
        dedicated CPUs, too. Nova leaves those from before Queens as they are."""
        cells = [
            cell.replaced(cpuset=set(), pcpuset=cell.cpuset)
            if (cell.VERSION, cell.cpu_policy) == ('1.4', 'dedicated')
            else cell
            for cell in self.cells
        ]
        return self.replaced(cells=cells)


@NovaObjectRegistry.register
class NUMAPagesTopology(NovaObject):
    """The memory pages of one size on a host node, in pages."""

    VERSION = '1.1'

    size_kb: int = fields.integer()
    total: int = fields.integer()
    used: int = fields.integer(default=0)
    reserved: int = fields.integer(default=0)


@NovaObjectRegistry.register
class NUMACell(NovaObject):
    """A host node. ``siblings`` are its cores, in the order they are used up."""

    VERSION = '1.5'
    UNSET_DEFAULTS: ClassVar = {
        'network_metadata': lambda: NetworkMetadata(physnets=set(), tunneled=False),
        'socket': lambda: None,
    }

    id: int = fields.integer(read_only=True)
    cpuset: set[int] = fields.integer_set()
    pcpuset: set[int] = fields.integer_set()
    memory: int = fields.integer()
    cpu_usage: int = fields.integer(default=0)
    memory_usage: int = fields.integer(default=0)
    pinned_cpus: set[int] = fields.integer_set()
    siblings: list[set[int]] = fields.integer_sets()
    mempages: list[NUMAPagesTopology] = fields.objects_of('NUMAPagesTopology')
    network_metadata: NetworkMetadata = fields.object_of('NetworkMetadata')
    socket: int | None = fields.integer(nullable=True)


@NovaObjectRegistry.register
class NUMATopology(NovaObject):
    """The nodes of a host; their order breaks ties."""

    VERSION = '1.2'

    cells: list[NUMACell] = fields.objects_of('NUMACell')


@NovaObjectRegistry.register
class NUMATopologyLimits(NovaObject):
    """How far a host node may be filled, and for which networks.

    ``network_metadata`` is set only where the request had it.
    """

    VERSION = '1.1'

    cpu_allocation_ratio: float = fields.real()
    ram_allocation_ratio: float = fields.real()
    network_metadata: NetworkMetadata = fields.object_of('NetworkMetadata')
