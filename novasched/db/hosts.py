# SPDX-License-Identifier: Apache-2.0
"""Compute nodes of a cell, and the instances on them.

Nodes are read whole, or what changed since a moment.
"""

from __future__ import annotations

import datetime
import functools
import operator
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from novasched.db import packed_lists, tables
from novasched.ports import ComputeNodeRow, ImageRow, InstanceRow, shared

Value = TypeVar('Value')

PAGE = 1000
"""Rows of one answer: the texts of a hundred thousand at once would be a gigabyte."""

_ALIKE = (
    'hypervisor_type stats metrics pci_stats numa_topology cpu_info supported_instances'
)
ALIKE = [ComputeNodeRow._fields.index(name) for name in _ALIKE.split()]
"""The places of texts that many nodes have alike: they share them."""

_c = NODE = tables.compute_nodes.c


class _Seconds(FunctionElement[int]):
    """The whole seconds of a time stamp, counted from whenever the server likes."""

    inherit_cache = True
    type = sa.BigInteger()


_SECONDS_SQL = {
    'postgresql': 'CAST(floor(EXTRACT(epoch FROM {})) AS BIGINT)',
    'sqlite': "CAST(strftime('%s', {}) AS INTEGER)",
}


@compiles(_Seconds)
def _compile_seconds(element: _Seconds, compiler: SQLCompiler, **options: Any) -> str:
    stamp = compiler.process(element.clauses, **options)
    return _SECONDS_SQL.get(compiler.dialect.name, 'to_seconds({})').format(stamp)


class _Checksum(FunctionElement[int]):
    """A number made of all columns of a row."""

    inherit_cache = True
    type = sa.BigInteger()


@compiles(_Checksum)
def _compile_checksum(element: _Checksum, compiler: SQLCompiler, **options: Any) -> str:
    dialect = compiler.dialect.name
    # As bytes: columns of MariaDB may differ in how they are encoded and compared.
    text = {'postgresql': 'CAST({} AS text)', 'sqlite': '{}'}.get(
        dialect, 'CAST({} AS binary)'
    )
    columns = [compiler.process(each, **options) for each in element.clauses]
    values = [f"coalesce({text.format(each)}, '~')" for each in columns]
    if dialect == 'sqlite':
        return 'crc32({})'.format(" || '|' || ".join(values))
    joined = f"concat_ws('|', {', '.join(values)})"
    if dialect == 'postgresql':
        return f"CAST(CAST('x' || left(md5({joined}), 8) AS bit(32)) AS bigint)"
    return f'crc32({joined})'


@sa.event.listens_for(sa.Engine, 'connect')
def _add_checksum(connection: Any, _record: object) -> None:
    """Give SQLite the function that the others have."""
    if isinstance(connection, sqlite3.Connection):
        connection.create_function(
            'crc32', 1, lambda text: zlib.crc32(text.encode()), deterministic=True
        )


_ZERO, _ONE = (sa.literal_column(text, sa.Integer) for text in '01')
_WEIGHT = _ONE + _c.id % sa.literal_column('1021', sa.Integer)
"""Weighs stamps by ids: two that change seldom make up for each other in the sum."""

_BOUND = sa.literal_column('1000003', sa.Integer)
# Two changes within a second have one stamp: so the amounts used count, too.
_AMOUNTS = (
    (sa.func.coalesce(_c[name], _ZERO) % _BOUND) * sa.literal_column(factor, sa.Integer)
    for name, factor in (
        ('vcpus_used', '7'),
        ('memory_mb_used', '11'),
        ('local_gb_used', '13'),
        ('running_vms', '17'),
        ('current_workload', '19'),
    )
)
_SECONDS = sa.func.coalesce(
    _Seconds(sa.func.coalesce(_c.updated_at, _c.created_at)),
    _ZERO,
    type_=sa.BigInteger,
)
# Apart in the mark: what an amount lost does not make up for seconds that have passed.
_FEW, _MANY = (sa.literal_column(text, sa.BigInteger) for text in ('65537', '1000003'))
_OF_AMOUNTS = functools.reduce(operator.add, _AMOUNTS) % _FEW
MARK = (_SECONDS % _MANY * _FEW + _OF_AMOUNTS) * _WEIGHT
_LIVE = _c.deleted == _ZERO
_columns = [_c[name] for name in ComputeNodeRow._fields if name in _c]
CHECKSUM = _Checksum(*_columns)
_READ = sa.select(*_columns, MARK.label('mark'), CHECKSUM.label('checksum')).order_by(
    _c.id
)
_PAGE = _READ.where(_LIVE, _c.id > sa.bindparam('after')).limit(
    sa.bindparam('page', type_=sa.Integer)
)
_OF = _READ.where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_MARKS = sa.select(_c.id, MARK).where(_LIVE)
_WRITTEN = sa.or_(
    _c.updated_at >= sa.bindparam('since', type_=sa.DateTime),
    _c.created_at >= sa.bindparam('since', type_=sa.DateTime),
)
_CHECKSUMS = sa.select(_c.id, CHECKSUM).where(_LIVE, _WRITTEN)
_DELETED = _c.deleted_at >= sa.bindparam('since', type_=sa.DateTime)
_IS_NEW = sa.or_(_WRITTEN, _DELETED)
# All by one scan, which any question by time stamps needs: they have no index.
NEWS = sa.select(
    sa.func.count(sa.case((_LIVE, _ONE))).label('live'),
    sa.func.coalesce(sa.func.sum(sa.case((_LIVE, MARK))), _ZERO).label('total'),
    *packed_lists.packed_columns(
        'checksums', _c.id, sa.case((_LIVE, CHECKSUM), else_=_ZERO), _IS_NEW
    ),
).where(sa.or_(_LIVE, _DELETED))


