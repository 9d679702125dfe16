# SPDX-License-Identifier: Apache-2.0
"""The database of a cell: its instances, their faults, actions and moves."""

from __future__ import annotations

import datetime
import json
import uuid as uuids_
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db.hosts import chunks
from novasched.db.tables import instance_system_metadata, instances
from novasched.db.transactions import Database
from novasched.objects.base import NovaObject, parse
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched_lab.db.server_tables import (
    instance_actions,
    instance_extra,
    instance_faults,
    migrations,
)

EXTRA = ('flavor', 'numa_topology', 'pci_requests')
"""Values of an instance that its row in instance_extra has, as JSON."""

_KEPT = {'id', 'created_at', 'updated_at', 'deleted', 'deleted_at', 'cleaned'}
_COLUMNS = tuple(
    name
    for name in instances.c.keys()  # noqa: SIM118 it is no mapping
    if name in Instance.fields and name not in _KEPT
)
_i, _x, _s = instances.c, instance_extra.c, instance_system_metadata.c
_f, _m, _a = instance_faults.c, migrations.c, instance_actions.c
_READ = (
    sa.select(
        _i.id,
        _i.created_at,
        _i.updated_at,
        *(_i[name] for name in _COLUMNS),
        *(_x[name] for name in EXTRA),
    )
    .outerjoin_from(
        instances,
        instance_extra,
        sa.and_(_x.instance_uuid == _i.uuid, _x.deleted == 0),
    )
    .where(_i.deleted == 0)
    .order_by(_i.id)
)
_PCI_REQUEST = (
    'count', 'spec', 'alias_name', 'is_new', 'numa_policy', 'request_id', 'requester_id'
)  # fmt: skip
LONGEST_MESSAGE = 255
UNDER_WAY = ('pre-migrating', 'migrating', 'post-migrating', 'finished')


def now() -> datetime.datetime:
    """Return the time of day as rows have it: UTC, whole seconds, no zone."""
    time: datetime.datetime = timeutils.utcnow().replace(microsecond=0)
    return time


def _insert_instance(connection: sa.Connection, instance: Instance) -> None:
    new = {'created_at': now(), 'deleted': 0}
    values = {n: _plain(getattr(instance, n)) for n in _COLUMNS if n in instance}
    connection.execute(sa.insert(instances).values(**new, cleaned=0, **values))
    new['instance_uuid'] = instance.uuid
    extra = {n: _extra_text(n, getattr(instance, n)) for n in EXTRA if n in instance}
    connection.execute(sa.insert(instance_extra).values(**new, **extra))
    metadata = instance.system_metadata if 'system_metadata' in instance else {}
    rows = [{**new, 'key': key, 'value': metadata[key]} for key in metadata]
    if rows:
        connection.execute(sa.insert(instance_system_metadata), rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)  # an address


def _extra_text(name: str, value: Any) -> str | None:
    """Return the form of a value in instance_extra, as nova writes it."""
    if value is None or isinstance(value, str):
        return value
    if name == 'pci_requests':
        return json.dumps(
            [
                {key: getattr(each, key) for key in _PCI_REQUEST if key in each}
                for each in value.requests
            ]
        )
    primitive = value.obj_to_primitive() if isinstance(value, NovaObject) else value
    if name == 'flavor':
        primitive = {'cur': primitive, 'old': None, 'new': None}
    return json.dumps(primitive)


