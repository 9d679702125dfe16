# SPDX-License-Identifier: Apache-2.0
"""Rows of simulated hosts: services and compute nodes of a cell, aggregates."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db import tables
from novasched.db.services import COMPUTE
from novasched.db.transactions import Database
from novasched.inspection.session.catalogue import name_uuid
from novasched.releases import NEWEST
from novasched_lab.host_inventory import SimulatedHost, node_row, service_row

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
        now = self._utcnow()
        return self._database.retrying(lambda c: _register(c, hosts, usage, now))

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
        change = (
            sa.update(tables.compute_nodes)
            .where(_n.id == node_id)
            .values(**usage, updated_at=self._utcnow())
        )
        self._database.retrying(lambda connection: connection.execute(change))


def _register(
    connection: sa.Connection,
    hosts: Sequence[SimulatedHost],
    usage: Mapping[str, Mapping[str, Any]],
    now: datetime.datetime,
) -> dict[str, int]:
    services = sa.select(_s.host, _s.id).where(_of(host.name for host in hosts))
    nodes = sa.select(_n.host, _n.id).where(
        _n.host.in_([host.name for host in hosts]),
        _n.hypervisor_hostname == _n.host,
        _n.deleted == 0,
    )
    known = _ids(connection, services)
    new = [service_row(host, now) for host in hosts if host.name not in known]
    _insert(connection, tables.services, new)
    version = NEWEST.service_version
    is_other = sa.or_(_s.version.is_(None), _s.version != version)
    change = sa.update(tables.services).where(_of(known), is_other)
    connection.execute(change.values(version=version, updated_at=now))
    service_ids, known, new = _ids(connection, services), _ids(connection, nodes), []
    for host in hosts:
        values = {
            **node_row(host),
            **usage[host.name],
            'service_id': service_ids[host.name],
            'updated_at': now,
        }
        if host.name in known:
            update = sa.update(tables.compute_nodes).where(_n.id == known[host.name])
            connection.execute(update.values(**values))
        else:
            new.append({**values, 'mapped': 0, 'created_at': now})
    _insert(connection, tables.compute_nodes, new)
    return _ids(connection, nodes)


def _of(hosts: Iterable[str]) -> sa.ColumnElement[bool]:
    return sa.and_(_s.host.in_(list(hosts)), _s.binary == COMPUTE, _s.deleted == 0)


def _ids(connection: sa.Connection, query: sa.Select[Any]) -> dict[str, int]:
    return {row.host: row.id for row in connection.execute(query)}


def _insert(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


class HostAggregate(NamedTuple):
    """Hosts that share a piece of metadata; ``name`` is its value, too."""

    key: str
    name: str
    hosts: Sequence[str]


def aggregates_by(
    key: str, pairs: Iterable[tuple[str | None, str]]
) -> list[HostAggregate]:
    """Return an aggregate for each value of a key.

    ``pairs`` are of a value, None for no value, and the name of a host.
    """
    groups: dict[str, list[str]] = {}
    for value, host in pairs:
        if value is not None:
            groups.setdefault(value, []).append(host)
    return [HostAggregate(key, value, groups[value]) for value in sorted(groups)]


def zones_of(hosts: Iterable[SimulatedHost]) -> list[HostAggregate]:
    return aggregates_by(ZONE, ((host.zone, host.name) for host in hosts))


def make_aggregates(
    engine: sa.Engine, aggregates: Sequence[HostAggregate]
) -> dict[str, str]:
    """Write the host aggregates that are missing; return their uuids by name.

    No host is removed from one. Raises errors.StoreFailed.
    """
    return Database(engine).retrying(
        lambda connection: {
            each.name: _make_aggregate(connection, each) for each in aggregates
        }
    )


def _make_aggregate(connection: sa.Connection, wanted: HostAggregate) -> str:
    a, h = tables.aggregates.c, tables.aggregate_hosts.c
    now = timeutils.utcnow().replace(microsecond=0)
    query = sa.select(a.id, a.uuid).where(a.name == wanted.name)
    found = connection.execute(query).first()
    if found is None:
        values = {'uuid': name_uuid('zone', wanted.name), 'name': wanted.name}
        made = sa.insert(tables.aggregates).values(created_at=now, **values)
        connection.execute(made)
        found = connection.execute(query).one()
        metadata = {'key': wanted.key, 'value': wanted.name, 'created_at': now}
        metadata['aggregate_id'] = found.id
        connection.execute(sa.insert(tables.aggregate_metadata).values(metadata))
    members = sa.select(h.host).where(h.aggregate_id == found.id)
    known = set(connection.execute(members).scalars())
    row = {'created_at': now, 'aggregate_id': found.id}
    new = [{**row, 'host': host} for host in wanted.hosts if host not in known]
    _insert(connection, tables.aggregate_hosts, new)
    return str(found.uuid)
