# SPDX-License-Identifier: Apache-2.0
"""What a host looks at when it starts and from time to time: what was left undone.

A process may have been killed between any two lines, and a message lost with it. Each
case is told by its rows: an instance that is being built on a host that does not build
it, one without host that nobody works on any more, a move that does not go on, an
allocation of one that is deleted. Nova: compute/resource_tracker.py,
_remove_deleted_instances_allocations.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.db import tables
from novasched.objects.context import RequestContext, admin
from novasched.objects.instance import Instance
from novasched_lab.compute.builds import Builds
from novasched_lab.compute.deletes import Deletes
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.moves import BEGUN, Moves
from novasched_lab.compute.station import Parts, Station, tell, tell_of
from novasched_lab.db import server_tables
from novasched_lab.failures import Interrupted
from novasched_lab.store import instances, migrations
from novasched_lab.store.migrations import Migration
from novasched_lab.store.stores import CellServers

LOG = logging.getLogger(__name__)

ENDED = ('error', 'confirmed', 'reverted', 'failed', 'completed')
_i, _m = tables.instances.c, server_tables.migrations.c


class Audit:
    """Mends what is left undone on hosts of one cell.

    ``grace_s`` is how long nothing may happen to an instance or a move that somebody
    should be working on. Raises errors.StoreFailed.
    """

    def __init__(
        self,
        parts: Parts,
        builds: Builds,
        moves: Moves,
        deletes: Deletes,
        grace_s: float = 120.0,
    ) -> None:
        self._parts = parts
        self._builds = builds
        self._moves = moves
        self._deletes = deletes
        self._grace_s = grace_s

    def load(self, stations: Sequence[Station]) -> None:
        """Fill the books of hosts with what their instances hold, and tell of them."""
        by_name = {station.name: station for station in stations}
        if not by_name:
            return
        found: dict[str, list[Instance]] = {}
        for instance in _servers(stations).instances_on(list(by_name)):
            station = by_name[instance.host or '']
            found.setdefault(station.name, []).append(instance)
            self._restore(station, instance)
        context = admin()
        for name, listed in found.items():
            tell_of(self._parts, context, name, *listed)

    def run(self, stations: Sequence[Station]) -> None:
        """Look at all that may be left of hosts that live, and mend it."""
        alive = [station for station in stations if station.alive]
        if not alive:
            return
        context, servers = admin(), _servers(alive)
        before = timeutils.utcnow() - datetime.timedelta(seconds=self._grace_s)
        self._look_at_instances(context, alive, servers)
        self._end_lost_builds(context, alive, servers, before)
        self._end_moves(context, alive, servers, before)
        for station in alive:
            self._look_at_allocations(context, station)
            station.publish()

    def _restore(self, station: Station, instance: Instance) -> None:
        with station.lock:
            if not station.book.restore(instance.uuid, Demand.of_instance(instance)):
                LOG.warning(
                    '%s holds less on %s than it should', instance.uuid, station.name
                )
            station.book.mark(
                instance.uuid, instance.vm_state or 'active', instance.task_state
            )

    def _look_at_instances(
        self,
        context: RequestContext,
        stations: Sequence[Station],
        servers: CellServers,
    ) -> None:
        """Compare the books of hosts with their rows, which are read all at once."""
        before = {station.name: _noted(station) for station in stations}
        found: dict[str | None, dict[str, Instance]] = {}
        for row in servers.instances_on(list(before)):
            found.setdefault(row.host, {})[row.uuid] = row
        for station in stations:
            rows = found.get(station.name, {})
            self._compare(context, station, *before[station.name], rows)

    def _compare(
        self,
        context: RequestContext,
        station: Station,
        booked: frozenset[str],
        busy: frozenset[str],
        rows: Mapping[str, Instance],
    ) -> None:
        """Bring the book of a host in line with its rows; end what was interrupted.

        What was booked or busy was so before the rows were read; whatever differs is
        looked at once more.
        """
        busy |= station.busy()
        for uuid in booked - rows.keys() - busy:
            self._forget(station, uuid)
        for uuid in rows.keys() - booked - busy:
            now = station.servers.instance(uuid)
            with station.lock:
                missing = uuid not in station.book.held
            if missing and now is not None and now.host == station.name:
                self._restore(station, now)
        for uuid in rows.keys() - busy:
            self._resume(context, station, rows[uuid])

    def _forget(self, station: Station, uuid: str) -> None:
        now = station.servers.instance(uuid)
        if uuid not in station.busy() and (now is None or now.host != station.name):
            station.release(uuid)

    def _resume(self, context: RequestContext, station: Station, row: Instance) -> None:
        """End the build or the deletion of an instance that nobody works on."""
        if row.vm_state != 'building' and row.task_state != 'deleting':
            return
        now = station.servers.instance(row.uuid)
        if now is None or now.host != station.name or row.uuid in station.busy():
            return
        if now.vm_state == 'building' and now.task_state != 'deleting':
            self._builds.give_up(context, station, row.uuid, _interrupted(row.uuid))
        elif now.task_state == 'deleting' and row.task_state == 'deleting':
            self._deletes.run(context, station, row.uuid)

    def _end_lost_builds(
        self,
        context: RequestContext,
        stations: Sequence[Station],
        servers: CellServers,
        before: datetime.datetime,
    ) -> None:
        """End the builds that wait for a host and that nobody will go on with.

        The last host that tried an instance does it, or the one where placement
        keeps room for it, if the message to that was lost.
        """
        by_name = {station.name: station for station in stations}
        for instance in _waiting(servers, before):
            station = by_name.get(instance.launched_on or '')
            if instance.launched_on is None:
                station = self._holder(context, stations, instance.uuid)
            if station is None or instance.uuid in station.busy():
                continue
            self._builds.give_up(
                context, station, instance.uuid, _interrupted(instance.uuid)
            )

    def _holder(
        self, context: RequestContext, stations: Sequence[Station], uuid: str
    ) -> Station | None:
        held = self._parts.allocations.held_by(context, uuid).allocations
        for station in stations:
            if station.provider_uuids.intersection(held):
                return station
        return None

    def _end_moves(
        self,
        context: RequestContext,
        stations: Sequence[Station],
        servers: CellServers,
        before: datetime.datetime,
    ) -> None:
        """Undo the moves away from here that do not go on; confirm the finished."""
        by_name = {station.name: station for station in stations}
        for migration in _left(servers, list(by_name), before):
            station = by_name[migration.source_compute or '']
            problem = Interrupted(f'Move of instance {migration.instance_uuid} ended.')
            self._moves.undo(context, station, migration, problem)
        finished = servers.migrations_on(list(by_name), ['finished'])
        for migration in finished:
            source = by_name.get(migration.source_compute or '')
            if source is not None and migration.uuid not in source.busy():
                self._moves.confirm(
                    context, source, migration.instance_uuid, migration.uuid
                )

    def _look_at_allocations(self, context: RequestContext, station: Station) -> None:
        """Free what is held here by those who are gone.

        Whoever holds a device holds some of the host, too, which alone is asked for.
        """
        holders = self._parts.inventories.consumers(station.host.uuid)
        with station.lock:
            strange = holders - set(station.book.held) - station.busy()
        for consumer in sorted(strange):
            self._look_at_consumer(context, station, consumer)

    def _look_at_consumer(
        self, context: RequestContext, station: Station, consumer: str
    ) -> None:
        servers, remove = station.servers, self._parts.allocations.remove
        instance = servers.instance(consumer)
        migration = None if instance else servers.migration(consumer)
        if instance is not None:
            if instance.host is None and instance.vm_state == 'error':
                remove(context, consumer)
            elif instance.host not in (None, station.name):
                LOG.warning(
                    'Instance %s is on %s and has allocations on %s, too',
                    consumer,
                    instance.host,
                    station.name,
                )
        elif migration is not None:
            if migration.status in ENDED:
                remove(context, consumer)
        elif servers.is_deleted(consumer):
            remove(context, consumer)
        else:
            LOG.info(
                'Instance %s has allocations against this compute host but is not '
                'found in the database.',
                consumer,
            )


def sync(parts: Parts, stations: Sequence[Station]) -> None:
    """Tell schedulers of all instances of each host, for those who missed some."""
    context = admin()
    for station in stations:
        if not station.alive:
            continue
        with station.lock:
            uuids = list(station.book.held)
        tell(
            parts.news,
            lambda news, name=station.name, uuids=uuids: (  # type: ignore[misc]
                news.sync_instance_info(context, name, uuids)
            ),
            station.name,
        )


def _noted(station: Station) -> tuple[frozenset[str], frozenset[str]]:
    """Return which instances a host has booked, and which it works on."""
    with station.lock:
        return frozenset(station.book.held), station.busy()


def _servers(stations: Sequence[Station]) -> CellServers:
    return stations[0].servers


def _interrupted(uuid: str) -> Interrupted:
    return Interrupted(f'Build of instance {uuid} was interrupted.')


def _waiting(servers: CellServers, before: datetime.datetime) -> list[Instance]:
    """Return the instances that wait for a host, and did not change since then."""
    with servers.database.read() as connection:
        return instances.read(
            connection,
            _i.host.is_(None),
            _i.vm_state == 'building',
            sa.func.coalesce(_i.updated_at, _i.created_at) < before,
        )


def _left(
    servers: CellServers, hosts: Sequence[str], before: datetime.datetime
) -> list[Migration]:
    """Return the moves away from hosts that did not go on since then."""
    with servers.database.read() as connection:
        return migrations.read(
            connection,
            _m.source_compute.in_(hosts),
            _m.status.in_(BEGUN),
            sa.func.coalesce(_m.updated_at, _m.created_at) < before,
        )
