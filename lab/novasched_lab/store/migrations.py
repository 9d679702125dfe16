# SPDX-License-Identifier: Apache-2.0
"""Moves of instances from one host to another."""

from __future__ import annotations

import datetime
import uuid as uuids
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from novasched_lab.db.server_tables import migrations

UNDER_WAY = ('pre-migrating', 'migrating', 'post-migrating', 'finished')


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
        uuid = str(uuids.uuid4())
        return cls(uuid, instance_uuid, 'pre-migrating', kind, host, node)


def create(
    connection: sa.Connection, migration: Migration, now: datetime.datetime
) -> None:
    """Write a new move."""
    connection.execute(
        sa.insert(migrations).values(
            created_at=now,
            deleted=0,
            hidden=False,
            cross_cell_move=False,
            **migration._asdict(),
        )
    )


def update(
    connection: sa.Connection,
    uuid: str,
    expected: Sequence[str],
    values: dict[str, Any],
    now: datetime.datetime,
) -> bool:
    """Change a move whose status is one of these, or any; False if it is not so."""
    m = migrations.c
    change = sa.update(migrations).where(m.uuid == uuid, m.deleted == 0)
    if expected:
        change = change.where(m.status.in_(expected))
    found = connection.execute(change.values(updated_at=now, **values))
    return bool(found.rowcount)


def read(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[Migration]:
    """Return the moves that meet all conditions, the oldest first."""
    m = migrations.c
    columns = [m[name] for name in Migration._fields]
    query = sa.select(*columns).where(m.deleted == 0, *conditions).order_by(m.id)
    return [Migration._make(row) for row in connection.execute(query)]
