# SPDX-License-Identifier: Apache-2.0
"""Host aggregates of the API database."""

from __future__ import annotations

import collections

import sqlalchemy as sa

from novasched.db import tables
from novasched.ports import AggregatesMark
from novasched.scheduler.aggregates import Aggregate

_MARK = sa.union_all(
    *(
        sa.select(
            sa.literal(number),
            sa.func.count(),
            sa.func.max(table.c.id),
            sa.func.max(table.c.created_at),
            sa.func.max(table.c.updated_at),
        ).select_from(table)
        for number, table in enumerate(
            (tables.aggregates, tables.aggregate_hosts, tables.aggregate_metadata)
        )
    )
)


def read(connection: sa.Connection) -> list[Aggregate]:
    """Return all aggregates by id, with their hosts and their metadata."""
    hosts = _hosts(connection)
    metadata = _metadata(connection)
    c = tables.aggregates.c
    rows = connection.execute(sa.select(c.id, c.uuid, c.name).order_by(c.id))
    return [
        Aggregate(id_, uuid, name, frozenset(hosts[id_]), metadata[id_])
        for id_, uuid, name in rows
    ]


def mark(connection: sa.Connection) -> AggregatesMark:
    """Return the mark of the aggregates by one query.

    Nova deletes these rows for good, and sets one of the stamps whenever it writes.
    """
    found = connection.execute(_MARK).all()
    counts = tuple(sorted(map(tuple, found)))
    stamps = [stamp for row in found for stamp in row[3:] if stamp is not None]
    return AggregatesMark(counts, max(stamps, default=None))


def _hosts(connection: sa.Connection) -> dict[int, set[str]]:
    c = tables.aggregate_hosts.c
    hosts: dict[int, set[str]] = collections.defaultdict(set)
    query = sa.select(c.aggregate_id, c.host).where(c.host.is_not(None))
    for aggregate_id, host in connection.execute(query):
        hosts[aggregate_id].add(host)
    return hosts


def _metadata(connection: sa.Connection) -> dict[int, dict[str, str]]:
    c = tables.aggregate_metadata.c
    metadata: dict[int, dict[str, str]] = collections.defaultdict(dict)
    query = sa.select(c.aggregate_id, c.key, c.value).order_by(c.id)
    for aggregate_id, key, value in connection.execute(query):
        metadata[aggregate_id][key] = value
    return metadata
