# SPDX-License-Identifier: Apache-2.0
"""The API database: instances that are asked for, and their groups.

Server groups are written as nova's API writes them.
"""

from __future__ import annotations

import json
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from novasched.db import cells
from novasched.db.hosts import chunks
from novasched.db.server_groups import ServerGroup, by_name
from novasched.db.servers import SqlServers
from novasched.db.tables import cell_mappings
from novasched.db.transactions import Database
from novasched.objects.base import parse
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched_lab.db.cell_servers import now
from novasched_lab.db.server_tables import (
    build_requests,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instance_mappings,
    request_specs,
)

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


class InstanceMapping(NamedTuple):
    """Where an instance is; ``cell_uuid`` is None until it is known."""

    instance_uuid: str
    cell_uuid: str | None
    project_id: str


_c, _m, _b = cell_mappings.c, instance_mappings.c, build_requests.c
_g, _x = instance_groups.c, instance_group_member.c
_MAPPING = (_m.instance_uuid, _c.uuid, _m.project_id)
_MAPPED = instance_mappings.outerjoin(cell_mappings, _m.cell_id == _c.id)


class ApiServers(SqlServers):
    """The API database; each call is one transaction, and raises errors.StoreFailed."""

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
        """Return whether the build request of an instance exists."""
        query = sa.select(_b.id).where(_b.instance_uuid == uuid)
        with self._writes.read() as connection:
            return connection.execute(query).scalar() is not None

    def delete_build(self, uuid: str) -> bool:
        """Delete a build request; return False if there is none."""
        gone = sa.delete(build_requests).where(_b.instance_uuid == uuid)
        return self._writes.retrying(lambda c: bool(c.execute(gone).rowcount))

    def forget(self, uuid: str) -> None:
        """Delete all that the API database has of an instance."""

        def write(connection: sa.Connection) -> None:
            for table in (build_requests, request_specs, instance_mappings):
                gone = sa.delete(table).where(table.c.instance_uuid == uuid)
                connection.execute(gone)

        self._writes.retrying(write)

    def map_to_cell(self, uuid: str, cell_uuid: str) -> bool:
        """Write which cell has an instance; return False if it has no mapping."""
        cell = sa.select(_c.id).where(_c.uuid == cell_uuid).scalar_subquery()
        change = sa.update(instance_mappings).where(_m.instance_uuid == uuid)
        change = change.values(cell_id=cell, updated_at=now())
        return self._writes.retrying(lambda c: bool(c.execute(change).rowcount))

    def unmap(self, uuid: str) -> None:
        """Delete the mapping of an instance that no cell has."""
        gone = sa.delete(instance_mappings).where(
            _m.instance_uuid == uuid, _m.cell_id.is_(None)
        )
        self._writes.retrying(lambda c: c.execute(gone))

    def with_builds(
        self, uuids: Sequence[str] | None = None
    ) -> list[tuple[InstanceMapping, Instance | None]]:
        """Return mappings, each with the instance asked for while no cell has it.

        A conductor maps an instance to its cell, and then deletes its build request.
        One statement sees one of the two in any case; two might see neither. ``uuids``
        None means all instances.
        """
        joined = _MAPPED.outerjoin(build_requests, _b.instance_uuid == _m.instance_uuid)
        query = sa.select(*_MAPPING, _b.instance).select_from(joined).order_by(_m.id)
        queries = [query]
        if uuids is not None:
            parts = chunks(uuids)
            queries = [query.where(_m.instance_uuid.in_(part)) for part in parts]
        with self._writes.read() as connection:
            return [
                found
                for each in queries
                for found in _with_instances(connection.execute(each))
            ]


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
    asked = {'created_at': now(), 'instance_uuid': instance.uuid}
    project = {'project_id': instance.project_id or ''}
    owner = {**project, 'user_id': instance.user_id, 'queued_for_delete': False}
    text = json.dumps(instance.obj_to_primitive())
    for table, values in (
        (build_requests, {**project, 'instance': text}),
        (instance_mappings, owner),
        (request_specs, {'spec': _spec_text(request)}),
    ):
        connection.execute(sa.insert(table).values(**asked, **values))


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


class ServerGroups:
    """The groups of the API database; each call raises errors.StoreFailed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._database = Database(engine)

    def find(self, name: str, project_id: str | None) -> ServerGroup | None:
        """Return the group of this uuid, or of this name in a project."""
        with self._database.read() as connection:
            return by_name(connection, name, project_id)

    def create(
        self,
        name: str,
        policy: str,
        rules: Mapping[str, str],
        project_id: str | None,
        user_id: str | None,
    ) -> ServerGroup:
        """Make a group without members."""
        uuid, at = str(uuids.uuid4()), now()
        group = sa.insert(instance_groups).values(
            created_at=at, uuid=uuid, name=name, project_id=project_id, user_id=user_id
        )
        its_policy = sa.insert(instance_group_policy).values(
            created_at=at,
            group_id=_id_of(uuid),
            policy=policy,
            rules=json.dumps(dict(rules)),
        )

        def write(connection: sa.Connection) -> None:
            connection.execute(group)
            connection.execute(its_policy)

        self._database.retrying(write)
        return ServerGroup(uuid, name, project_id, user_id, policy, dict(rules), ())

    def join(self, group: ServerGroup, uuids: Sequence[str]) -> ServerGroup:
        """Make instances members of a group; return it with them."""
        joined = {'created_at': now(), 'group_id': _id_of(group.uuid)}
        members = [{**joined, 'instance_uuid': uuid} for uuid in uuids]
        new = sa.insert(instance_group_member).values(members)
        self._database.retrying(lambda connection: connection.execute(new))
        return group._replace(members=(*group.members, *uuids))

    def leave(self, uuids: Sequence[str]) -> None:
        """Take instances out of whatever group they are in."""
        gone = sa.delete(instance_group_member).where(_x.instance_uuid.in_(uuids))
        self._database.retrying(lambda connection: connection.execute(gone))


def _id_of(uuid: str) -> sa.ScalarSelect[int]:
    return sa.select(_g.id).where(_g.uuid == uuid).scalar_subquery()
