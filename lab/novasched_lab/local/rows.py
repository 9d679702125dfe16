# SPDX-License-Identifier: Apache-2.0
"""The walk-through cluster as rows of the API database and of its cell."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.ports import CELL0_UUID
from novasched_lab.local.cluster import (
    CPU_RATIO,
    LOCAL_GB,
    MEMORY_MB,
    VCPUS,
    Cluster,
    Host,
    name_uuid,
)

SERVICE_VERSION = 74

Rows = dict[str, list[dict[str, Any]]]
"""Table name to rows, in an order that satisfies the foreign keys."""


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
        'host_mappings': [{'cell_id': 2, 'host': host.name} for host in cluster.hosts],
        'aggregates': [
            {'id': number, 'uuid': aggregate.uuid, 'name': aggregate.name}
            for number, aggregate in aggregates
        ],
        'aggregate_hosts': [
            {'aggregate_id': number, 'host': host}
            for number, aggregate in aggregates
            for host in aggregate.hosts
        ],
        'aggregate_metadata': [
            {'aggregate_id': number, 'key': key, 'value': value}
            for number, aggregate in aggregates
            for key, value in aggregate.metadata.items()
        ],
    }
    return _stamped(rows, now)


def cell_rows(cluster: Cluster, now: datetime.datetime) -> Rows:
    """Return the rows of the cell's database: services just heard from, nodes."""
    numbered = list(enumerate(cluster.hosts, 1))
    rows: Rows = {
        'services': [_service(number, host, now) for number, host in numbered],
        'compute_nodes': [_compute_node(number, host) for number, host in numbered],
    }
    return _stamped(rows, now, updated_at=now)


def _service(number: int, host: Host, now: datetime.datetime) -> dict[str, Any]:
    return {
        'id': number,
        'uuid': name_uuid('service', host.name),
        'host': host.name,
        'binary': 'nova-compute',
        'topic': 'compute',
        'report_count': 1,
        'disabled': False,
        'forced_down': False,
        'deleted': 0,
        'last_seen_up': now,
        'version': SERVICE_VERSION,
    }


def _compute_node(number: int, host: Host) -> dict[str, Any]:
    stats = {
        'num_instances': str(host.num_instances),
        'io_workload': str(host.io_ops),
        'failed_builds': '0',
    }
    return {
        'id': number,
        'uuid': host.uuid,
        'service_id': number,
        'host': host.name,
        'hypervisor_hostname': host.node,
        'vcpus': VCPUS,
        'vcpus_used': host.vcpus_used,
        'memory_mb': MEMORY_MB,
        'memory_mb_used': MEMORY_MB - host.free_ram_mb,
        'local_gb': LOCAL_GB,
        'local_gb_used': LOCAL_GB - host.free_disk_gb,
        'free_ram_mb': host.free_ram_mb,
        'free_disk_gb': host.free_disk_gb,
        'disk_available_least': host.free_disk_gb,
        'current_workload': host.io_ops,
        'running_vms': host.num_instances,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002002,
        'cpu_info': json.dumps({'arch': 'x86_64'}),
        'supported_instances': json.dumps([['x86_64', 'kvm', 'hvm']]),
        'metrics': json.dumps([]),
        'stats': json.dumps(stats),
        'numa_topology': _numa_topology(host.numa) if host.numa else None,
        'cpu_allocation_ratio': CPU_RATIO,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'mapped': 1,
        'deleted': 0,
    }


def _numa_topology(cells: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(
        _primitive('NUMATopology', '1.2', cells=[_numa_cell(cell) for cell in cells])
    )


def _numa_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    pages = cell['pages_1g']
    huge = _primitive('NUMAPagesTopology', '1.1', **pages, reserved=0)
    small = (cell['memory_mb'] - pages['total'] * 1024) * 256
    return _primitive(
        'NUMACell',
        '1.5',
        id=cell['id'],
        cpuset=cell['cpuset'],
        pcpuset=[],
        pinned_cpus=[],
        siblings=cell['siblings'],
        memory=cell['memory_mb'],
        cpu_usage=cell['cpu_usage'],
        memory_usage=cell['memory_usage_mb'],
        mempages=[
            _primitive(
                'NUMAPagesTopology', '1.1', size_kb=4, total=small, used=0, reserved=0
            ),
            huge,
        ],
        network_metadata=_primitive(
            'NetworkMetadata', '1.0', physnets=[], tunneled=False
        ),
        socket=cell['id'],
    )


def _primitive(name: str, version: str, **values: Any) -> dict[str, Any]:
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': values,
    }


def _stamped(rows: Rows, now: datetime.datetime, **stamps: Any) -> Rows:
    return {
        table: [{'created_at': now, **stamps, **row} for row in each]
        for table, each in rows.items()
    }
