# SPDX-License-Identifier: Apache-2.0
"""Rows of services: those of the computes, and a scheduler's own."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from novasched.db import tables
from novasched.db.instances import chunks
from novasched.ports import ServiceNews, ServiceRow

COMPUTE = 'nova-compute'

_s = tables.services.c
_ANY = (
    sa.select(
        _s.id,
        _s.uuid,
        _s.host,
        _s.binary,
        _s.topic,
        _s.report_count,
        sa.func.coalesce(_s.disabled, sa.false(), type_=sa.Boolean),
        _s.disabled_reason,
        sa.func.coalesce(_s.forced_down, sa.false(), type_=sa.Boolean),
        _s.last_seen_up,
        sa.func.coalesce(_s.version, 0),
        _s.created_at,
        _s.updated_at,
    )
    .where(_s.host.is_not(None))
    .order_by(_s.id)
)
_READ = _ANY.where(_s.deleted == 0)
_heartbeat = sa.func.coalesce(_s.last_seen_up, _s.created_at)
_NEWS = _ANY.add_columns(_s.deleted).where(
    _s.binary == sa.bindparam('binary'),
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
            _s.deleted != 0,
            _s.deleted_at >= sa.bindparam('wide', type_=sa.DateTime),
        ),
    ),
)


def read(connection: sa.Connection, binary: str) -> list[ServiceRow]:
    """Return the live services of a program, disabled ones included, by id."""
    return list(
        map(ServiceRow._make, connection.execute(_READ.where(_s.binary == binary)))
    )


def read_of(
    connection: sa.Connection, binary: str, hosts: Sequence[str]
) -> list[ServiceRow]:
    """Return the live services of a program on the hosts."""
    return [
        ServiceRow._make(row)
        for chunk in chunks(hosts)
        for row in connection.execute(
            _READ.where(_s.binary == binary, _s.host.in_(chunk))
        )
    ]


def read_news(
    connection: sa.Connection,
    binary: str,
    since: datetime.datetime,
    wide: datetime.datetime,
    known_id: int,
    oldest: datetime.datetime,
    newest: datetime.datetime,
) -> ServiceNews:
    """Return what is not as usual, by one statement; see ports.CellStore.

    ``since`` and ``wide`` lose their fraction of a second: some databases keep whole
    ones only.
    """
    values = {
        'binary': binary,
        'since': since.replace(microsecond=0),
        'wide': wide.replace(microsecond=0),
        'known_id': known_id,
        'oldest': oldest,
        'newest': newest,
    }
    found = connection.execute(_NEWS, values).all()
    return ServiceNews(
        [ServiceRow._make(row[:-1]) for row in found if row[-1] == 0],
        [row[0] for row in found if row[-1] != 0],
    )


def read_seen_after(
    connection: sa.Connection, binary: str, moment: datetime.datetime
) -> list[ServiceRow]:
    """Return the live services of a program with a later ``last_seen_up``."""
    query = _READ.where(_s.binary == binary, _s.last_seen_up > moment)
    return list(map(ServiceRow._make, connection.execute(query)))


def find(connection: sa.Connection, host: str, binary: str) -> ServiceRow | None:
    """Return the live row of a program on a host."""
    query = _READ.where(_s.host == host, _s.binary == binary)
    row = connection.execute(query).first()
    return None if row is None else ServiceRow._make(row)


def minimum_version(connection: sa.Connection, binary: str) -> int:
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


def insertion(
    host: str,
    binary: str,
    topic: str,
    version: int,
    now: datetime.datetime,
    uuid: str,
) -> sa.Insert:
    """Return the statement that inserts the row of a new service."""
    return sa.insert(tables.services).values(
        host=host,
        binary=binary,
        topic=topic,
        report_count=0,
        disabled=False,
        forced_down=False,
        deleted=0,
        version=version,
        uuid=uuid,
        created_at=now,
    )


def set_version(
    connection: sa.Connection, service_id: int, version: int, now: datetime.datetime
) -> None:
    """Bring a row to a version."""
    connection.execute(
        sa.update(tables.services)
        .where(_s.id == service_id, _s.deleted == 0)
        .values(version=version, updated_at=now)
    )


def beat(
    connection: sa.Connection,
    service_id: int,
    report_count: int,
    now: datetime.datetime,
) -> bool:
    """Write a heartbeat; False if the row is gone.

    ``last_seen_up`` moves only if the count grows. MySQL assigns from left to
    right, so the comparison comes before the count is overwritten.
    """
    grows = sa.case((_s.report_count < report_count, now), else_=_s.last_seen_up)
    result = connection.execute(
        sa.update(tables.services)
        .where(_s.id == service_id, _s.deleted == 0)
        .ordered_values(
            (_s.last_seen_up, grows),
            (_s.report_count, report_count),
            (_s.updated_at, now),
        )
    )
    return result.rowcount > 0
