# SPDX-License-Identifier: Apache-2.0
"""Instances of a cell: which of them run on which hosts."""

from __future__ import annotations

from collections.abc import Sequence

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
    chunks = (hosts[start : start + CHUNK] for start in range(0, len(hosts), CHUNK))
    return [
        InstanceRow._make(row)
        for chunk in chunks
        for row in connection.execute(_LIVE.where(_c.host.in_(chunk)))
    ]
