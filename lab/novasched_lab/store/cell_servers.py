# SPDX-License-Identifier: Apache-2.0
"""The database of a cell: its instances, their faults, actions and moves."""

from __future__ import annotations

import datetime
import uuid as uuids_
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db.tables import instances
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched_lab.db.server_tables import (
    instance_actions,
    instance_actions_events,
    instance_faults,
    migrations,
)
from novasched_lab.store import instance_rows
from novasched_lab.store.instance_rows import in_chunks

LONGEST_MESSAGE = 255
UNDER_WAY = ('pre-migrating', 'migrating', 'post-migrating', 'finished')

_i, _f, _m = instances.c, instance_faults.c, migrations.c
_a, _e = instance_actions.c, instance_actions_events.c


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
    """A live instance of a cell, as a list of servers shows it."""

    uuid: str
    name: str | None
    vm_state: str | None
    task_state: str | None
    host: str | None
    node: str | None
    zone: str | None
    project_id: str | None
    created_at: datetime.datetime | None
    launched_at: datetime.datetime | None


_LIVE = (
    sa.select(
        _i.uuid,
        _i.display_name,
        _i.vm_state,
        _i.task_state,
        _i.host,
        _i.node,
        _i.availability_zone,
        _i.project_id,
        _i.created_at,
        _i.launched_at,
    )
    .where(_i.deleted == 0)
    .order_by(_i.id)
)


class ActionEvent(NamedTuple):
    """A step of an action; ``result`` is Success or Error."""

    event: str | None
    result: str | None
    host: str | None
    finished_at: datetime.datetime | None


class InstanceAction(NamedTuple):
    """Something that was done to an instance; ``message`` is Error if it failed."""

    action: str | None
    started_at: datetime.datetime | None
    message: str | None
    events: tuple[ActionEvent, ...]


