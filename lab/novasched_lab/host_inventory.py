# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts: what they have, and their rows, provider, NUMA cells and devices."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from novasched.db.services import COMPUTE
from novasched.inspection.session.catalogue import name_uuid
from novasched.objects.base import NovaObject
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.releases import NEWEST
from novasched.scheduler.fit.pci import Pool, Pools, Tags
from novasched.scheduler.fit.topology import HostCell, Networks, Pages
from novasched_lab.resource_providers import Inventory, Provider

LIBVIRT_VERSION = 8002002
SMALL_KB = 4
ROOT_TRAITS = frozenset(
    {
        'OWNER_NOVA',
        'COMPUTE_NODE',
        'COMPUTE_IMAGE_TYPE_QCOW2',
        'COMPUTE_IMAGE_TYPE_RAW',
        'COMPUTE_MANAGED_PCI_DEVICE',
    }
)


@dataclass(frozen=True)
class Devices:
    """Like PCI devices of a host, near to NUMA cell ``numa_node``, or to none."""

    vendor_id: str
    product_id: str
    count: int = 1
    dev_type: str = 'type-PCI'
    numa_node: int | None = None
    physical_network: str | None = None


@dataclass(frozen=True)
class SimulatedHost:
    """A host and its one node, which have the same name.

    ``dedicated_cpus`` may be pinned, the others shared; if there are none, any may
    be pinned and any shared, as on a nova-compute without ``cpu_dedicated_set``.
    """

    name: str
    cell: str | None = None
    zone: str | None = None
    vcpus: int = 16
    memory_mb: int = 65536
    disk_gb: int = 1000
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    numa_nodes: int = 0
    threads: int = 2
    dedicated_cpus: frozenset[int] = frozenset()
    pages: Mapping[int, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    devices: tuple[Devices, ...] = ()

    @property
    def uuid(self) -> str:
        return name_uuid('node', self.name)


@dataclass(frozen=True)
class Usage:
    """What is used of a host, in MiB and GiB; ``stats`` is the column of that name."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_gb: int = 0
    instances: int = 0
    stats: Mapping[str, str] = field(default_factory=dict)


def provider_of(
    host: SimulatedHost,
    usage: Usage = Usage(),
    aggregates: frozenset[str] = frozenset(),
) -> Provider:
    """Return the resource provider of a host; what is used is reserved."""
    cpu_ratio, dedicated = host.cpu_allocation_ratio, len(host.dedicated_cpus)
    used = math.ceil(usage.vcpus / cpu_ratio) if usage.vcpus else 0
    amounts = {
        'VCPU': (host.vcpus - dedicated, used, cpu_ratio),
        'PCPU': (dedicated, 0, 1.0),
        'MEMORY_MB': (host.memory_mb, usage.memory_mb, host.ram_allocation_ratio),
        'DISK_GB': (host.disk_gb, usage.disk_gb, host.disk_allocation_ratio),
    }
    inventories = {
        name: Inventory(total, reserved, ratio, max_unit=total)
        for name, (total, reserved, ratio) in amounts.items()
        if total
    }
    traits = ROOT_TRAITS | host.traits
    return Provider(host.uuid, host.name, inventories, traits, aggregates)


def service_row(host: SimulatedHost, now: datetime.datetime) -> dict[str, Any]:
    """Return the services row of a host that has not sent a heartbeat yet."""
    return {
        'created_at': now,
        'uuid': name_uuid('service', host.name),
        'host': host.name,
        'binary': COMPUTE,
        'topic': 'compute',
        'report_count': 0,
        'disabled': False,
        'forced_down': False,
        'deleted': 0,
        'version': NEWEST.service_version,
    }


def node_row(host: SimulatedHost) -> dict[str, Any]:
    sockets = max(host.numa_nodes, 1)
    topology = {'cells': sockets, 'sockets': sockets}
    topology |= {'cores': host.vcpus // host.threads, 'threads': host.threads}
    cpu_info = {
        'arch': 'x86_64',
        'model': 'Skylake-Server-IBRS',
        'vendor': 'Intel',
        'topology': topology,
        'features': ['aes', 'avx2', 'vmx'],
    }
    machines = [['x86_64', 'kvm', 'hvm'], ['x86_64', 'qemu', 'hvm']]
    return {
        'uuid': host.uuid,
        'host': host.name,
        'hypervisor_hostname': host.name,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': LIBVIRT_VERSION,
        'host_ip': '127.0.0.1',
        'vcpus': host.vcpus,
        'memory_mb': host.memory_mb,
        'local_gb': host.disk_gb,
        'cpu_info': json.dumps(cpu_info),
        'supported_instances': json.dumps(machines),
        'metrics': '[]',
        'cpu_allocation_ratio': host.cpu_allocation_ratio,
        'ram_allocation_ratio': host.ram_allocation_ratio,
        'disk_allocation_ratio': host.disk_allocation_ratio,
        'deleted': 0,
    }


def usage_columns(
    host: SimulatedHost, usage: Usage, cells: tuple[HostCell, ...], pools: Pools
) -> dict[str, Any]:
    free_disk_gb = host.disk_gb - usage.disk_gb
    return {
        'vcpus_used': usage.vcpus,
        'memory_mb_used': usage.memory_mb,
        'local_gb_used': usage.disk_gb,
        'free_ram_mb': host.memory_mb - usage.memory_mb,
        'free_disk_gb': free_disk_gb,
        'disk_available_least': free_disk_gb,
        'current_workload': int(usage.stats.get('io_workload', 0)),
        'running_vms': usage.instances,
        'stats': json.dumps(usage.stats, sort_keys=True),
        'numa_topology': topology_text(cells),
        'pci_stats': pools_text(pools),
    }


def numa_cells_of(host: SimulatedHost) -> tuple[HostCell, ...]:
    """Return the NUMA cells of a host, each on a socket of its own, with equal parts.

    CPUs with neighbouring numbers are threads of one core.
    """
    return tuple(_numa_cell(host, number) for number in range(host.numa_nodes))


def _numa_cell(host: SimulatedHost, number: int) -> HostCell:
    size = host.vcpus // host.numa_nodes
    cpus = range(number * size, (number + 1) * size)
    memory_mb = host.memory_mb // host.numa_nodes
    large_kb = sum(size_kb * many for size_kb, many in host.pages.items())
    small = Pages(SMALL_KB, (memory_mb * 1024 - large_kb) // SMALL_KB)
    return HostCell(
        id=number,
        cpuset=frozenset(cpus) - host.dedicated_cpus,
        pcpuset=host.dedicated_cpus.intersection(cpus)
        if host.dedicated_cpus
        else frozenset(cpus),
        memory=memory_mb,
        siblings=tuple(
            frozenset(range(first, first + host.threads))
            for first in cpus[:: host.threads]
        ),
        mempages=(small, *(Pages(*each) for each in sorted(host.pages.items()))),
        network_metadata=Networks(),
        socket=number,
    )


def pools_of(host: SimulatedHost) -> Pools:
    """Return the pools of the PCI devices of a host; placement knows none of them."""
    counted = Counter[tuple[Tags, int | None]]()
    for devices in host.devices:
        tags = {
            'vendor_id': devices.vendor_id,
            'product_id': devices.product_id,
            'dev_type': devices.dev_type,
            'remote_managed': 'false',
            'managed': 'true',
            'live_migratable': 'false',
        }
        if devices.physical_network is not None:
            tags['physical_network'] = devices.physical_network
        counted[frozenset(tags.items()), devices.numa_node] += devices.count
    pools = [Pool(tags, node, count) for (tags, node), count in counted.items()]
    return tuple(sorted(pools, key=lambda pool: len(pool.keys)))


def topology_text(cells: tuple[HostCell, ...]) -> str | None:
    """Return the numa_topology column for NUMA cells; None for no cells."""
    if not cells:
        return None
    return _text(NUMATopology(cells=[_cell_object(cell) for cell in cells]))


def _cell_object(cell: HostCell) -> NUMACell:
    networks = cell.network_metadata or Networks()
    return NUMACell(
        id=cell.id,
        cpuset=set(cell.cpuset),
        pcpuset=set(cell.pcpuset or ()),
        pinned_cpus=set(cell.pinned_cpus),
        memory=cell.memory,
        cpu_usage=cell.cpu_usage,
        memory_usage=cell.memory_usage,
        siblings=[set(core) for core in cell.siblings],
        mempages=[NUMAPagesTopology(**pages._asdict()) for pages in cell.mempages],
        network_metadata=NetworkMetadata(
            physnets=set(networks.physnets), tunneled=networks.tunneled
        ),
        socket=cell.socket,
    )


def pools_text(pools: Pools) -> str:
    """Return the pci_stats column for the devices that are free."""
    made = []
    for pool in pools:
        keys: dict[str, Any] = dict(pool.keys)
        product = {name: keys.pop(name) for name in ('vendor_id', 'product_id')}
        where = {'numa_node': pool.numa_node, 'count': pool.count}
        made.append(PciDevicePool(**product, **where, tags=keys))
    return _text(PciDevicePoolList(objects=made))


def _text(made: NovaObject) -> str:
    return json.dumps(made.obj_to_primitive(), sort_keys=True)
