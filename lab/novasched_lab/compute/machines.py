# SPDX-License-Identifier: Apache-2.0
"""What a host has before any instance is on it: nodes, devices, inventories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from novasched.objects.base import NovaObject
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.scheduler.fit.pci import Pool, Pools, Tags
from novasched.scheduler.fit.topology import Cpus, HostCell, Networks, Pages
from novasched_lab.compute.fleet import Devices, Host, name_uuid

SMALL_KB = 4
PRODUCT = ('vendor_id', 'product_id')
ROOT_TRAITS = frozenset(
    {
        'OWNER_NOVA',
        'COMPUTE_NODE',
        'COMPUTE_IMAGE_TYPE_QCOW2',
        'COMPUTE_IMAGE_TYPE_RAW',
        'COMPUTE_MANAGED_PCI_DEVICE',
    }
)


class Provider(NamedTuple):
    """A resource provider as it should be; ``parent`` is None for the root."""

    uuid: str
    name: str
    parent: str | None
    inventories: Mapping[str, Mapping[str, float]]
    traits: frozenset[str]


def cells_of(host: Host) -> tuple[HostCell, ...]:
    """Return the NUMA nodes of a host, each on a socket of its own, with equal parts.

    CPUs with neighbouring numbers are threads of one core.
    """
    return tuple(_cell(host, number) for number in range(host.numa_nodes))


def _cell(host: Host, number: int) -> HostCell:
    size = host.vcpus // host.numa_nodes
    cpus = frozenset(range(number * size, (number + 1) * size))
    memory_mb = host.memory_mb // host.numa_nodes
    large = sorted((size_kb, many) for size_kb, many in host.pages.items())
    small_kb = memory_mb * 1024 - sum(size_kb * many for size_kb, many in large)
    return HostCell(
        id=number,
        cpuset=_shared(host, cpus),
        pcpuset=_pinnable(host, cpus),
        memory=memory_mb,
        siblings=tuple(
            frozenset(range(first, first + host.threads))
            for first in range(min(cpus), max(cpus) + 1, host.threads)
        ),
        mempages=(
            Pages(SMALL_KB, small_kb // SMALL_KB),
            *(Pages(size_kb, many) for size_kb, many in large),
        ),
        network_metadata=Networks(),
        socket=number,
    )


def _shared(host: Host, cpus: Cpus) -> Cpus:
    return cpus - host.dedicated_cpus


def _pinnable(host: Host, cpus: Cpus) -> Cpus:
    return cpus & host.dedicated_cpus if host.dedicated_cpus else cpus


def pools_of(host: Host) -> Pools:
    """Return the PCI devices of a host; those in placement are a pool each."""
    counted = Counter[tuple[Tags, int | None, str | None]]()
    for devices in host.devices:
        for pool in _pools(host, devices):
            counted[pool.tags, pool.numa_node, pool.rp_uuid] += pool.count
    pools = [
        Pool(tags, node, count, uuid) for (tags, node, uuid), count in counted.items()
    ]
    return tuple(sorted(pools, key=lambda pool: len(pool.keys)))


def _pools(host: Host, devices: Devices) -> Iterator[Pool]:
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
    if devices.resource_class is None:
        yield Pool(frozenset(tags.items()), devices.numa_node, devices.count)
        return
    for address, uuid in _addresses(host, devices):
        keys = frozenset({**tags, 'address': address}.items())
        yield Pool(keys, devices.numa_node, 1, uuid)


def _addresses(host: Host, devices: Devices) -> Iterator[tuple[str, str]]:
    """Yield the address of each device and the uuid of its provider."""
    bus = host.devices.index(devices) + 1
    for number in range(devices.count):
        address = f'0000:{bus:02x}:{number // 8:02x}.{number % 8}'
        yield address, name_uuid('device', f'{host.name}.{address}')


def providers_of(host: Host) -> list[Provider]:
    """Return the resource providers of a host, the root first."""
    shared = host.vcpus - len(host.dedicated_cpus)
    amounts = {
        'VCPU': (shared, host.cpu_allocation_ratio),
        'PCPU': (len(host.dedicated_cpus), 1.0),
        'MEMORY_MB': (host.memory_mb, host.ram_allocation_ratio),
        'DISK_GB': (host.disk_gb, host.disk_allocation_ratio),
    }
    inventories = {
        name: _inventory(total, ratio) for name, (total, ratio) in amounts.items()
        if total
    }  # fmt: skip
    traits = ROOT_TRAITS | host.traits
    return [
        Provider(host.uuid, host.name, None, inventories, traits),
        *_device_providers(host),
    ]


def _device_providers(host: Host) -> Iterator[Provider]:
    for devices in host.devices:
        if devices.resource_class is None:
            continue
        inventory = {devices.resource_class: _inventory(1, 1.0)}
        traits = devices.traits | {'COMPUTE_MANAGED_PCI_DEVICE'}
        for address, uuid in _addresses(host, devices):
            name = f'{host.name}_{address}'
            yield Provider(uuid, name, host.uuid, inventory, traits)


def _inventory(total: int, ratio: float) -> dict[str, float]:
    return {
        'total': total,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
    }


def topology_text(cells: tuple[HostCell, ...]) -> str | None:
    """Return what a numa_topology column says of nodes; None for no nodes."""
    if not cells:
        return None
    made = NUMATopology(cells=[_numa_cell(cell) for cell in cells])
    return text_of(made)


def _numa_cell(cell: HostCell) -> NUMACell:
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
    """Return what a pci_stats column says of free devices."""
    return text_of(PciDevicePoolList(objects=[_pool(pool) for pool in pools]))


def _pool(pool: Pool) -> PciDevicePool:
    keys: dict[str, Any] = dict(pool.keys)
    vendor_id, product_id = (keys.pop(name) for name in PRODUCT)
    return PciDevicePool(
        vendor_id=vendor_id,
        product_id=product_id,
        numa_node=pool.numa_node,
        count=pool.count,
        tags=keys,
    )


def text_of(made: NovaObject) -> str:
    """Return an object as a text column holds it."""
    return json.dumps(made.obj_to_primitive(), sort_keys=True)
