# SPDX-License-Identifier: Apache-2.0
"""The availability zones of a fleet: host aggregates, here and in placement.

In a cloud of nova's they are the API's to make; a fleet brings its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db import tables
from novasched.db.transactions import Database
from novasched_lab.compute.fleet import Host, name_uuid

ZONE = 'availability_zone'


def zone_hosts(hosts: Iterable[Host]) -> dict[str, list[Host]]:
    """Return the hosts of each zone that is named."""
    found: dict[str, list[Host]] = {}
    for host in hosts:
        if host.zone is not None:
            found.setdefault(host.zone, []).append(host)
    return found


def make(engine: sa.Engine, zones: Mapping[str, Sequence[Host]]) -> dict[str, str]:
    """Make the aggregates of zones that are missing, with their hosts.

    Return the uuid of each. A zone is the aggregate of its name; nobody is taken out
    of one. Raises errors.StoreFailed.
    """
    now = timeutils.utcnow().replace(microsecond=0)
    return Database(engine).retrying(
        lambda connection: {
            zone: _make(connection, zone, [host.name for host in hosts], now)
            for zone, hosts in sorted(zones.items())
        }
    )


def _make(
    connection: sa.Connection,
    zone: str,
    hosts: Sequence[str],
    now: datetime.datetime,
) -> str:
    a, h = tables.aggregates.c, tables.aggregate_hosts.c
    found = connection.execute(sa.select(a.id, a.uuid).where(a.name == zone)).first()
    if found is None:
        uuid = name_uuid('zone', zone)
        made = connection.execute(
            sa.insert(tables.aggregates).values(created_at=now, uuid=uuid, name=zone)
        )
        (id_,) = made.inserted_primary_key or (None,)
        connection.execute(
            sa.insert(tables.aggregate_metadata).values(
                created_at=now, aggregate_id=id_, key=ZONE, value=zone
            )
        )
    else:
        id_, uuid = found
    known = set(
        connection.execute(sa.select(h.host).where(h.aggregate_id == id_)).scalars()
    )
    new = [
        {'created_at': now, 'aggregate_id': id_, 'host': host}
        for host in hosts
        if host not in known
    ]
    if new:
        connection.execute(sa.insert(tables.aggregate_hosts), new)
    return str(uuid)
