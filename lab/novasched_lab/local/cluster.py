# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster: 16 simulated hosts, their rows, and a request.

The data file has what the published log of a scheduler shows: names, zones,
free amounts and the load of each host. The totals are made up here, the same
for all hosts, so that every figure of a row agrees with the log.
"""

from __future__ import annotations

import datetime
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.ports import CELL0_UUID
from novasched.scheduler.fit.topology import HostCell, Networks, Pages
from novasched_lab.host_inventory import (
    SMALL_KB,
    SimulatedHost,
    Usage,
    name_uuid,
    node_row,
    provider_of,
    service_row,
    usage_columns,
)
from novasched_lab.resource_providers import Provider

DATA = 'walkthrough_cluster.json'
OWNER = 'demo'
VCPUS = 104
MEMORY_MB = 515191
LOCAL_GB = 240000
CPU_RATIO = 4.0
VCPUS_PER_INSTANCE = 4
GIB_KB = 1048576

Rows = dict[str, list[dict[str, Any]]]
"""Table name to rows, in an order that satisfies the foreign keys."""


@dataclass(frozen=True)
class ClusterHost:
    """A compute host as the log shows it."""

    host: SimulatedHost
    flavor_class: str | None
    usage: Usage
    cells: tuple[HostCell, ...]


@dataclass(frozen=True)
class HostAggregate:
    """Hosts that share a piece of metadata."""

    uuid: str
    name: str
    key: str
    hosts: Sequence[str]


@dataclass(frozen=True)
class Cluster:
    """The hosts of one cell, and the request of the walk-through."""

    hosts: Sequence[ClusterHost]
    cell_uuid: str
    instance_uuid: str
    request: Mapping[str, Any]

    def aggregates(self) -> list[HostAggregate]:
        """Return one aggregate per zone and one per flavor class."""
        zones = _grouped((each.host.zone, each.host.name) for each in self.hosts)
        classes = _grouped((each.flavor_class, each.host.name) for each in self.hosts)
        return [
            HostAggregate(name_uuid('aggregate', value), value, key, names)
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
    aggregates = cluster.aggregates()
    return [
        provider_of(
            each.host,
            each.usage,
            frozenset(a.uuid for a in aggregates if each.host.name in a.hosts),
        )
        for each in cluster.hosts
    ]


def api_rows(cluster: Cluster, database: str, now: datetime.datetime) -> Rows:
    """Return the rows of the API database.

    ``database`` is the URL of the cell. It serves as that of cell0, too, which
    would hold only servers that found no host.
    """
    aggregates = list(enumerate(cluster.aggregates(), 1))
    cells = [(1, 'cell0', CELL0_UUID), (2, 'cell1', cluster.cell_uuid)]
    rows: Rows = {
        'cell_mappings': [
            {
                'id': number,
                'uuid': uuid,
                'name': name,
                'transport_url': 'none:///',
                'database_connection': database.replace('{', '{{').replace('}', '}}'),
                'disabled': False,
            }
            for number, name, uuid in cells
        ],
        'host_mappings': [
            {'cell_id': 2, 'host': each.host.name} for each in cluster.hosts
        ],
        'aggregates': [
            {'id': number, 'uuid': each.uuid, 'name': each.name}
            for number, each in aggregates
        ],
        'aggregate_hosts': [
            {'aggregate_id': number, 'host': host}
            for number, each in aggregates
            for host in each.hosts
        ],
        'aggregate_metadata': [
            {'aggregate_id': number, 'key': each.key, 'value': each.name}
            for number, each in aggregates
        ],
    }
    return {
        table: [{'created_at': now, **row} for row in found]
        for table, found in rows.items()
    }


def cell_rows(cluster: Cluster, now: datetime.datetime) -> Rows:
    """Return the rows of the cell's database: live services, and compute nodes."""
    fresh = {'created_at': now, 'updated_at': now}
    numbered = list(enumerate(cluster.hosts, 1))
    return {
        'services': [
            {**service_row(each.host, now), **fresh, 'id': number, 'last_seen_up': now}
            for number, each in numbered
        ],
        'compute_nodes': [
            {
                **node_row(each.host),
                **usage_columns(each.host, each.usage, each.cells, ()),
                **fresh,
                'id': number,
                'service_id': number,
                'mapped': 1,
            }
            for number, each in numbered
        ],
    }


def _host(entry: Mapping[str, Any]) -> ClusterHost:
    cells = tuple(_cell(each) for each in entry.get('numa', ()))
    instances = entry['num_instances']
    vcpus = instances * VCPUS_PER_INSTANCE
    if cells:
        vcpus = sum(cell.cpu_usage for cell in cells)
    return ClusterHost(
        SimulatedHost(
            entry['host'],
            zone=entry['availability_zone'],
            vcpus=VCPUS,
            memory_mb=MEMORY_MB,
            disk_gb=LOCAL_GB,
            cpu_allocation_ratio=CPU_RATIO,
        ),
        entry['flavor_class'],
        Usage(
            vcpus,
            MEMORY_MB - entry['free_ram_mb'],
            LOCAL_GB - entry['free_disk_mb'] // 1024,
            instances,
            {
                'num_instances': str(instances),
                'io_workload': str(entry['io_ops']),
                'failed_builds': '0',
            },
        ),
        cells,
    )


def _cell(entry: Mapping[str, Any]) -> HostCell:
    huge = entry['pages_1g']
    small = (entry['memory_mb'] - huge['total'] * 1024) * 1024 // SMALL_KB
    return HostCell(
        id=entry['id'],
        cpuset=frozenset(entry['cpuset']),
        pcpuset=frozenset(),
        memory=entry['memory_mb'],
        cpu_usage=entry['cpu_usage'],
        memory_usage=entry['memory_usage_mb'],
        siblings=tuple(frozenset(core) for core in entry['siblings']),
        mempages=(Pages(SMALL_KB, small), Pages(**huge)),
        network_metadata=Networks(),
        socket=entry['id'],
    )


def _grouped(pairs: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        if key is not None:
            groups.setdefault(key, []).append(value)
    return groups
