# SPDX-License-Identifier: Apache-2.0
"""The databases that conductors, computes and the API of the lab write.

Each call is one short transaction, and raises errors.StoreFailed when a database
cannot be asked.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db import cells, tables
from novasched.db.stores import SqlApiStore
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched_lab.db import server_tables
from novasched_lab.store import events, instances, migrations, requests
from novasched_lab.store.events import Fault
from novasched_lab.store.migrations import Migration

Result = TypeVar('Result')


def now() -> datetime.datetime:
    """Return the time of day as rows have it: UTC, whole seconds, no zone."""
    time: datetime.datetime = timeutils.utcnow().replace(microsecond=0)
    return time


class ApiServers(SqlApiStore):
    """The API database, with what it keeps of instances."""

    def __init__(
        self, engine: sa.Engine, defaults: cells.UrlDefaults | None = None
    ) -> None:
        super().__init__(engine, defaults)
        self._writes = Database(engine)

    def ask_for(self, wanted: Iterable[tuple[Instance, RequestSpec]]) -> None:
        """Write that instances are asked for: all of them, or none."""
        pairs, at = list(wanted), now()

        def write(connection: sa.Connection) -> None:
            for instance, request in pairs:
                requests.add(connection, instance, request, at)

        self._writes.retrying(write)

    def waiting(self, before: datetime.datetime | None = None) -> list[Instance]:
        """Return the instances that are asked for and not built, by age."""
        with self._writes.read() as connection:
            return requests.waiting(connection, before)

    def is_asked_for(self, uuid: str) -> bool:
        """Say whether the build request of an instance is there."""
        with self._writes.read() as connection:
            return requests.has_build(connection, uuid)

    def delete_build(self, uuid: str) -> bool:
        """Take a build request away; False if somebody did it before."""
        return self._writes.retrying(lambda c: requests.delete_build(c, uuid))

    def forget(self, uuid: str) -> None:
        """Take away all that the API database has of an instance."""

        def write(connection: sa.Connection) -> None:
            requests.delete_build(connection, uuid)
            requests.delete_spec(connection, uuid)
            requests.unmap(connection, uuid)

        self._writes.retrying(write)

    def map_to_cell(self, uuid: str, cell_uuid: str) -> bool:
        """Write which cell has an instance; False if it has no mapping."""
        at = now()
        return self._writes.retrying(
            lambda c: requests.map_to_cell(c, uuid, cell_uuid, at)
        )

    def unmap(self, uuid: str) -> None:
        """Take away the mapping of an instance that no cell has."""
        nowhere = server_tables.instance_mappings.c.cell_id.is_(None)
        self._writes.retrying(lambda c: requests.unmap(c, uuid, nowhere))

    def cell_of(self, uuid: str) -> str | None:
        """Return the uuid of the cell that has an instance; None: none yet."""
        m = server_tables.instance_mappings.c
        with self._writes.read() as connection:
            found = requests.mappings(connection, m.instance_uuid == uuid)
        return found[0].cell_uuid if found else None

    def mappings(self, project_id: str | None = None) -> Sequence[requests.Mapping]:
        """Return where all instances are, or those of a project, the oldest first."""
        m = server_tables.instance_mappings.c
        wanted = [] if project_id is None else [m.project_id == project_id]
        with self._writes.read() as connection:
            return requests.mappings(connection, *wanted)

    def request_spec(self, uuid: str) -> RequestSpec | None:
        """Return the request that an instance was made by; None if it is not kept."""
        with self._writes.read() as connection:
            return requests.spec(connection, uuid)


class CellServers:
    """The database of a cell, with the instances that it has."""

    def __init__(self, engine: sa.Engine, name: str | None = None) -> None:
        self.database = Database(engine, name)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self.database.engine.dispose()

    def create(self, instance: Instance) -> bool:
        """Write a new instance; False if there is one of this uuid, deleted or not."""
        at = now()

        def write(connection: sa.Connection) -> bool:
            found = sa.select(tables.instances.c.id).where(
                tables.instances.c.uuid == instance.uuid
            )
            if connection.execute(found).first() is not None:
                return False
            instances.create(connection, instance, at)
            return True

        return self.database.retrying(write)

    def update(
        self, uuid: str, expected: Mapping[str, Any] | None = None, **values: Any
    ) -> bool:
        """Change a live instance that is as expected; False if it is not, or is gone.

        ``values`` are columns, or one of instances.EXTRA; an expected value may be a
        list, of which one must be.
        """
        at = now()
        return self.database.retrying(
            lambda c: instances.update(c, uuid, expected or {}, values, at)
        )

    def destroy(self, uuid: str) -> bool:
        """Mark an instance as deleted; False if it was already, or never was."""
        at = now()
        return self.database.retrying(lambda c: instances.destroy(c, uuid, at))

    def instance(self, uuid: str) -> Instance | None:
        """Return a live instance; None if there is none."""
        found = self._read(tables.instances.c.uuid == uuid)
        return found[0] if found else None

    def instances(self, uuids: Sequence[str]) -> list[Instance]:
        """Return those of some instances that live here, by age."""
        return self._read(tables.instances.c.uuid.in_(uuids)) if uuids else []

    def instances_on(self, hosts: Sequence[str]) -> list[Instance]:
        """Return the live instances of some hosts, by age."""
        return self._read(tables.instances.c.host.in_(hosts)) if hosts else []

    def hosts_of(self, uuids: Sequence[str]) -> set[str]:
        """Return the hosts that live instances run on."""
        i = tables.instances.c
        query = sa.select(i.host).where(
            i.uuid.in_(uuids), i.deleted == 0, i.host.is_not(None)
        )
        with self.database.read() as connection:
            return set(connection.execute(query).scalars()) if uuids else set()

    def is_deleted(self, uuid: str) -> bool:
        """Say whether there was such an instance, and it is deleted."""
        i = tables.instances.c
        query = sa.select(i.id).where(i.uuid == uuid, i.deleted != 0)
        with self.database.read() as connection:
            return connection.execute(query).first() is not None

    def add_fault(self, uuid: str, fault: Fault, host: str | None = None) -> None:
        """Write why an instance failed."""
        at = now()
        self.database.retrying(lambda c: events.add_fault(c, uuid, fault, host, at))

    def last_fault(self, uuid: str) -> Fault | None:
        """Return why an instance failed; None if it did not."""
        with self.database.read() as connection:
            return events.last_fault(connection, uuid)

    def start_action(self, context: RequestContext, uuid: str, action: str) -> None:
        """Write that something is begun to be done to an instance."""
        at = now()
        self.database.retrying(
            lambda c: events.start_action(c, context, uuid, action, at)
        )

    def add_event(
        self, uuid: str, event: str, host: str, error: str | None = None
    ) -> None:
        """Write how a step of the last action of an instance ended."""
        at = now()
        self.database.retrying(
            lambda c: events.add_event(c, uuid, event, host, error, at)
        )

    def add_migration(self, migration: Migration) -> None:
        """Write a new move."""
        at = now()
        self.database.retrying(lambda c: migrations.create(c, migration, at))

    def update_migration(
        self, uuid: str, expected: Sequence[str] = (), **values: Any
    ) -> bool:
        """Change a move whose status is one of these, or any; False if it is not."""
        at = now()
        return self.database.retrying(
            lambda c: migrations.update(c, uuid, expected, values, at)
        )

    def migration(self, uuid: str) -> Migration | None:
        """Return a move; None if there is none."""
        m = server_tables.migrations.c
        with self.database.read() as connection:
            found = migrations.read(connection, m.uuid == uuid)
        return found[0] if found else None

    def migrations_on(
        self, hosts: Sequence[str], statuses: Sequence[str] = migrations.UNDER_WAY
    ) -> list[Migration]:
        """Return the moves from or to some hosts that have one of these statuses."""
        m = server_tables.migrations.c
        with self.database.read() as connection:
            return migrations.read(
                connection,
                sa.or_(m.source_compute.in_(hosts), m.dest_compute.in_(hosts)),
                m.status.in_(statuses),
            )

    def write(self, step: Callable[[sa.Connection], Result]) -> Result:
        """Do several things in one transaction, which may be tried several times."""
        return self.database.retrying(step)

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[Instance]:
        with self.database.read() as connection:
            return instances.read(connection, *conditions)
