# SPDX-License-Identifier: Apache-2.0
"""Rows of services: the computes' rows, and a scheduler's own."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from novasched.db import hosts, packed_lists, tables
from novasched.db.hosts import chunks
from novasched.ports import CellNews, NodeNews, ServiceNews, ServiceRow

COMPUTE = 'nova-compute'

_s = tables.services.c
_WHERE_NULL = {'disabled': sa.false(), 'forced_down': sa.false(), 'version': 0}
_COLUMNS = [
    sa.func.coalesce(_s[name], _WHERE_NULL[name], type_=_s[name].type)
    if name in _WHERE_NULL
    else _s[name]
    for name in ServiceRow._fields
]
_ANY = sa.select(*_COLUMNS).where(_s.host.is_not(None)).order_by(_s.id)
_READ = _ANY.where(_s.deleted == 0)
_heartbeat = sa.func.coalesce(_s.last_seen_up, _s.created_at)
_HAS_NEWS = sa.and_(
    _s.binary == COMPUTE,
    _s.host.is_not(None),
    sa.or_(
        sa.and_(
            _s.deleted == 0,
            sa.or_(
                _s.disabled == sa.true(),
                _s.forced_down == sa.true(),
                _heartbeat.is_(None),
                _heartbeat < sa.bindparam('oldest', type_=sa.DateTime),
                _heartbeat > sa.bindparam('newest', type_=sa.DateTime),
                _s.created_at >= sa.bindparam('since', type_=sa.DateTime),
                sa.and_(
                    _s.id > sa.bindparam('known_id', type_=sa.Integer),
                    _s.created_at >= sa.bindparam('wide', type_=sa.DateTime),
                ),
            ),
        ),
        sa.and_(
            _s.deleted != 0, _s.deleted_at >= sa.bindparam('wide', type_=sa.DateTime)
        ),
    ),
)
_NARROW = sa.select(_s.id, _s.deleted).where(_HAS_NEWS)
_SERVICES = sa.select(
    *packed_lists.packed_columns('services', _s.id, _s.deleted, sa.true())
).where(_HAS_NEWS)
_nodes, _services = hosts.NEWS.subquery('nodes'), _SERVICES.subquery('services')
NEWS = sa.select(_nodes, _services).select_from(_nodes.join(_services, sa.true()))
# MySQL cuts a list to 1024 characters by default. It heeds this, others skip it.
NEWS = NEWS.prefix_with(
    '/*+ SET_VAR(group_concat_max_len = 1048576) */', dialect='mysql'
)
_CHECKSUMS_NOW = (
    sa.select(hosts.NODE.id, hosts.CHECKSUM, *_COLUMNS)
    .select_from(tables.compute_nodes)
    .outerjoin(
        tables.services,
        sa.and_(_s.host == hosts.NODE.host, _s.binary == COMPUTE, _s.deleted == 0),
    )
    .where(
        hosts.NODE.deleted == 0,
        hosts.NODE.id.in_(sa.bindparam('ids', expanding=True)),
    )
)


def read(connection: sa.Connection, binary: str = COMPUTE) -> list[ServiceRow]:
    """Return the live services of a program, disabled ones included, by id."""
    return _rows(connection, _READ.where(_s.binary == binary))


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> list[ServiceRow]:
    return list(map(ServiceRow._make, connection.execute(query)))


def read_of(connection: sa.Connection, hosts: Sequence[str]) -> list[ServiceRow]:
    """Return the live computes on the hosts."""
    computes = _READ.where(_s.binary == COMPUTE)
    return [
        row
        for chunk in chunks(hosts)
        for row in _rows(connection, computes.where(_s.host.in_(chunk)))
    ]


def read_news(
    connection: sa.Connection,
    since: datetime.datetime,
    wide: datetime.datetime,
    known_id: int,
    oldest: datetime.datetime,
    newest: datetime.datetime,
) -> CellNews:
    """Return the news of compute nodes and services; see ports.CellStore.

    ``since`` and ``wide`` are UTC without a zone; they lose their fraction of a second:
    some databases keep whole ones only.
    """
    values = {
        'since': since.replace(microsecond=0),
        'wide': wide.replace(microsecond=0),
        'known_id': known_id,
        'oldest': oldest,
        'newest': newest,
    }
    live, total, *lists = connection.execute(NEWS, values).one()
    checksums = packed_lists.unpack(*lists[:2])
    deleted = packed_lists.unpack(*lists[2:])
    if deleted is None:
        deleted = {row[0]: row[1] for row in connection.execute(_NARROW, values)}
    wanted = [id_ for id_, deletion in deleted.items() if deletion == 0]
    rows = [
        row
        for chunk in chunks(wanted)
        for row in _rows(connection, _READ.where(_s.id.in_(chunk)))
    ]
    there = {row.id for row in rows}
    gone = [id_ for id_ in deleted if id_ not in there]
    return CellNews(NodeNews(live, int(total), checksums), ServiceNews(rows, gone))


def read_seen_after(
    connection: sa.Connection, moment: datetime.datetime
) -> list[ServiceRow]:
    """Return the live computes with a later ``last_seen_up``."""
    return _rows(
        connection, _READ.where(_s.binary == COMPUTE, _s.last_seen_up > moment)
    )


def read_checksums_now(
    connection: sa.Connection, ids: Sequence[int]
) -> dict[int, tuple[int, ServiceRow | None]]:
    """Return the checksums of live nodes, and the services of their hosts; see
    ports.CellStore."""
    found = connection.execute(_CHECKSUMS_NOW, {'ids': list(ids)})
    return {
        id_: (checksum, None if service[0] is None else ServiceRow._make(service))
        for id_, checksum, *service in found
    }


def find(connection: sa.Connection, host: str, binary: str) -> ServiceRow | None:
    """Return the live row of a program on a host."""
    rows = _rows(connection, _READ.where(_s.host == host, _s.binary == binary))
    return rows[0] if rows else None


def minimum_version(connection: sa.Connection, binary: str = COMPUTE) -> int:
    """Return the lowest version of the live, not forced-down services; 0: none.

    Rows without a version, or with version 0, do not count.
    """
    query = sa.select(sa.func.min(_s.version)).where(
        _s.binary == binary,
        _s.deleted == 0,
        _s.forced_down == sa.false(),
        _s.version > 0,
    )
    return connection.execute(query).scalar() or 0