def _read_instances(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[Instance]:
    """Return the live instances that meet all conditions, by id."""
    rows = connection.execute(_READ.where(*conditions)).mappings().all()
    metadata: dict[str, dict[str, str | None]] = {row['uuid']: {} for row in rows}
    for part in chunks(list(metadata)):
        query = sa.select(_s.instance_uuid, _s.key, _s.value).where(
            _s.instance_uuid.in_(part), _s.deleted == 0
        )
        for uuid, key, value in connection.execute(query):
            metadata[uuid][key] = value
    return [_instance(row, metadata[row['uuid']]) for row in rows]


def _instance(row: Mapping[Any, Any], metadata: Mapping[str, str | None]) -> Instance:
    """Return the object of a row; a null is unset where the object has no null."""
    made = Instance()
    values = {name: row[name] for name in _COLUMNS}
    values |= {name: _extra(name, row[name]) for name in EXTRA}
    made.assign(
        id=row['id'],
        created_at=row['created_at'],
        updated_at=row['updated_at'],
        deleted=False,
        system_metadata=dict(metadata),
        **{
            name: value
            for name, value in values.items()
            if value is not None or (name != 'flavor' and made.fields[name].nullable)
        },
    )
    made.obj_reset_changes(recursive=True)
    return made


def _extra(name: str, text: str | None) -> Any:
    if text is None:
        return None
    value = json.loads(text)
    if name == 'pci_requests':
        requests = [InstancePCIRequest(**each) for each in value]
        return InstancePCIRequests(requests=requests)
    return parse(value['cur'] if name == 'flavor' else value)


def _update_instance(
    connection: sa.Connection,
    uuid: str,
    expected: Mapping[str, Any],
    values: Mapping[str, Any],
) -> bool:
    """Change a live instance that is as expected; False if it is not, or is gone.

    An expected value may be a list, of which one must be.
    """
    columns = {n: _plain(value) for n, value in values.items() if n not in EXTRA}
    extra = {n: _extra_text(n, value) for n, value in values.items() if n in EXTRA}
    conditions = [_is(_i[name], value) for name, value in expected.items()]
    change = (
        sa.update(instances)
        .where(_i.uuid == uuid, _i.deleted == 0, *conditions)
        .values(updated_at=now(), **columns)
    )
    if not connection.execute(change).rowcount:
        return False
    if extra:
        change = sa.update(instance_extra).where(
            _x.instance_uuid == uuid, _x.deleted == 0
        )
        connection.execute(change.values(updated_at=now(), **extra))
    return True


def _is(column: sa.ColumnElement[Any], value: Any) -> sa.ColumnElement[bool]:
    if isinstance(value, list | tuple):
        return sa.or_(*(_is(column, one) for one in value))
    return column.is_(None) if value is None else column == value


def _destroy_instance(connection: sa.Connection, uuid: str) -> bool:
    gone = {'vm_state': 'deleted', 'task_state': None, 'terminated_at': now()}
    found = 0
    for table, key, values in (
        (instance_extra, 'instance_uuid', {}),
        (instance_system_metadata, 'instance_uuid', {}),
        (instances, 'uuid', gone),
    ):
        found = connection.execute(
            sa.update(table)
            .where(table.c[key] == uuid, table.c.deleted == 0)
            .values(deleted=table.c.id, deleted_at=now(), **values)
        ).rowcount
    return bool(found)


class Fault(NamedTuple):
    """Why an instance failed; ``message`` is what its owner sees."""

    message: str
    details: str = ''
    code: int = 500


class Migration(NamedTuple):
    """A move; ``uuid`` is the consumer that holds the source while it lasts."""

    uuid: str
    instance_uuid: str
    status: str
    migration_type: str
    source_compute: str | None
    source_node: str | None
    dest_compute: str | None = None
    dest_node: str | None = None

    @classmethod
    def of(
        cls, instance_uuid: str, kind: str, host: str | None, node: str | None
    ) -> Self:
        """Return a new move of an instance away from a host; nothing is written."""
        uuid = str(uuids_.uuid4())
        return cls(uuid, instance_uuid, 'pre-migrating', kind, host, node)


class LiveRow(NamedTuple):
    """Columns of a live instance that a list of servers shows."""

    uuid: str
    display_name: str | None
    vm_state: str | None
    task_state: str | None
    host: str | None
    node: str | None
    availability_zone: str | None
    project_id: str | None
    created_at: datetime.datetime | None
    launched_at: datetime.datetime | None


class CellServers:
    """The database of a cell, with the instances that it has.

    Each call is one transaction, and raises errors.StoreFailed.
    """

    def __init__(self, engine: sa.Engine, name: str | None = None) -> None:
        self.database = Database(engine, name)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self.database.engine.dispose()

    # -- instances

    def create(self, instance: Instance) -> bool:
        """Write a new instance; False if there is one of this uuid, deleted or not."""
        known = sa.select(_i.id).where(_i.uuid == instance.uuid)

        def write(connection: sa.Connection) -> bool:
            if connection.execute(known).first() is not None:
                return False
            _insert_instance(connection, instance)
            return True

        return self.database.retrying(write)

    def update(
        self, uuid: str, expected: Mapping[str, Any] | None = None, **values: Any
    ) -> bool:
        """Change a live instance that is as expected; False if it is not, or is gone.

        ``values`` are columns, or one of EXTRA; an expected value may
        be a list, of which one must be.
        """
        return self.database.retrying(
            lambda c: _update_instance(c, uuid, expected or {}, values)
        )

    def destroy(self, uuid: str) -> bool:
        """Mark an instance as deleted; False if it was already, or never was."""
        return self.database.retrying(lambda c: _destroy_instance(c, uuid))

    def instance(self, uuid: str) -> Instance | None:
        with self.database.read() as connection:
            found = _read_instances(connection, _i.uuid == uuid)
        return found[0] if found else None

    def instances_on(self, hosts: Sequence[str]) -> list[Instance]:
        with self.database.read() as connection:
            return _read_instances(connection, _i.host.in_(hosts))

    def hosts_of(self, uuids: Iterable[str]) -> set[str]:
        return {row.host for row in self.live(list(uuids)).values() if row.host}

    def live(self, uuids: Sequence[str] | None = None) -> dict[str, LiveRow]:
        """Return the live instances of the cell, or some of them, by uuid; by age."""
        columns = [_i[name] for name in LiveRow._fields]
        query = sa.select(*columns).where(_i.deleted == 0).order_by(_i.id)
        queries = [query]
        if uuids is not None:
            queries = [query.where(_i.uuid.in_(part)) for part in chunks(uuids)]
        with self.database.read() as connection:
            return {
                row.uuid: LiveRow._make(row)
                for each in queries
                for row in connection.execute(each)
            }

    # -- faults and actions

    def add_fault(self, uuid: str, fault: Fault, host: str | None = None) -> None:
        """Write why an instance failed, and that the last action on it did.

        A message that is too long is cut.
        """
        message = fault.message[:LONGEST_MESSAGE]
        values = {**fault._asdict(), 'message': message, 'host': host}
        new = sa.insert(instance_faults).values(
            **_stamps(), instance_uuid=uuid, **values
        )
        last = sa.select(sa.func.max(_a.id)).where(_a.instance_uuid == uuid)
        failed = sa.update(instance_actions).values(
            updated_at=now(), finish_time=now(), message='Error'
        )

        def write(connection: sa.Connection) -> None:
            connection.execute(new)
            action = connection.execute(last).scalar()
            connection.execute(failed.where(_a.id == action))

        self.database.retrying(write)

    def last_fault(self, uuid: str) -> Fault | None:
        """Return why an instance failed; None if it did not."""
        return self.faults([uuid]).get(uuid)

    def faults(self, uuids: Sequence[str]) -> dict[str, Fault]:
        """Return the newest fault of each instance that has one."""
        columns = (_f.instance_uuid, _f.message, _f.details, _f.code)
        query = sa.select(*columns).where(_f.deleted == 0).order_by(_f.id)
        with self.database.read() as connection:
            return {
                uuid: Fault(message or '', details or '', code)
                for part in chunks(uuids)
                for uuid, message, details, code in connection.execute(
                    query.where(_f.instance_uuid.in_(part))
                )
            }

    def start_action(self, context: RequestContext, uuid: str, action: str) -> None:
        self._insert(
            instance_actions,
            instance_uuid=uuid,
            action=action,
            request_id=context.request_id,
            user_id=context.user_id,
            project_id=context.project_id,
            start_time=now(),
        )

    def history(self, uuid: str) -> list[dict[str, Any]]:
        """Return the actions on an instance, the oldest first.

        ``message`` is Error for an action that failed.
        """
        query = sa.select(_a.start_time, _a.action, _a.message)
        query = query.where(_a.instance_uuid == uuid).order_by(_a.id)
        with self.database.read() as connection:
            return [
                {'at': at, 'action': action, 'message': message}
                for at, action, message in connection.execute(query)
            ]

    # -- moves

    def add_migration(self, migration: Migration) -> None:
        values = {'hidden': False, 'cross_cell_move': False, **migration._asdict()}
        self._insert(migrations, **values)

    def update_migration(
        self, uuid: str, expected: Sequence[str] = (), **values: Any
    ) -> bool:
        """Change a move whose status is one of these, or any; False if it is not."""
        change = sa.update(migrations).where(_m.uuid == uuid, _m.deleted == 0)
        if expected:
            change = change.where(_m.status.in_(expected))
        change = change.values(updated_at=now(), **values)
        return self.database.retrying(lambda c: bool(c.execute(change).rowcount))

    def begin_move(self, uuid: str, host: str) -> Migration | None:
        """Return a move that a host has begun; None if it is over, or begun already."""
        here = {'dest_compute': host, 'dest_node': host}
        before = ['pre-migrating']
        begun = self.update_migration(uuid, before, status='migrating', **here)
        return self.migration(uuid) if begun else None

    def finish_move(self, migration: Migration, values: Mapping[str, Any]) -> bool:
        """Write that a move is finished, and the new values of its instance.

        False, and nothing is written, if either is not as it was.
        """
        finished = (
            sa.update(migrations)
            .where(_m.uuid == migration.uuid, _m.status == 'migrating')
            .values(status='finished', updated_at=now())
        )
        uuid, before = migration.instance_uuid, {'host': migration.source_compute}

        def write(connection: sa.Connection) -> bool:
            if not _update_instance(connection, uuid, before, values):
                return False
            if connection.execute(finished).rowcount:
                return True
            connection.rollback()
            return False

        return self.database.retrying(write)

    def migration(self, uuid: str) -> Migration | None:
        found = self._migrations(_m.uuid == uuid)
        return found[0][0] if found else None

    def moves(self, uuid: str) -> list[tuple[Migration, datetime.datetime | None]]:
        """Return the moves of an instance, the oldest first, and when each changed."""
        return self._migrations(_m.instance_uuid == uuid)

    def _migrations(
        self, condition: sa.ColumnElement[bool]
    ) -> list[tuple[Migration, datetime.datetime | None]]:
        columns = [_m[name] for name in Migration._fields]
        query = sa.select(*columns, _m.updated_at).where(_m.deleted == 0, condition)
        with self.database.read() as connection:
            rows = connection.execute(query.order_by(_m.id)).all()
        return [(Migration._make(row[:-1]), row[-1]) for row in rows]

    def _insert(self, table: sa.Table, **values: Any) -> None:
        new = sa.insert(table).values(**_stamps(), **values)
        self.database.retrying(lambda connection: connection.execute(new))


def _stamps() -> dict[str, Any]:
    return {'created_at': now(), 'updated_at': now(), 'deleted': 0}
