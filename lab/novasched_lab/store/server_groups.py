# SPDX-License-Identifier: Apache-2.0
"""Server groups of the API database, written as nova's API writes them."""

from __future__ import annotations

import json
import uuid as uuids
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db.transactions import Database
from novasched.objects.instance_group import InstanceGroup
from novasched_lab.db.server_tables import (
    instance_group_member,
    instance_group_policy,
    instance_groups,
)
from novasched_lab.store.cell_servers import now


class ServerGroup(NamedTuple):
    """A server group; ``members`` are instance uuids, in order of joining."""

    uuid: str
    name: str | None
    project_id: str | None
    user_id: str | None
    policy: str | None
    rules: Mapping[str, str]
    members: tuple[str, ...]


def by_uuid(connection: sa.Connection, uuid: str) -> ServerGroup | None:
    """Return a group by its uuid; None if there is none."""
    return _first(connection, instance_groups.c.uuid == uuid)


def by_member(connection: sa.Connection, instance_uuid: str) -> ServerGroup | None:
    """Return the group that an instance is a member of; None if of none."""
    m = instance_group_member.c
    groups = sa.select(m.group_id).where(m.instance_uuid == instance_uuid)
    return _first(connection, instance_groups.c.id.in_(groups))


def _first(
    connection: sa.Connection, condition: sa.ColumnElement[bool]
) -> ServerGroup | None:
    g, p = instance_groups.c, instance_group_policy.c
    joined = instance_groups.outerjoin(instance_group_policy, p.group_id == g.id)
    columns = (g.id, g.uuid, g.name, g.project_id, g.user_id, p.policy, p.rules)
    query = (
        sa.select(*columns).select_from(joined).where(condition).order_by(g.id, p.id)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    id_, uuid, name, project_id, user_id, policy, rules = row
    members = _members(connection, id_)
    return ServerGroup(
        uuid, name, project_id, user_id, policy, rules_from_text(rules), members
    )


def _members(connection: sa.Connection, group_id: int) -> tuple[str, ...]:
    m = instance_group_member.c
    query = (
        sa.select(m.instance_uuid)
        .where(m.group_id == group_id, m.instance_uuid.is_not(None))
        .order_by(m.id)
    )
    return tuple(connection.execute(query).scalars())


def rules_from_text(text: str | None) -> dict[str, str]:
    """Return the rules of a policy; null or unreadable text means none."""
    try:
        rules = json.loads(text or '{}')
    except ValueError:
        return {}
    if not isinstance(rules, dict):
        return {}
    return {str(key): str(value) for key, value in rules.items()}


class ServerGroups:
    """The groups of the API database; each call raises errors.StoreFailed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._database = Database(engine)

    def find(self, name: str, project_id: str | None) -> ServerGroup | None:
        """Return the group of this uuid, or of this name in a project."""
        g = instance_groups.c
        query = sa.select(g.uuid).where(g.name == name, g.project_id == project_id)
        with self._database.read() as connection:
            found = by_uuid(connection, name)
            if found is None:
                uuid = connection.execute(query.order_by(g.id)).scalar()
                found = uuid and by_uuid(connection, uuid)
        return found or None

    def create(
        self,
        name: str,
        policy: str,
        rules: Mapping[str, str],
        project_id: str | None,
        user_id: str | None,
    ) -> ServerGroup:
        """Make a group without members."""
        made = ServerGroup(
            str(uuids.uuid4()), name, project_id, user_id, policy, dict(rules), ()
        )
        at = now()

        def write(connection: sa.Connection) -> None:
            row = connection.execute(
                sa.insert(instance_groups).values(
                    created_at=at,
                    uuid=made.uuid,
                    name=name,
                    project_id=project_id,
                    user_id=user_id,
                )
            )
            key = row.inserted_primary_key
            assert key is not None
            connection.execute(
                sa.insert(instance_group_policy).values(
                    created_at=at,
                    group_id=key[0],
                    policy=policy,
                    rules=json.dumps(made.rules),
                )
            )

        self._database.retrying(write)
        return made

    def join(self, group: ServerGroup, uuids: Sequence[str]) -> ServerGroup:
        """Make instances members of a group; return it with them."""
        g, at = instance_groups.c, now()
        id_ = sa.select(g.id).where(g.uuid == group.uuid).scalar_subquery()

        def write(connection: sa.Connection) -> None:
            for uuid in uuids:
                connection.execute(
                    sa.insert(instance_group_member).values(
                        created_at=at, instance_uuid=uuid, group_id=id_
                    )
                )

        self._database.retrying(write)
        return group._replace(members=(*group.members, *uuids))

    def leave(self, uuids: Sequence[str]) -> None:
        """Take instances out of whatever group they are in."""
        m = instance_group_member.c
        gone = sa.delete(instance_group_member).where(m.instance_uuid.in_(uuids))
        self._database.retrying(lambda connection: connection.execute(gone))


def group_object(group: ServerGroup) -> InstanceGroup:
    """Return a group as requests carry it; the hosts of its members are not set."""
    made = InstanceGroup(
        uuid=group.uuid,
        name=group.name,
        project_id=group.project_id,
        user_id=group.user_id,
        policy=group.policy,
        members=list(group.members),
        _rules=dict(group.rules),
    )
    made.obj_reset_changes()
    return made
