# SPDX-License-Identifier: Apache-2.0
"""Instances of a cell, as the objects that travel, with what they are made of."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from novasched.db.tables import instance_system_metadata, instances
from novasched.objects.base import NovaObject, parse
from novasched.objects.instance import Instance
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched_lab.db.server_tables import instance_extra

EXTRA = ('flavor', 'numa_topology', 'pci_requests')
_KEPT = {'id', 'created_at', 'updated_at', 'deleted', 'deleted_at'}
_COLUMNS = tuple(
    name
    for name in instances.c.keys()  # noqa: SIM118 it is no mapping
    if name in Instance.fields and name not in _KEPT
)
_READ = (
    sa.select(
        instances.c.id,
        instances.c.created_at,
        instances.c.updated_at,
        *(instances.c[name] for name in _COLUMNS),
        *(instance_extra.c[name].label(f'extra_{name}') for name in EXTRA),
    )
    .outerjoin_from(
        instances,
        instance_extra,
        sa.and_(
            instance_extra.c.instance_uuid == instances.c.uuid,
            instance_extra.c.deleted == 0,
        ),
    )
    .where(instances.c.deleted == 0)
    .order_by(instances.c.id)
)
CHUNK = 500


def in_chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield values in parts of at most CHUNK, as databases limit a statement."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def create(
    connection: sa.Connection, instance: Instance, now: datetime.datetime
) -> None:
    """Write an instance with its flavor, NUMA nodes, devices and system metadata."""
    connection.execute(
        sa.insert(instances).values(
            created_at=now, deleted=0, cleaned=0, **columns_of(instance)
        )
    )
    connection.execute(
        sa.insert(instance_extra).values(
            created_at=now,
            deleted=0,
            instance_uuid=instance.uuid,
            **{
                name: extra_text(name, getattr(instance, name))
                for name in EXTRA
                if name in instance
            },
        )
    )
    metadata = instance.system_metadata if 'system_metadata' in instance else {}
    rows = [
        {
            'created_at': now,
            'deleted': 0,
            'instance_uuid': instance.uuid,
            'key': key,
            'value': value,
        }
        for key, value in metadata.items()
    ]
    if rows:
        connection.execute(sa.insert(instance_system_metadata), rows)


def columns_of(instance: Instance) -> dict[str, Any]:
    """Return the columns of the row of an instance, without those the store keeps."""
    return {
        name: _plain(getattr(instance, name))
        for name in _COLUMNS
        if name in instance and name != 'cleaned'
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)  # an address


def extra_text(name: str, value: Any) -> str | None:
    """Return what instance_extra has for a value, as nova writes it."""
    if value is None or isinstance(value, str):
        return value
    if name == 'pci_requests':
        return json.dumps([_request_dict(request) for request in value.requests])
    primitive = value.obj_to_primitive() if isinstance(value, NovaObject) else value
    if name == 'flavor':
        primitive = {'cur': primitive, 'old': None, 'new': None}
    return json.dumps(primitive)


def _request_dict(request: InstancePCIRequest) -> dict[str, Any]:
    names = ('count', 'spec', 'alias_name', 'is_new', 'numa_policy', 'request_id')
    found = {name: getattr(request, name, None) for name in names if name in request}
    if 'requester_id' in request:
        found['requester_id'] = request.requester_id
    return found


def read(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[Instance]:
    """Return the live instances that meet all conditions, by id."""
    rows = connection.execute(_READ.where(*conditions)).mappings().all()
    metadata = _system_metadata(connection, [row['uuid'] for row in rows])
    return [_instance(row, metadata.get(row['uuid'], {})) for row in rows]


def _system_metadata(
    connection: sa.Connection, uuids: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    m = instance_system_metadata.c
    found: dict[str, dict[str, str | None]] = {}
    for part in in_chunks(uuids):
        query = sa.select(m.instance_uuid, m.key, m.value).where(
            m.instance_uuid.in_(part), m.deleted == 0
        )
        for uuid, key, value in connection.execute(query):
            found.setdefault(uuid, {})[key] = value
    return found


def _instance(row: Mapping[Any, Any], metadata: Mapping[str, str | None]) -> Instance:
    made = Instance()
    made.assign(
        id=row['id'],
        created_at=row['created_at'],
        updated_at=row['updated_at'],
        deleted=False,
        system_metadata=dict(metadata),
        **{name: row[name] for name in _COLUMNS if _readable(made, name, row[name])},
        **{
            name: _extra(name, row[f'extra_{name}'])
            for name in EXTRA
            if _has(row, name)
        },
    )
    made.obj_reset_changes(recursive=True)
    return made


def _readable(instance: Instance, name: str, value: Any) -> bool:
    """Leave a null unset where the object has no null."""
    return value is not None or bool(instance.fields[name].nullable)


def _has(row: Mapping[Any, Any], name: str) -> bool:
    return row[f'extra_{name}'] is not None or name != 'flavor'


def _extra(name: str, text: str | None) -> Any:
    if text is None:
        return None
    value = json.loads(text)
    if name == 'flavor':
        return parse(value['cur'])
    if name == 'pci_requests':
        requests = [InstancePCIRequest(**each) for each in value]
        return InstancePCIRequests(requests=requests)
    return parse(value)


def update(
    connection: sa.Connection,
    uuid: str,
    expected: Mapping[str, Any],
    values: Mapping[str, Any],
    now: datetime.datetime,
) -> bool:
    """Change a live instance that is as expected; False if it is not, or is gone.

    An expected value may be a list, of which one must be.
    """
    columns = {name: _plain(value) for name, value in values.items()}
    extra = {name: extra_text(name, values[name]) for name in EXTRA if name in values}
    for name in extra:
        del columns[name]
    conditions = [_is(instances.c[name], value) for name, value in expected.items()]
    change = (
        sa.update(instances)
        .where(instances.c.uuid == uuid, instances.c.deleted == 0, *conditions)
        .values(updated_at=now, **columns)
    )
    if not connection.execute(change).rowcount:
        return False
    if extra:
        e = instance_extra.c
        connection.execute(
            sa.update(instance_extra)
            .where(e.instance_uuid == uuid, e.deleted == 0)
            .values(updated_at=now, **extra)
        )
    return True


def _is(column: sa.ColumnElement[Any], value: Any) -> sa.ColumnElement[bool]:
    if isinstance(value, list | tuple):
        return sa.or_(*(_is(column, one) for one in value))
    return column.is_(None) if value is None else column == value


def destroy(connection: sa.Connection, uuid: str, now: datetime.datetime) -> bool:
    """Mark an instance and what belongs to it as deleted; False if it was already."""
    gone = sa.update(instances).where(
        instances.c.uuid == uuid, instances.c.deleted == 0
    )
    found = connection.execute(
        gone.values(
            deleted=instances.c.id,
            deleted_at=now,
            terminated_at=now,
            vm_state='deleted',
            task_state=None,
        )
    ).rowcount
    for table in (instance_extra, instance_system_metadata):
        connection.execute(
            sa.update(table)
            .where(table.c.instance_uuid == uuid, table.c.deleted == 0)
            .values(deleted=table.c.id, deleted_at=now)
        )
    return bool(found)
