# SPDX-License-Identifier: Apache-2.0
"""Databases of nova and placement for a cloud of any size.

Rows are written as a nova and a placement would have left them; of a large cloud all at
once, which takes seconds.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import placement.db.sqlalchemy.models as placement_tables
import sqlalchemy as sa

from novasched.db import engines, server_tables, tables
from novasched.objects.flavor import Flavor
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.ports import CELL0_UUID
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.compute.rows import HostAggregate, aggregates_by, zones_of
from novasched_lab.host_inventory import (
    Usage,
    name_uuid,
    node_row,
    pools_of,
    pools_text,
    provider_of,
    service_row,
    topology_text,
    usage_columns,
)
from tests.browser import inventory
from tests.browser.inventory import FilledHost, PlacedServer, Shape
from tests.support.clouds.configuration import make_conf
from tests.support.databases import databases

Row = Mapping[str, Any]
MOST_WITH_EXTRA = 400
"""Hosts of a cell whose servers all have their flavor kept, as nova keeps it."""
PROJECT = 'f0e1d2c3b4a5968778695a4b3c2d1e0f'
LONG_AGO = datetime.timedelta(days=2)
ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "20b5"}'
CONF = """[DEFAULT]
host = controller-1
state_path = {directory}
service_down_time = 86400
transport_url = fake://
[api_database]
connection = sqlite:///{directory}/api
[database]
connection = sqlite:///{directory}/cell0
[placement_database]
connection = sqlite:///{directory}/placement.sqlite
[neutron]
auth_type = none
[pci]
alias = {alias}
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SameHostFilter,\
DifferentHostFilter,NUMATopologyFilter,PciPassthroughFilter
"""
PLACEMENT = """[placement]
auth_type = admin_token
endpoint = {endpoint}
token = admin
"""


class CloudFiles:
    """The databases of a directory, which are written to."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self._directory, self._stack = directory, stack
        self._conf = make_conf()

    def engine(self, name: str) -> sa.Engine:
        engine = engines.cell_engine(self._conf, f'sqlite:///{self._directory / name}')
        self._stack.callback(engine.dispose)
        return engine

    def nova(self, name: str) -> sa.Engine:
        """Make the tables of an API database, or of a cell's."""
        engine = self.engine(name)
        databases.Databases(engine, engine).create_tables()
        return engine


def insert(engine: sa.Engine, rows: Mapping[sa.Table, Sequence[Row]]) -> None:
    """Write rows, many at once; those of a table have the same columns."""
    with engine.begin() as connection:
        for table, made in rows.items():
            if made:
                connection.execute(table.insert(), made)


def made(directory: Path, shape: Shape) -> Path:
    """Write a cloud; return its configuration file, which lacks where placement is.

    ``placement.sqlite`` in it is a database of placement, with its standard names.
    """
    hosts = list(inventory.hosts(shape))
    with contextlib.ExitStack() as stack:
        files = CloudFiles(directory, stack)
        insert(files.nova('api'), _api_rows(directory, shape, hosts))
        files.nova('cell0')
        now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
        for number in range(1, shape.cells + 1):
            mine = [h for h in hosts if h.host.cell == f'cell{number}{shape.mark}']
            insert(files.nova(f'cell{number}'), _cell_rows(shape, mine, now))
        engine = files.engine('placement.sqlite')
        insert(engine, _placement_rows(engine, shape, hosts))
    path = directory / 'nova.conf'
    path.write_text(CONF.format(directory=directory, alias=ALIAS))
    return path


def _aggregates(hosts: Sequence[FilledHost], mark: str) -> list[HostAggregate]:
    """Return the zones and racks, and the hosts with devices."""
    devices = [(f'gpu{mark}', each.host.name) for each in hosts if each.host.devices]
    return [
        *zones_of(each.host for each in hosts),
        *aggregates_by('rack', ((each.rack, each.host.name) for each in hosts)),
        *aggregates_by('devices', devices),
    ]


