# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster: 16 hosts as rows, as providers, and a request.

The data file has what the published log of a scheduler shows: names, zones,
what is free, and how busy each host is. The totals are made up here, the same
for all hosts, so that every figure of a row agrees with what the log says.
"""

from __future__ import annotations

import importlib.resources
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.ports import CELL0_UUID
from novasched_lab.local.placement import Inventory, Provider

DATA = 'walkthrough_cluster.json'
OWNER = 'demo'
VCPUS = 104
MEMORY_MB = 515191
LOCAL_GB = 240000
CPU_RATIO = 4.0
VCPUS_PER_INSTANCE = 4


@dataclass(frozen=True)
class Host:
    """A compute host as the log shows it; ``numa`` are the cells of the file."""

    name: str
    node: str
    uuid: str
    zone: str
    flavor_class: str | None
    free_ram_mb: int
    free_disk_mb: int
    io_ops: int
    num_instances: int
    numa: Sequence[Mapping[str, Any]]

    @property
    def free_disk_gb(self) -> int:
        return self.free_disk_mb // 1024

    @property
    def vcpus_used(self) -> int:
        if self.numa:
            return sum(cell['cpu_usage'] for cell in self.numa)
        return self.num_instances * VCPUS_PER_INSTANCE


@dataclass(frozen=True)
class Aggregate:
    """Hosts that share metadata."""

    uuid: str
    name: str
    metadata: Mapping[str, str]
    hosts: Sequence[str]


@dataclass(frozen=True)
class Cluster:
    """The hosts of one cell, and the request of the walk-through."""

    hosts: Sequence[Host]
    cell_uuid: str
    instance_uuid: str
    request: Mapping[str, Any]

    def aggregates(self) -> list[Aggregate]:
        """Return one aggregate per zone and one per flavor class."""
        zones = _grouped((host.zone, host.name) for host in self.hosts)
        classes = _grouped((host.flavor_class, host.name) for host in self.hosts)
        return [
            Aggregate(name_uuid('aggregate', value), value, {key: value}, names)
            for key, groups in (
                ('availability_zone', zones),
                ('flavor_class', classes),
            )
            for value, names in groups.items()
        ]


def read() -> Cluster:
    """Read the cluster that comes with the package."""
    text = importlib.resources.files(__package__).joinpath(DATA).read_text()
    content = json.loads(text)
    cells = [cell['uuid'] for cell in content['cells']]
    return Cluster(
        hosts=[_host(entry) for entry in content['hosts']],
        cell_uuid=next(uuid for uuid in cells if uuid != CELL0_UUID),
        instance_uuid=content['instance_uuid'],
        request=content['request'],
    )


def request_spec(cluster: Cluster) -> RequestSpec:
    """Return the request for one instance, as a conductor would send it."""
    wanted = cluster.request
    flavor = Flavor(
        id=1,
        name='walk-through',
        flavorid='walk-through',
        vcpus=wanted['vcpus'],
        memory_mb=wanted['memory_mb'],
        root_gb=wanted['root_gb'],
        ephemeral_gb=0,
        swap=0,
        extra_specs=dict(wanted['extra_specs']),
    )
    return RequestSpec(
        flavor=flavor,
        image=ImageMeta(disk_format='raw', properties=ImageMetaProps()),
        availability_zone=wanted['availability_zone'],
        instance_uuid=cluster.instance_uuid,
        num_instances=1,
        project_id=OWNER,
        user_id=OWNER,
        is_bfv=False,
        numa_topology=None,
        pci_requests=InstancePCIRequests(requests=[]),
        instance_group=None,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        scheduler_hints={},
        limits=None,
        retry=None,
        requested_resources=[],
    )


def providers(cluster: Cluster) -> list[Provider]:
    """Return the resource provider of each host; what runs there is reserved."""
    members = cluster.aggregates()
    return [
        Provider(
            uuid=host.uuid,
            name=host.node,
            inventories={
                'VCPU': Inventory(
                    VCPUS,
                    reserved=-(-host.vcpus_used // int(CPU_RATIO)),
                    allocation_ratio=CPU_RATIO,
                ),
                'MEMORY_MB': Inventory(MEMORY_MB, MEMORY_MB - host.free_ram_mb),
                'DISK_GB': Inventory(LOCAL_GB, LOCAL_GB - host.free_disk_gb),
            },
            aggregates=frozenset(a.uuid for a in members if host.name in a.hosts),
        )
        for host in cluster.hosts
    ]


def _host(entry: Mapping[str, Any]) -> Host:
    return Host(
        name=entry['host'],
        node=entry['node'],
        uuid=name_uuid('node', entry['node']),
        zone=entry['availability_zone'],
        flavor_class=entry['flavor_class'],
        free_ram_mb=entry['free_ram_mb'],
        free_disk_mb=entry['free_disk_mb'],
        io_ops=entry['io_ops'],
        num_instances=entry['num_instances'],
        numa=entry.get('numa', ()),
    )


def _grouped(pairs: Any) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        if key is not None:
            groups.setdefault(key, []).append(value)
    return groups


def name_uuid(kind: str, name: str) -> str:
    """Return the uuid of a thing of the cluster, the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f'{kind}.{name}.novasched.demo'))
