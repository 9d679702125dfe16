# SPDX-License-Identifier: Apache-2.0
"""Compute nodes of a cell: everything, or what changed since a moment."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from novasched.cluster.rows import shared
from novasched.db import tables
from novasched.ports import ComputeNodeRow

PAGE = 1000
"""Rows of one answer: the texts of a hundred thousand at once would be a gigabyte."""

ALIKE = frozenset(
    {
        'hypervisor_type',
        'stats',
        'metrics',
        'pci_stats',
        'numa_topology',
        'cpu_info',
        'supported_instances',
    }
)
"""The texts that many nodes have alike: they share them."""

_c = tables.compute_nodes.c
_READ = sa.select(*(_c[name] for name in ComputeNodeRow._fields)).order_by(_c.id)
_PAGE = _READ.where(_c.deleted == 0, _c.id > sa.bindparam('after')).limit(
    sa.bindparam('page', type_=sa.Integer)
)
# MariaDB fetches long texts before it looks at the stamps: so it gets to choose first.
_CHANGED = (
    sa.select(_c.id)
    .where(
        sa.or_(
            _c.updated_at >= sa.bindparam('since', type_=sa.DateTime),
            _c.created_at >= sa.bindparam('since', type_=sa.DateTime),
            _c.deleted_at >= sa.bindparam('since', type_=sa.DateTime),
        )
    )
    .subquery('changed')
)
_SINCE = _READ.join_from(_CHANGED, tables.compute_nodes, _CHANGED.c.id == _c.id)


def read(connection: sa.Connection, page_size: int = PAGE) -> list[ComputeNodeRow]:
    """Return all live compute nodes, by id."""
    rows: list[ComputeNodeRow] = []
    while True:
        after = rows[-1].id if rows else 0
        page = _rows(connection.execute(_PAGE, {'after': after, 'page': page_size}))
        rows += _named(connection, page)
        if len(page) < page_size:
            return rows


def read_since(
    connection: sa.Connection, since: datetime.datetime
) -> list[ComputeNodeRow]:
    """Return the rows created, updated or deleted at or after ``since``, by id.

    ``since`` is UTC without a zone; its fraction of a second is dropped,
    because some databases keep whole seconds only.
    """
    moment = since.replace(microsecond=0)
    return _named(connection, _rows(connection.execute(_SINCE, {'since': moment})))


def _rows(result: sa.CursorResult[tuple[object, ...]]) -> list[ComputeNodeRow]:
    return list(map(_row, result))


_ALIKE = [place for place, name in enumerate(ComputeNodeRow._fields) if name in ALIKE]


def _row(found: Sequence[Any]) -> ComputeNodeRow:
    values = list(found)
    for place in _ALIKE:
        if isinstance(text := values[place], str):
            values[place] = shared(text)
    return ComputeNodeRow._make(values)


def _named(
    connection: sa.Connection, rows: list[ComputeNodeRow]
) -> list[ComputeNodeRow]:
    """Give the nodes without a host that of the service that they belong to."""
    wanted = {row.service_id for row in rows if row.host is None}
    if not wanted:
        return rows
    s = tables.services.c
    query = sa.select(s.id, s.host).where(s.id.in_(sorted(wanted - {None})))
    hosts = {row.id: row.host for row in connection.execute(query)}
    return [
        row._replace(host=hosts.get(row.service_id)) if row.host is None else row
        for row in rows
    ]


def unmapped(connection: sa.Connection) -> list[tuple[int, str, str]]:
    """Return id, host and uuid of the live nodes with mapped = 0, by id.

    As in nova, a null ``mapped`` is not found.
    """
    query = (
        sa.select(_c.id, _c.host, _c.uuid)
        .where(_c.deleted == 0, _c.mapped < 1, _c.host.is_not(None))
        .order_by(_c.id)
    )
    return [(id_, host, uuid) for id_, host, uuid in connection.execute(query)]


def set_mapped(connection: sa.Connection, node_id: int, now: datetime.datetime) -> None:
    """Note that the host of a node has its host mapping."""
    table = tables.compute_nodes
    connection.execute(
        sa.update(table).where(_c.id == node_id).values(mapped=1, updated_at=now)
    )
