# SPDX-License-Identifier: Apache-2.0
"""The API database, with what it keeps of instances that are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from novasched.db import cells
from novasched.db.stores import SqlApiStore
from novasched.db.tables import cell_mappings
from novasched.db.transactions import Database
from novasched.objects.base import parse
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched_lab.db.server_tables import (
    build_requests,
    flavor_extra_specs,
    flavors,
    instance_mappings,
    request_specs,
)
from novasched_lab.store import server_groups
from novasched_lab.store.cell_servers import now
from novasched_lab.store.instance_rows import in_chunks
from novasched_lab.store.server_groups import ServerGroup

NOT_KEPT = (
    'retry',
    'requested_destination',
    'requested_resources',
    'ignore_hosts',
    'network_metadata',
    'requested_networks',
    'request_level_params',
)
"""Fields of a request that hold for one attempt only."""


FLAVOR_FIELDS = (
    'id',
    'name',
    'memory_mb',
    'vcpus',
    'swap',
    'vcpu_weight',
    'flavorid',
    'rxtx_factor',
    'disabled',
    'is_public',
    'description',
)


class InstanceMapping(NamedTuple):
    """Where an instance is; ``cell_uuid`` is None until it is known."""

    instance_uuid: str
    cell_uuid: str | None
    project_id: str


_m, _b, _r = instance_mappings.c, build_requests.c, request_specs.c
_MAPPING = (_m.instance_uuid, cell_mappings.c.uuid, _m.project_id)
_MAPPED = instance_mappings.outerjoin(
    cell_mappings, instance_mappings.c.cell_id == cell_mappings.c.id
)


class ApiServers(SqlApiStore):
    """The API database; each call is one transaction, and raises errors.StoreFailed."""

    def server_group(self, uuid: str) -> ServerGroup | None:
        """Return a server group by its uuid."""
        return self._database.reading(lambda c: server_groups.by_uuid(c, uuid))

    def server_group_of(self, instance_uuid: str) -> ServerGroup | None:
        """Return the server group that an instance is a member of."""
        return self._database.reading(
            lambda c: server_groups.by_member(c, instance_uuid)
        )

    def __init__(
        self, engine: sa.Engine, defaults: cells.UrlDefaults | None = None
    ) -> None:
        super().__init__(engine, defaults)
        self._writes = Database(engine)

    def ask_for(self, wanted: Iterable[tuple[Instance, RequestSpec]]) -> None:
        """Write the build requests of instances: all of them, or none."""
        pairs = list(wanted)

        def write(connection: sa.Connection) -> None:
            for instance, request in pairs:
                _add(connection, instance, request)

        self._writes.retrying(write)

    def is_asked_for(self, uuid: str) -> bool:
        """Return True while the build request of an instance exists."""
        query = sa.select(_b.id).where(_b.instance_uuid == uuid)
        with self._writes.read() as connection:
            return connection.execute(query).first() is not None

    def delete_build(self, uuid: str) -> bool:
        """Delete a build request; return False if there is none."""
        gone = sa.delete(build_requests).where(_b.instance_uuid == uuid)
        return self._writes.retrying(lambda c: bool(c.execute(gone).rowcount))

    def forget(self, uuid: str) -> None:
        """Delete all that the API database has of an instance."""

        def write(connection: sa.Connection) -> None:
            for table in (build_requests, request_specs, instance_mappings):
                connection.execute(
                    sa.delete(table).where(table.c.instance_uuid == uuid)
                )

        self._writes.retrying(write)

    def map_to_cell(self, uuid: str, cell_uuid: str) -> bool:
        """Write which cell has an instance; return False if it has no mapping."""
        c = cell_mappings.c
        cell = sa.select(c.id).where(c.uuid == cell_uuid).scalar_subquery()
        change = (
            sa.update(instance_mappings)
            .where(_m.instance_uuid == uuid)
            .values(cell_id=cell, updated_at=now())
        )
        return self._writes.retrying(lambda c: bool(c.execute(change).rowcount))

    def unmap(self, uuid: str) -> None:
        """Delete the mapping of an instance that no cell has."""
        gone = sa.delete(instance_mappings).where(
            _m.instance_uuid == uuid, _m.cell_id.is_(None)
        )
        self._writes.retrying(lambda c: c.execute(gone))

    def cell_of(self, uuid: str) -> str | None:
        """Return the uuid of the cell that has an instance; None: none yet."""
        query = sa.select(cell_mappings.c.uuid).select_from(_MAPPED)
        with self._writes.read() as connection:
            found = connection.execute(query.where(_m.instance_uuid == uuid))
            uuid_found: str | None = found.scalar()
        return uuid_found

    def with_builds(
        self, uuids: Sequence[str] | None = None
    ) -> list[tuple[InstanceMapping, Instance | None]]:
        """Return mappings, each with the instance asked for while no cell has it.

        A conductor maps an instance to its cell, and then deletes its build request.
        One statement sees one of the two in any case; two might see neither. ``uuids``
        None: those of all instances.
        """
        joined = _MAPPED.outerjoin(build_requests, _b.instance_uuid == _m.instance_uuid)
        query = sa.select(*_MAPPING, _b.instance).select_from(joined).order_by(_m.id)
        queries = [query]
        if uuids is not None:
            parts = in_chunks(uuids)
            queries = [query.where(_m.instance_uuid.in_(part)) for part in parts]
        with self._writes.read() as connection:
            return [
                found
                for each in queries
                for found in _with_instances(connection.execute(each))
            ]

    def request_spec(self, uuid: str) -> RequestSpec | None:
        """Return the request that an instance was made by; None if it is not kept."""
        query = sa.select(_r.spec).where(_r.instance_uuid == uuid)
        with self._writes.read() as connection:
            text = connection.execute(query).scalar()
        found = None if text is None else parse(json.loads(text))
        return found if isinstance(found, RequestSpec) else None

    def flavor(self, name: str) -> Flavor | None:
        """Return the flavor of a name or an id of the API; None if there is none.

        A database without the tables of flavors has none.
        """
        f, e = flavors.c, flavor_extra_specs.c
        wanted = sa.or_(f.name == name, f.flavorid == name)
        # A name goes before an id that another flavor has.
        query = sa.select(flavors).where(wanted).order_by(f.name != name)
        with self._writes.read() as connection:
            if not sa.inspect(connection).has_table(flavors.name):
                return None
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            specs = sa.select(e.key, e.value).where(e.flavor_id == row['id'])
            extra = {key: value or '' for key, value in connection.execute(specs)}
        made = Flavor(
            root_gb=row['root_gb'] or 0,
            ephemeral_gb=row['ephemeral_gb'] or 0,
            extra_specs=extra,
            **{field: row[field] for field in FLAVOR_FIELDS},
        )
        made.obj_reset_changes()
        return made


def _with_instances(
    rows: Iterable[sa.Row[Any]],
) -> Iterator[tuple[InstanceMapping, Instance | None]]:
    for row in rows:
        mapped, text = InstanceMapping._make(row[:-1]), row[-1]
        wanted = None
        if mapped.cell_uuid is None and text is not None:
            wanted = parse(json.loads(text))
        yield mapped, wanted if isinstance(wanted, Instance) else None


def _add(connection: sa.Connection, instance: Instance, request: RequestSpec) -> None:
    asked = {
        'created_at': now(),
        'instance_uuid': instance.uuid,
        'project_id': instance.project_id or '',
    }
    connection.execute(
        sa.insert(build_requests).values(
            **asked, instance=json.dumps(instance.obj_to_primitive())
        )
    )
    connection.execute(
        sa.insert(instance_mappings).values(
            **asked, user_id=instance.user_id, queued_for_delete=False
        )
    )
    connection.execute(
        sa.insert(request_specs).values(
            created_at=asked['created_at'],
            instance_uuid=instance.uuid,
            spec=_spec_text(request),
        )
    )


def _spec_text(request: RequestSpec) -> str:
    """Return a request as it is kept: without what holds for one attempt only."""
    kept = request.obj_clone()
    for name in NOT_KEPT:
        kept.__dict__.pop(f'_obj_{name}', None)
    group = kept.instance_group if 'instance_group' in kept else None
    if group is not None:
        group.members, group.hosts = None, None
    kept.obj_reset_changes(recursive=True)
    return json.dumps(kept.obj_to_primitive())