def _api_rows(
    directory: Path, shape: Shape, hosts: Sequence[FilledHost]
) -> dict[sa.Table, list[Row]]:
    cells = [f'cell{number}' for number in range(1, shape.cells + 1)]
    ids = {f'{name}{shape.mark}': place for place, name in enumerate(cells, 2)}
    flavors = inventory.flavors(shape.mark)
    aggregates = _aggregates(hosts, shape.mark)
    mappings = [
        databases.cell_mapping(
            uuid=CELL0_UUID if name == 'cell0' else name_uuid('cell', name),
            name=f'{name}{shape.mark}',
            transport_url='fake://',
            database_connection=f'sqlite:///{directory / name}',
        )
        for name in ('cell0', *cells)
    ]
    sizes = ('id', 'name', 'flavorid', 'vcpus', 'memory_mb', 'root_gb', 'swap')
    return {
        tables.cell_mappings: mappings,
        tables.host_mappings: [
            {'cell_id': ids[each.host.cell or ''], 'host': each.host.name}
            for each in hosts
        ],
        tables.aggregates: [
            {'id': number, 'uuid': name_uuid('zone', each.name), 'name': each.name}
            for number, each in enumerate(aggregates, 1)
        ],
        tables.aggregate_metadata: [
            {'aggregate_id': number, 'key': each.key, 'value': each.name}
            for number, each in enumerate(aggregates, 1)
        ],
        tables.aggregate_hosts: [
            {'aggregate_id': number, 'host': name}
            for number, each in enumerate(aggregates, 1)
            for name in each.hosts
        ],
        server_tables.flavors: [
            {**{name: getattr(each, name) for name in sizes}, 'ephemeral_gb': 0}
            | {'disabled': False, 'is_public': True}
            for each in flavors
        ],
        server_tables.flavor_extra_specs: [
            {'flavor_id': each.id, 'key': key, 'value': value}
            for each in flavors
            for key, value in each.extra_specs.items()
        ],
        server_tables.instance_mappings: [
            {'instance_uuid': server.uuid, 'cell_id': ids[each.host.cell or '']}
            | {'project_id': PROJECT, 'queued_for_delete': False}
            for each in hosts
            for server in each.servers
        ],
    }


def _cell_rows(
    shape: Shape, hosts: Sequence[FilledHost], now: datetime.datetime
) -> dict[sa.Table, list[Row]]:
    flavors = inventory.flavors(shape.mark)
    texts = [
        json.dumps({'cur': each.obj_to_primitive(), 'old': None, 'new': None})
        for each in flavors
    ]
    made: dict[sa.Table, list[Row]] = {}
    for each in hosts:
        made.setdefault(tables.services, []).append(_service(each, shape, now))
        made.setdefault(tables.compute_nodes, []).append(_node(each, flavors, now))
        for server in each.servers:
            row = _instance(each, server, flavors[server.flavor], now)
            made.setdefault(tables.instances, []).append(row)
            if len(hosts) <= MOST_WITH_EXTRA or server.pinning:
                extra = _extra(server, flavors[server.flavor], texts[server.flavor])
                made.setdefault(server_tables.instance_extra, []).append(extra)
    return made


def _service(each: FilledHost, shape: Shape, now: datetime.datetime) -> Row:
    is_down = each.state == inventory.DOWN
    is_disabled = each.state == inventory.DISABLED
    return {
        **service_row(each.host, now - LONG_AGO),
        'last_seen_up': now - LONG_AGO if is_down else now,
        'disabled': is_disabled,
        'disabled_reason': f'memory replaced{shape.mark}' if is_disabled else None,
    }


def _node(each: FilledHost, flavors: Sequence[Flavor], now: datetime.datetime) -> Row:
    held = [flavors[server.flavor] for server in each.servers]
    count = len(held)
    usage = Usage(
        sum(flavor.vcpus for flavor in held),
        sum(flavor.memory_mb for flavor in held),
        sum(flavor.root_gb for flavor in held),
        count,
        {'num_instances': str(count), 'io_workload': str(count % 3)},
    )
    return {
        **node_row(each.host),
        **usage_columns(each.host, usage, (), ()),
        'numa_topology': _topology_text(each.cells),
        'pci_stats': _pools_text(pools_of(each.host)),
        'created_at': now,
        'updated_at': now,
        'mapped': 1,
    }


# Of 10,000 hosts, many have the same.
_topology_text = functools.cache(topology_text)
_pools_text = functools.cache(pools_text)


