# SPDX-License-Identifier: Apache-2.0
"""Server groups of the API database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db import tables


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
    return _first(connection, tables.instance_groups.c.uuid == uuid)


def by_member(connection: sa.Connection, instance_uuid: str) -> ServerGroup | None:
    """Return the group that an instance is a member of; None if of none."""
    m = tables.instance_group_member.c
    groups = sa.select(m.group_id).where(m.instance_uuid == instance_uuid)
    return _first(connection, tables.instance_groups.c.id.in_(groups))


def _first(
    connection: sa.Connection, condition: sa.ColumnElement[bool]
) -> ServerGroup | None:
    g, p = tables.instance_groups.c, tables.instance_group_policy.c
    joined = tables.instance_groups.outerjoin(
        tables.instance_group_policy, p.group_id == g.id
    )
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
    m = tables.instance_group_member.c
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
