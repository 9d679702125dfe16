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
    hosts: dict[int, set[str]] = collections.defaultdict(set)
    h = tables.aggregate_hosts.c
    query = sa.select(h.aggregate_id, h.host).where(h.host.is_not(None))
    for aggregate_id, host in connection.execute(query):
        hosts[aggregate_id].add(host)
    metadata: dict[int, dict[str, str]] = collections.defaultdict(dict)
    m = tables.aggregate_metadata.c
    texts = sa.select(m.aggregate_id, m.key, m.value).order_by(m.id)
    for aggregate_id, key, value in connection.execute(texts):
        metadata[aggregate_id][key] = value
    a = tables.aggregates.c
    rows = connection.execute(sa.select(a.id, a.uuid, a.name).order_by(a.id))
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
