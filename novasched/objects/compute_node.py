# SPDX-License-Identifier: Apache-2.0
"""Compute nodes and what they say about themselves.

Between services a compute node travels only among the hosts that were tried
before, with its two names and nothing else.
"""

from __future__ import annotations

import datetime
from typing import ClassVar

from netaddr import IPAddress  # type: ignore[import-untyped]

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
class MonitorMetric(NovaObject):
    """A measurement. Percentages are whole numbers from 0 to 100."""

    VERSION = '1.1'
    SINCE: ClassVar = {'numa_membw_values': '1.1'}

    name: str = fields.enum(
        'cpu.frequency',
        'cpu.user.time',
        'cpu.kernel.time',
        'cpu.idle.time',
        'cpu.iowait.time',
        'cpu.user.percent',
        'cpu.kernel.percent',
        'cpu.idle.percent',
        'cpu.iowait.percent',
        'cpu.percent',
        'numa.membw.max',
        'numa.membw.current',
    )
    value: int = fields.integer()
    numa_membw_values: dict[str, int] | None = fields.integer_dict(nullable=True)
    timestamp: datetime.datetime = fields.timestamp()
    source: str = fields.string()


@NovaObjectRegistry.register
class MonitorMetricList(NovaObjectList[MonitorMetric]):
    VERSION = '1.1'

    objects: list[MonitorMetric] = fields.objects_of('MonitorMetric')


@NovaObjectRegistry.register
class ComputeNode(NovaPersistentObject):
    """A compute node. ``host`` names its service, ``hypervisor_hostname`` itself."""

    VERSION = '1.19'
    SINCE: ClassVar = {
        'stats': '1.3',
        'host_ip': '1.4',
        'numa_topology': '1.5',
        'supported_hv_specs': '1.6',
        'host': '1.7',
        'pci_device_pools': '1.9',
        'cpu_allocation_ratio': '1.14',
        'ram_allocation_ratio': '1.14',
        'uuid': '1.15',
        'disk_allocation_ratio': '1.16',
        'mapped': '1.17',
    }

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
