# SPDX-License-Identifier: Apache-2.0
"""Instances of a cell: which of them run on which hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from novasched.db import tables
from novasched.ports import InstanceRow

CHUNK = 500  # names in one IN list; old SQLite takes 999 parameters at most

_c = tables.instances.c
_LIVE = sa.select(_c.uuid, _c.host).where(_c.deleted == 0, _c.host.is_not(None))


def on_hosts(connection: sa.Connection, hosts: Sequence[str]) -> list[InstanceRow]:
    """Return the instances with deleted = 0 on any of the hosts.

    Soft-deleted and hidden instances are among them, as in nova.
    """
    return _chunked(connection, _c.host, hosts)


def by_uuid(connection: sa.Connection, uuids: Sequence[str]) -> list[InstanceRow]:
    """Return those of the instances that are live and on a host."""
    return _chunked(connection, _c.uuid, uuids)


def _chunked(
    connection: sa.Connection, column: sa.Column[str], values: Sequence[str]
) -> list[InstanceRow]:
    return [
        InstanceRow._make(row)
        for chunk in _chunks(values)
        for row in connection.execute(_LIVE.where(column.in_(chunk)))
    ]


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