def read(connection: sa.Connection, page_size: int = PAGE) -> list[ComputeNodeRow]:
    """Return all live compute nodes, by id."""
    rows: list[ComputeNodeRow] = []
    while True:
        after = rows[-1].id if rows else 0
        page = _rows(connection, _PAGE, {'after': after, 'page': page_size})
        rows += page
        if len(page) < page_size:
            return rows


def read_checksums(
    connection: sa.Connection, since: datetime.datetime
) -> dict[int, int]:
    """Return the checksums of live rows written since a moment, by id."""
    values = {'since': since.replace(microsecond=0)}
    return {row[0]: row[1] for row in connection.execute(_CHECKSUMS, values)}


def read_marks(connection: sa.Connection) -> dict[int, int]:
    """Return the marks of all live rows, by id."""
    return {row[0]: row[1] for row in connection.execute(_MARKS)}


def read_of(connection: sa.Connection, ids: Sequence[int]) -> list[ComputeNodeRow]:
    """Return the rows with these ids, deleted ones too, by id."""
    rows: list[ComputeNodeRow] = []
    for first in range(0, len(ids), PAGE):
        rows += _rows(connection, _OF, {'ids': ids[first : first + PAGE]})
    return rows


def _row(found: Sequence[Any]) -> ComputeNodeRow:
    values = list(found)
    for place in ALIKE:
        if isinstance(text := values[place], str):
            values[place] = shared(text)
    return ComputeNodeRow._make(values)


def _rows(
    connection: sa.Connection, query: sa.Select[Any], values: dict[str, Any]
) -> list[ComputeNodeRow]:
    """Return rows; nodes without a host get the host of their service."""
    rows = list(map(_row, connection.execute(query, values)))
    wanted = {row.service_id for row in rows if row.host is None}
    if not wanted:
        return rows
    s = tables.services.c
    named = sa.select(s.id, s.host).where(s.id.in_(sorted(wanted - {None})))
    hosts = {row.id: row.host for row in connection.execute(named)}
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


CHUNK = 10000  # names in one IN list; SQLite takes 32766 parameters at most

_i = tables.instances.c
_m = tables.instance_system_metadata.c
IMAGE_PREFIX = 'image_'
_IMAGES = (
    sa.select(_i.uuid, _i.host, _m.key, _m.value)
    .join_from(tables.instances, tables.instance_system_metadata)
    .where(_i.deleted == 0, _m.key.startswith(IMAGE_PREFIX, autoescape=True))
    .order_by(_m.id)
)
_INSTANCES = sa.select(_i.uuid, _i.host, _i.instance_type_id).where(
    _i.deleted == 0, _i.host.is_not(None)
)

_SHELVED = sa.and_(
    _m.instance_uuid == _i.uuid, _m.key == 'shelved_host', _m.deleted == 0
)
_SOURCE = (
    sa.select(_i.host, _m.value)
    .outerjoin_from(tables.instances, tables.instance_system_metadata, _SHELVED)
    .where(_i.uuid == sa.bindparam('uuid'), _i.deleted == 0)
)


def instances_on(connection: sa.Connection, hosts: Sequence[str]) -> list[InstanceRow]:
    """Return the instances with deleted = 0 on any of the hosts.

    Soft-deleted and hidden instances are among them, as in nova.
    """
    return [
        InstanceRow._make(row)
        for chunk in chunks(hosts)
        for row in connection.execute(_INSTANCES.where(_i.host.in_(chunk)))
    ]


def images_on(connection: sa.Connection, hosts: Sequence[str]) -> list[ImageRow]:
    """Return the image properties of the instances with deleted = 0 on the hosts.

    Instances without any are left out. Deleted properties count, as in nova; of
    two of one name the newer does.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for chunk in chunks(hosts):
        query = _IMAGES.where(_i.host.in_(chunk))
        for uuid, host, key, value in connection.execute(query):
            # LIKE finds keys in any case on some back-ends.
            if key.startswith(IMAGE_PREFIX) and value is not None:
                properties = found.setdefault((uuid, host), {})
                properties[key.removeprefix(IMAGE_PREFIX)] = value
    return [ImageRow(*of, properties) for of, properties in found.items()]


def source_hosts(connection: sa.Connection, uuid: str) -> list[str]:
    """Return the host of an instance, or its last host while it is shelved.

    Nova keeps the latter in its system metadata until it is unshelved.
    """
    hosts = [row[0] or row[1] for row in connection.execute(_SOURCE, {'uuid': uuid})]
    return [host for host in hosts if host]


def chunks(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield the values in parts that fit into one IN list."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
