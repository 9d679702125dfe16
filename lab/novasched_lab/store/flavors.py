# SPDX-License-Identifier: Apache-2.0
"""Flavors of the API database."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.transactions import Database
from novasched.objects.flavor import Flavor
from novasched_lab.db.server_tables import flavor_extra_specs, flavors

_FIELDS = (
    'id',
    'name',
    'memory_mb',
    'vcpus',
    'swap',
    'vcpu_weight',
    'flavorid',
    'rxtx_factor',
    'disabled',
    'is_public',
    'description',
)


def named(database: Database, name: str) -> Flavor | None:
    """Return the flavor of a name or an id of the API; None if there is none.

    A database that knows no flavors has none. Raises errors.StoreFailed.
    """
    with database.read() as connection:
        if not sa.inspect(connection).has_table(flavors.name):
            return None
        f, e = flavors.c, flavor_extra_specs.c
        wanted = sa.or_(f.name == name, f.flavorid == name)
        # A name goes before an id that another flavor has.
        query = sa.select(flavors).where(wanted).order_by(f.name != name)
        row = connection.execute(query).mappings().first()
        if row is None:
            return None
        specs = sa.select(e.key, e.value).where(e.flavor_id == row['id'])
        extra = {key: value or '' for key, value in connection.execute(specs)}
    made = Flavor(
        root_gb=row['root_gb'] or 0,
        ephemeral_gb=row['ephemeral_gb'] or 0,
        extra_specs=extra,
        **{field: row[field] for field in _FIELDS},
    )
    made.obj_reset_changes()
    return made
