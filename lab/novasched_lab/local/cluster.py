# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster: 16 simulated hosts and a request.

The data file has what the published log of a scheduler shows: names, zones,
free amounts and the load of each host. The totals are made up here, the same
for all hosts, so that every figure of a row agrees with the log.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.ports import CELL0_UUID
from novasched.scheduler.fit.topology import HostCell, Networks, Pages
from novasched_lab.compute.rows import HostAggregate, aggregates_by, zones_of
from novasched_lab.host_inventory import (
    SMALL_KB,
    SimulatedHost,
    Usage,
    provider_of,
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


@dataclass(frozen=True)
class ClusterHost:
    host: SimulatedHost
    flavor_class: str | None
    usage: Usage
    cells: tuple[HostCell, ...]


@dataclass(frozen=True)
class Cluster:
    """The hosts of one cell, and the request of the walk-through."""

    hosts: Sequence[ClusterHost]
    cell_uuid: str
    instance_uuid: str
    request: Mapping[str, Any]

    def simulated_hosts(self) -> list[SimulatedHost]:
        return [each.host for each in self.hosts]

    def aggregates(self) -> list[HostAggregate]:
        pairs = ((each.flavor_class, each.host.name) for each in self.hosts)
        return [
            *zones_of(self.simulated_hosts()),
            *aggregates_by('flavor_class', pairs),
        ]

    def usage(self) -> dict[str, dict[str, Any]]:
        return {
            each.host.name: usage_columns(each.host, each.usage, each.cells, ())
            for each in self.hosts
        }

    def providers(self, uuids: Mapping[str, str]) -> list[Provider]:
        """Return the resource provider of each host; what runs there is reserved.

        ``uuids`` has the uuids of the aggregates by name.
        """
        return [
            provider_of(
                each.host,
                each.usage,
                frozenset(uuids[n] for n in (each.host.zone, each.flavor_class) if n),
            )
            for each in self.hosts
        ]


def read() -> Cluster:
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
    unset = ('numa_topology', 'instance_group', 'limits', 'retry')
    forced = ('ignore_hosts', 'force_hosts', 'force_nodes')
    return RequestSpec(
        flavor=flavor,
        image=ImageMeta(disk_format='raw', properties=ImageMetaProps()),
        availability_zone=wanted['availability_zone'],
        instance_uuid=cluster.instance_uuid,
        num_instances=1,
        project_id=OWNER,
        user_id=OWNER,
        is_bfv=False,
        pci_requests=InstancePCIRequests(requests=[]),
        scheduler_hints={},
        requested_resources=[],
        **dict.fromkeys((*unset, *forced)),
    )


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
