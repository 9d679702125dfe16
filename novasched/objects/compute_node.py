# SPDX-License-Identifier: Apache-2.0
"""Compute nodes, and the aggregates of their hosts.

Between services a compute node travels only among the hosts that were tried
before, with its two names and nothing else. Aggregates are cast by nova-api.
"""

from __future__ import annotations

from netaddr import IPAddress  # type: ignore[import-untyped]
from oslo_versionedobjects import base as ovo

from novasched.objects import fields, machine
from novasched.objects.base import (
    NovaObject,
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)
from novasched.objects.pci import PciDevicePoolList


@NovaObjectRegistry.register
class HVSpec(NovaObject):
    """A kind of machine that a host can run."""

    VERSION = '1.2'

    arch: str = machine.architecture()
    hv_type: str = machine.hypervisor_type()
    vm_mode: str = machine.vm_mode()


@NovaObjectRegistry.register
class ComputeNode(NovaPersistentObject):
    """A compute node. ``host`` names its service, ``hypervisor_hostname`` itself."""

    VERSION = '1.19'

    id: int = fields.integer(read_only=True)
    uuid: str = fields.uuid(read_only=True)
    service_id: int | None = fields.integer(nullable=True)
    host: str | None = fields.string(nullable=True)
    vcpus: int = fields.integer()
    memory_mb: int = fields.integer()
    local_gb: int = fields.integer()
    vcpus_used: int = fields.integer()
    memory_mb_used: int = fields.integer()
    local_gb_used: int = fields.integer()
    hypervisor_type: str = fields.string()
    hypervisor_version: int = fields.integer()
    hypervisor_hostname: str | None = fields.string(nullable=True)
    free_ram_mb: int | None = fields.integer(nullable=True)
    free_disk_gb: int | None = fields.integer(nullable=True)
    current_workload: int | None = fields.integer(nullable=True)
    running_vms: int | None = fields.integer(nullable=True)
    cpu_info: str | None = fields.string(nullable=True)
    disk_available_least: int | None = fields.integer(nullable=True)
    metrics: str | None = fields.string(nullable=True)
    stats: dict[str, str | None] | None = fields.nullable_string_dict(nullable=True)
    host_ip: IPAddress | None = fields.ip(nullable=True)
    numa_topology: str | None = fields.string(nullable=True)
    supported_hv_specs: list[HVSpec] = fields.objects_of('HVSpec')
    pci_device_pools: PciDevicePoolList | None = fields.object_of(
        'PciDevicePoolList', nullable=True
    )
    cpu_allocation_ratio: float = fields.real()
    ram_allocation_ratio: float = fields.real()
    disk_allocation_ratio: float = fields.real()
    mapped: int = fields.integer()


@NovaObjectRegistry.register
class ComputeNodeList(NovaObjectList[ComputeNode]):
    VERSION = '1.17'

    objects: list[ComputeNode] = fields.objects_of('ComputeNode')


@NovaObjectRegistry.register
class Aggregate(ovo.VersionedObjectDictCompat, NovaPersistentObject):
    """A named set of compute service hosts with metadata.

    Its fields are items, too, as they were in older releases of nova.
    """

    VERSION = '1.3'

    id: int = fields.integer()
    uuid: str = fields.uuid()
    name: str = fields.string()
    hosts: list[str] | None = fields.strings(nullable=True)
    metadata: dict[str, str] | None = fields.string_dict(nullable=True)

    @property
    def availability_zone(self) -> str | None:
        return (self.metadata or {}).get('availability_zone')


@NovaObjectRegistry.register
class AggregateList(NovaObjectList[Aggregate]):
    VERSION = '1.3'

    objects: list[Aggregate] = fields.objects_of('Aggregate')
