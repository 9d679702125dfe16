# SPDX-License-Identifier: Apache-2.0
"""Rows of simulated hosts: services and compute nodes of a cell, zones of the cloud."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.cluster.heartbeat import SERVICE_VERSION
from novasched.db import tables
from novasched.db.services import COMPUTE
from novasched.db.transactions import Database
from novasched_lab.host_inventory import (
    SimulatedHost,
    name_uuid,
    node_row,
    service_row,
)

ZONE = 'availability_zone'

_s, _n = tables.services.c, tables.compute_nodes.c


class HostRows:
    """The services and compute nodes of the hosts of one cell.

    Every method raises errors.StoreFailed.
    """

    def __init__(
        self,
        engine: sa.Engine,
        name: str | None = None,
        utcnow: Callable[[], datetime.datetime] = timeutils.utcnow,
    ) -> None:
        self._database = Database(engine, name)
        self._utcnow = utcnow

    def register(
        self, hosts: Sequence[SimulatedHost], usage: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, int]:
        """Write the rows that are missing, and bring the others up to date.

        ``usage`` are the columns that follow usage, by host. Return the ids of the
        compute nodes; a host that has rows keeps them.
        """
        names = [host.name for host in hosts]

        def step(connection: sa.Connection) -> dict[str, int]:
            self._register_services(connection, hosts)
            service_ids = _ids(connection, _services_of(names))
            self._register_nodes(connection, hosts, service_ids, usage)
            return _ids(connection, _nodes_of(names))

        return self._database.retrying(step)

    def _register_services(
        self, connection: sa.Connection, hosts: Sequence[SimulatedHost]
    ) -> None:
        now = self._utcnow()
        known = _ids(connection, _services_of([host.name for host in hosts]))
        new = [service_row(host, now) for host in hosts if host.name not in known]
        if new:
            connection.execute(sa.insert(tables.services), new)
        is_other = sa.or_(_s.version.is_(None), _s.version != SERVICE_VERSION)
        change = sa.update(tables.services).where(_of(known), is_other)
        connection.execute(change.values(version=SERVICE_VERSION, updated_at=now))

    def _register_nodes(
        self,
        connection: sa.Connection,
        hosts: Sequence[SimulatedHost],
        service_ids: Mapping[str, int],
        usage: Mapping[str, Mapping[str, Any]],
    ) -> None:
        now = self._utcnow()
        known = _ids(connection, _nodes_of([host.name for host in hosts]))
        new = []
        for host in hosts:
            values = {
                **node_row(host),
                **usage[host.name],
                'service_id': service_ids[host.name],
                'updated_at': now,
            }
            if host.name in known:
                change = sa.update(tables.compute_nodes).where(
                    _n.id == known[host.name]
                )
                connection.execute(change.values(**values))
            else:
                new.append({**values, 'mapped': 0, 'created_at': now})
        if new:
            connection.execute(sa.insert(tables.compute_nodes), new)

    def beat(self, hosts: Iterable[str]) -> int:
        """Write the heartbeat of these hosts in one statement; return how many rows."""
        now = self._utcnow()
        change = (
            sa.update(tables.services)
            .where(_of(hosts))
            .values(report_count=_s.report_count + 1, last_seen_up=now, updated_at=now)
        )
        return self._database.retrying(lambda c: int(c.execute(change).rowcount))

    def write_usage(self, node_id: int, usage: Mapping[str, Any]) -> None:
        """Write the columns of a node that follow usage."""
        change = (
            sa.update(tables.compute_nodes)
            .where(_n.id == node_id)
            .values(**usage, updated_at=self._utcnow())
        )
        self._database.retrying(lambda connection: connection.execute(change))


def _of(hosts: Iterable[str]) -> sa.ColumnElement[bool]:
    return sa.and_(_s.host.in_(list(hosts)), _s.binary == COMPUTE, _s.deleted == 0)


def _services_of(hosts: Sequence[str]) -> sa.Select[Any]:
    return sa.select(_s.host, _s.id).where(_of(hosts))


def _nodes_of(hosts: Sequence[str]) -> sa.Select[Any]:
    return sa.select(_n.host, _n.id).where(
        _n.host.in_(list(hosts)), _n.hypervisor_hostname == _n.host, _n.deleted == 0
    )


def _ids(connection: sa.Connection, query: sa.Select[Any]) -> dict[str, int]:
    return {row.host: row.id for row in connection.execute(query)}


def make_zones(engine: sa.Engine, hosts: Iterable[SimulatedHost]) -> dict[str, str]:
    """Write the host aggregates of the zones of hosts that are missing.

    Return the uuid of each zone. A zone is the aggregate of its name; no host is
    removed from one. Raises errors.StoreFailed.
    """
    zones: dict[str, list[str]] = {}
    for host in hosts:
        if host.zone is not None:
            zones.setdefault(host.zone, []).append(host.name)
    return Database(engine).retrying(
        lambda connection: {
            zone: _make_zone(connection, zone, names)
            for zone, names in sorted(zones.items())
        }
    )


def _make_zone(connection: sa.Connection, zone: str, hosts: Sequence[str]) -> str:
    a, h = tables.aggregates.c, tables.aggregate_hosts.c
    now = timeutils.utcnow().replace(microsecond=0)
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
    members = sa.select(h.host).where(h.aggregate_id == id_)
    known = set(connection.execute(members).scalars())
    new = [
        {'created_at': now, 'aggregate_id': id_, 'host': host}
        for host in hosts
        if host not in known
    ]
    if new:
        connection.execute(sa.insert(tables.aggregate_hosts), new)
    return str(uuid)
