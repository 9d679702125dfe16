# SPDX-License-Identifier: Apache-2.0
"""Server groups, as nova's API keeps them. Everything here only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db.server_tables import (
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instance_mappings,
)
from novasched.objects.instance_group import InstanceGroup
from novasched.parsing import parse_json

_g, _p, _x = instance_groups.c, instance_group_policy.c, instance_group_member.c
_m = instance_mappings.c


class ServerGroup(NamedTuple):
    """A server group; ``members`` are instance uuids, in order of joining."""

    uuid: str
    name: str | None
    project_id: str | None
    user_id: str | None
    policy: str | None
    rules: Mapping[str, str]
    members: tuple[str, ...]

    def as_object(self) -> InstanceGroup:
        """Return it as requests carry it; the hosts of its members are not set."""
        fields = self._asdict()
        fields |= {'_rules': dict(fields.pop('rules')), 'members': list(self.members)}
        made = InstanceGroup(**fields)
        made.obj_reset_changes()
        return made


def members_of(connection: sa.Connection, group_uuid: str) -> list[str]:
    """Return the members of a group that are not deleted, the newest first.

    Deleted members stay until they are archived, and may have left allocations behind.
    """
    members = (
        sa.select(_x.instance_uuid)
        .join_from(instance_group_member, instance_groups, _x.group_id == _g.id)
        .outerjoin(instance_mappings, _m.instance_uuid == _x.instance_uuid)
        .where(_g.uuid == group_uuid, _x.instance_uuid.is_not(None))
        .where(sa.or_(_m.queued_for_delete.is_(None), ~_m.queued_for_delete))
        .order_by(_x.id.desc())
    )
    return list(connection.execute(members).scalars())


def by_name(
    connection: sa.Connection, name: str, project_id: str | None
) -> ServerGroup | None:
    """Return the group of this uuid, or of this name in a project."""
    named = sa.and_(_g.name == name, _g.project_id == project_id)
    return _group(connection, _g.uuid == name) or _group(connection, named)


def by_member(connection: sa.Connection, instance_uuid: str) -> ServerGroup | None:
    groups = sa.select(_x.group_id).where(_x.instance_uuid == instance_uuid)
    return _group(connection, _g.id.in_(groups))


def _group(
    connection: sa.Connection, condition: sa.ColumnElement[bool]
) -> ServerGroup | None:
    joined = instance_groups.outerjoin(instance_group_policy, _p.group_id == _g.id)
    columns = (_g.id, _g.uuid, _g.name, _g.project_id, _g.user_id, _p.policy, _p.rules)
    query = sa.select(*columns).select_from(joined).where(condition)
    row = connection.execute(query.order_by(_g.id, _p.id)).first()
    if row is None:
        return None
    members = sa.select(_x.instance_uuid).where(
        _x.group_id == row.id, _x.instance_uuid.is_not(None)
    )
    found = tuple(connection.execute(members.order_by(_x.id)).scalars())
    return ServerGroup(*row[1:-1], rules_from_text(row.rules), found)


def rules_from_text(text: str | None) -> dict[str, str]:
    """Return the rules of a policy; null or unreadable text means none."""
    try:
        rules = parse_json(text or '{}')
    except ValueError:
        return {}
    if not isinstance(rules, dict):
        return {}
    return {str(key): str(value) for key, value in rules.items()}