def now() -> datetime.datetime:
    """Return the time of day as rows have it: UTC, whole seconds, no zone."""
    time: datetime.datetime = timeutils.utcnow().replace(microsecond=0)
    return time


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
            instance_rows.create(connection, instance, now())
            return True

        return self.database.retrying(write)

    def update(
        self, uuid: str, expected: Mapping[str, Any] | None = None, **values: Any
    ) -> bool:
        """Change a live instance that is as expected; False if it is not, or is gone.

        ``values`` are columns, or one of instance_rows.EXTRA; an expected value may
        be a list, of which one must be.
        """
        return self.database.retrying(
            lambda c: instance_rows.update(c, uuid, expected or {}, values, now())
        )

    def destroy(self, uuid: str) -> bool:
        """Mark an instance as deleted; False if it was already, or never was."""
        return self.database.retrying(lambda c: instance_rows.destroy(c, uuid, now()))

    def instance(self, uuid: str) -> Instance | None:
        """Return a live instance; None if there is none."""
        found = self._read(_i.uuid == uuid)
        return found[0] if found else None

    def instances_on(self, hosts: Sequence[str]) -> list[Instance]:
        """Return the live instances of some hosts, by age."""
        return self._read(_i.host.in_(hosts)) if hosts else []

    def hosts_of(self, uuids: Sequence[str]) -> set[str]:
        """Return the hosts that live instances run on."""
        query = sa.select(_i.host).where(
            _i.uuid.in_(uuids), _i.deleted == 0, _i.host.is_not(None)
        )
        with self.database.read() as connection:
            return set(connection.execute(query).scalars()) if uuids else set()

    def live(self, uuids: Sequence[str] | None = None) -> dict[str, LiveRow]:
        """Return the live instances of the cell, or some of them, by uuid; by age."""
        queries = [_LIVE]
        if uuids is not None:
            queries = [_LIVE.where(_i.uuid.in_(part)) for part in in_chunks(uuids)]
        with self.database.read() as connection:
            return {
                row[0]: LiveRow._make(row)
                for query in queries
                for row in connection.execute(query)
            }

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[Instance]:
        with self.database.read() as connection:
            return instance_rows.read(connection, *conditions)

    # -- faults and actions

    def add_fault(self, uuid: str, fault: Fault, host: str | None = None) -> None:
        """Write why an instance failed; a message that is too long is cut."""
        new = sa.insert(instance_faults).values(
            **_stamps(),
            instance_uuid=uuid,
            code=fault.code,
            message=fault.message[:LONGEST_MESSAGE],
            details=fault.details,
            host=host,
        )
        self.database.retrying(lambda connection: connection.execute(new))

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
                for part in in_chunks(uuids)
                for uuid, message, details, code in connection.execute(
                    query.where(_f.instance_uuid.in_(part))
                )
            }

    def start_action(self, context: RequestContext, uuid: str, action: str) -> None:
        """Write that a user began to do something to an instance."""
        new = sa.insert(instance_actions).values(
            **_stamps(),
            instance_uuid=uuid,
            action=action,
            request_id=context.request_id,
            user_id=context.user_id,
            project_id=context.project_id,
            start_time=now(),
        )
        self.database.retrying(lambda connection: connection.execute(new))

    def add_event(
        self, uuid: str, event: str, host: str, error: str | None = None
    ) -> None:
        """Write how a step of the last action of an instance ended.

        ``error`` None means success; otherwise the action failed with it.
        """
        last = sa.select(_a.id).where(_a.instance_uuid == uuid).order_by(_a.id.desc())
        ended = {} if error is None else {'message': 'Error'}

        def write(connection: sa.Connection) -> None:
            action = connection.execute(last).scalar()
            if action is None:
                return
            connection.execute(
                sa.insert(instance_actions_events).values(
                    **_stamps(),
                    action_id=action,
                    event=event,
                    host=host,
                    start_time=now(),
                    finish_time=now(),
                    result='Success' if error is None else 'Error',
                    traceback=error,
                    details=error,
                )
            )
            connection.execute(
                sa.update(instance_actions)
                .where(_a.id == action)
                .values(updated_at=now(), finish_time=now(), **ended)
            )

        self.database.retrying(write)

    def history(self, uuid: str) -> list[InstanceAction]:
        """Return the actions on an instance, the oldest first."""
        actions = sa.select(_a.id, _a.action, _a.start_time, _a.message)
        actions = actions.where(_a.instance_uuid == uuid).order_by(_a.id)
        events = sa.select(_e.action_id, _e.event, _e.result, _e.host, _e.finish_time)
        found: dict[int, list[ActionEvent]] = {}
        with self.database.read() as connection:
            rows = connection.execute(actions).all()
            ids = [row[0] for row in rows]
            query = events.where(_e.action_id.in_(ids)).order_by(_e.id)
            for action_id, *event in connection.execute(query):
                found.setdefault(action_id, []).append(ActionEvent._make(event))
        return [InstanceAction(*row[1:], tuple(found.get(row[0], ()))) for row in rows]

    # -- moves

    def add_migration(self, migration: Migration) -> None:
        """Write a new move."""
        new = sa.insert(migrations).values(
            created_at=now(),
            deleted=0,
            hidden=False,
            cross_cell_move=False,
            **migration._asdict(),
        )
        self.database.retrying(lambda connection: connection.execute(new))

    def update_migration(
        self, uuid: str, expected: Sequence[str] = (), **values: Any
    ) -> bool:
        """Change a move whose status is one of these, or any; False if it is not."""
        change = sa.update(migrations).where(_m.uuid == uuid, _m.deleted == 0)
        if expected:
            change = change.where(_m.status.in_(expected))
        change = change.values(updated_at=now(), **values)
        return self.database.retrying(lambda c: bool(c.execute(change).rowcount))

    def finish_move(self, migration: Migration, values: Mapping[str, Any]) -> bool:
        """Write that a move is finished, and the new values of its instance.

        False, and nothing is written, if either is not as it was.
        """
        finished = (
            sa.update(migrations)
            .where(_m.uuid == migration.uuid, _m.status == 'migrating')
            .values(status='finished', updated_at=now())
        )
        before = {'host': migration.source_compute}

        def write(connection: sa.Connection) -> bool:
            if not instance_rows.update(
                connection, migration.instance_uuid, before, values, now()
            ):
                return False
            if connection.execute(finished).rowcount:
                return True
            connection.rollback()
            return False

        return self.database.retrying(write)

    def migration(self, uuid: str) -> Migration | None:
        """Return a move; None if there is none."""
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


def _stamps() -> dict[str, Any]:
    return {'created_at': now(), 'updated_at': now(), 'deleted': 0}
