# SPDX-License-Identifier: Apache-2.0
"""Instances of a cell: which of them run on which hosts, from which images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from novasched.db import tables
from novasched.ports import ImageRow, InstanceRow

CHUNK = 10000  # names in one IN list; SQLite takes 32766 parameters at most

_c = tables.instances.c
_m = tables.instance_system_metadata.c
IMAGE_PREFIX = 'image_'
_IMAGES = (
    sa.select(_c.uuid, _c.host, _m.key, _m.value)
    .join_from(tables.instances, tables.instance_system_metadata)
    .where(_c.deleted == 0, _m.key.startswith(IMAGE_PREFIX, autoescape=True))
    .order_by(_m.id)
)
_LIVE = sa.select(_c.uuid, _c.host, _c.instance_type_id).where(
    _c.deleted == 0, _c.host.is_not(None)
)


def on_hosts(connection: sa.Connection, hosts: Sequence[str]) -> list[InstanceRow]:
    """Return the instances with deleted = 0 on any of the hosts.

    Soft-deleted and hidden instances are among them, as in nova.
    """
    return [
        InstanceRow._make(row)
        for chunk in chunks(hosts)
        for row in connection.execute(_LIVE.where(_c.host.in_(chunk)))
    ]


def images_on_hosts(connection: sa.Connection, hosts: Sequence[str]) -> list[ImageRow]:
    """Return the image properties of the instances with deleted = 0 on the hosts.

    Instances without any are left out. Deleted properties count, as in nova; of
    two of one name the newer does.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for chunk in chunks(hosts):
        for uuid, host, key, value in connection.execute(
            _IMAGES.where(_c.host.in_(chunk))
        ):
            # LIKE finds keys in any case on some back-ends.
            if key.startswith(IMAGE_PREFIX) and value is not None:
                properties = found.setdefault((uuid, host), {})
                properties[key.removeprefix(IMAGE_PREFIX)] = value
    return [ImageRow(*of, properties) for of, properties in found.items()]


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the values in parts that fit into one IN list."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]