def _instance(
    each: FilledHost, server: PlacedServer, flavor: Flavor, now: datetime.datetime
) -> Row:
    return {
        'uuid': server.uuid,
        'host': each.host.name,
        'node': each.host.name,
        'display_name': server.name,
        'hostname': server.name,
        'project_id': PROJECT,
        'user_id': PROJECT,
        'vcpus': flavor.vcpus,
        'memory_mb': flavor.memory_mb,
        'root_gb': flavor.root_gb,
        'instance_type_id': flavor.id,
        'vm_state': 'active',
        'launched_at': now - datetime.timedelta(seconds=server.age_s),
        'deleted': 0,
    }


def _extra(server: PlacedServer, flavor: Flavor, text: str) -> Row:
    topology = None
    if pinning := server.pinning:
        cpus = range(len(pinning.cpus))
        cell = InstanceNUMACell(
            id=pinning.node,
            cpuset=set(),
            pcpuset=set(cpus),
            memory=flavor.memory_mb,
            pagesize=inventory.GIB_KB,
            cpu_policy='dedicated',
            cpu_pinning_raw={
                str(own): of_host
                for own, of_host in zip(cpus, pinning.cpus, strict=True)
            },
        )
        made = InstanceNUMATopology(cells=[cell])
        topology = json.dumps(made.obj_to_primitive())
    return {
        'instance_uuid': server.uuid,
        'flavor': text,
        'numa_topology': topology,
        'deleted': 0,
    }


def _placement_rows(
    engine: sa.Engine, shape: Shape, hosts: Sequence[FilledHost]
) -> dict[sa.Table, list[Row]]:
    """Return the providers of the hosts, and what their servers have claimed."""
    named = {
        table.name: table for table in placement_tables.BASE.metadata.sorted_tables
    }
    with engine.connect() as connection:
        classes, traits = (
            dict(
                connection.execute(
                    sa.select(named[name].c.name, named[name].c.id)
                ).all()
            )
            for name in ('resource_classes', 'traits')
        )
    flavors = inventory.flavors(shape.mark)
    aggregates = _aggregates(hosts, shape.mark)
    made: dict[str, list[Row]] = {
        'placement_aggregates': [
            {'id': number, 'uuid': name_uuid('zone', each.name)}
            for number, each in enumerate(aggregates, 1)
        ],
        'projects': [{'id': 1, 'external_id': PROJECT}],
        'users': [{'id': 1, 'external_id': PROJECT}],
        'consumer_types': [{'id': 1, 'name': 'INSTANCE'}],
    }
    member_of: dict[str, list[int]] = {}
    for number, aggregate in enumerate(aggregates, 1):
        for name in aggregate.hosts:
            member_of.setdefault(name, []).append(number)

    def add(table: str, rows: Iterable[Row]) -> None:
        made.setdefault(table, []).extend(rows)

    for id_, each in enumerate(hosts, 1):
        wanted = provider_of(each.host)
        of = {'resource_provider_id': id_}
        found = {'id': id_, 'uuid': wanted.uuid, 'name': wanted.name[:200]}
        add('resource_providers', [found | {'root_provider_id': id_, 'generation': 1}])
        add(
            'inventories',
            (
                {**of, 'resource_class_id': classes[name], **asdict(inventory_)}
                for name, inventory_ in wanted.inventories.items()
            ),
        )
        has = set(wanted.traits)
        if each.state == inventory.DISABLED:
            has.add('COMPUTE_STATUS_DISABLED')
        add('resource_provider_traits', ({**of, 'trait_id': traits[t]} for t in has))
        add(
            'resource_provider_aggregates',
            ({**of, 'aggregate_id': number} for number in member_of[wanted.name]),
        )
        for server in each.servers:
            consumer = {'uuid': server.uuid, 'project_id': 1, 'user_id': 1}
            add('consumers', [consumer | {'generation': 1, 'consumer_type_id': 1}])
            add(
                'allocations',
                (
                    {**of, 'consumer_id': server.uuid, 'used': amount}
                    | {'resource_class_id': classes[name]}
                    for name, amount in _claimed(flavors[server.flavor], server)
                ),
            )
    return {named[name]: rows for name, rows in made.items()}


def _claimed(flavor: Flavor, server: PlacedServer) -> Iterator[tuple[str, int]]:
    yield ('PCPU' if server.pinning else 'VCPU'), flavor.vcpus
    yield 'MEMORY_MB', flavor.memory_mb
    yield 'DISK_GB', flavor.root_gb
