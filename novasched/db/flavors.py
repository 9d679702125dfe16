# SPDX-License-Identifier: Apache-2.0
"""Sizes of the public flavors of the API database."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.server_tables import flavors
from novasched.scheduler.flavor_sizes import MOST_SIZES, FlavorSize, FlavorSizes

_f = flavors.c
_SIZES = (
    sa.select(_f.vcpus, _f.memory_mb, sa.func.count())
    .where(_f.is_public == sa.true(), _f.vcpus > 0, _f.memory_mb > 0)
    .where(sa.or_(_f.disabled.is_(None), _f.disabled == sa.false()))
    .group_by(_f.vcpus, _f.memory_mb)
    .order_by(_f.memory_mb.desc(), _f.vcpus.desc())
    .limit(MOST_SIZES)
)


def public(connection: sa.Connection) -> FlavorSizes:
    """Return the sizes of the public flavors that are not disabled, the largest first.

    A database without the table of flavors has none.
    """
    if not sa.inspect(connection).has_table(flavors.name):
        return ()
    return tuple(map(FlavorSize._make, connection.execute(_SIZES)))
