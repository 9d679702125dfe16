# SPDX-License-Identifier: Apache-2.0
"""Moving an instance here from another host, and letting go of it there.

The host that takes it claims, and changes instance and migration in one transaction;
the host that had it frees what the migration holds. Nova: compute/manager.py,
prep_resize to confirm_resize.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.compute import policy, rules
from novasched_lab.compute.book import Held, ResourcesUnavailable
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.station import SILENCE, Parts, Station, tell, tell_of
from novasched_lab.failures import fault_of
from novasched_lab.store import instances, migrations, stores
from novasched_lab.store.migrations import Migration

LOG = logging.getLogger(__name__)

EVENT = 'compute_prep_resize'
BEGUN = ('pre-migrating', 'migrating', 'reverting')


class _Gone(Exception):
    """The instance or its migration is not what it was."""


@dataclass(frozen=True)
class Move:
    """An instance to be taken over; ``properties`` have ``retry`` if others may try."""

    uuid: str
    migration_uuid: str
    flavor: Flavor
    request: RequestSpec
    properties: Mapping[str, Any]
    host_list: Sequence[Selection] | None
    limits: NUMATopologyLimits | None = None


class Moves:
    """Moves instances to and away from the hosts of a process."""

    def __init__(self, parts: Parts, stations: Mapping[str, Station]) -> None:
        self._parts = parts
        self._stations = stations

    def run(self, context: RequestContext, station: Station, move: Move) -> None:
        """Take an instance over, have another host do it, or leave it where it is."""
        name = move.flavor.name or ''
        outcome = self._parts.rules.outcome(station.name, name, move.uuid)
        if outcome == rules.LOSE:
            LOG.warning('%s forgets the move of %s', station.name, move.uuid)
            return
        begun = station.servers.update_migration(
            move.migration_uuid,
            ['pre-migrating'],
            status='migrating',
            dest_compute=station.name,
            dest_node=station.name,
        )
        if not begun:
            LOG.warning('The move of %s to %s is over', move.uuid, station.name)
            return
        with station.working_on(move.uuid), station.working_on(move.migration_uuid):
            try:
                self._take(context, station, move, outcome)
            except errors.RequestError as problem:
                station.release(move.migration_uuid)
                self._refuse(context, station, move, problem)

    def _take(
        self,
        context: RequestContext,
        station: Station,
        move: Move,
        outcome: str | None,
    ) -> None:
        if outcome is not None:
            raise ResourcesUnavailable('the fleet has a rule that refuses it')
        with station.lock:
            demand = Demand.of_request(
                move.request.replaced(flavor=move.flavor), move.limits
            )
            held = station.book.claim(move.migration_uuid, demand)
            if self._parts.checks_policy:
                policy.check(station.servers, station.name, move.uuid, move.request)
        migration = station.servers.migration(move.migration_uuid)
        if migration is None or not self._finish(station, move, migration, held):
            station.release(move.migration_uuid)
            LOG.warning('Instance %s is gone, or was moved already', move.uuid)
            return
        with station.lock:
            station.book.rename(move.migration_uuid, move.uuid)
            station.book.mark(move.uuid, 'active')
        station.publish()
        station.note(move.uuid, EVENT)
        moved = station.servers.instance(move.uuid)
        if moved is not None:
            tell_of(self._parts, context, station.name, moved)
            self._have_confirmed(context, station, moved, migration)
        LOG.info('Instance %s runs on %s now', move.uuid, station.name)

    def _finish(
        self, station: Station, move: Move, migration: Migration, held: Held
    ) -> bool:
        """Write that the instance is here, and that its move is finished."""
        flavor, at = move.flavor, stores.now()
        values = {
            'host': station.name,
            'node': station.name,
            'launched_on': station.name,
            'compute_id': station.node_id,
            'vm_state': 'active',
            'task_state': None,
            'instance_type_id': flavor.id if 'id' in flavor else None,
            'vcpus': flavor.vcpus,
            'memory_mb': flavor.memory_mb,
            'root_gb': flavor.root_gb,
            'ephemeral_gb': flavor.ephemeral_gb,
            'flavor': flavor,
            'numa_topology': held.topology,
        }
        before = {'host': migration.source_compute}

        def step(connection: sa.Connection) -> None:
            migrated = migrations.update(
                connection,
                move.migration_uuid,
                ['migrating'],
                {'status': 'finished'},
                at,
            )
            if not migrated or not instances.update(
                connection, move.uuid, before, values, at
            ):
                raise _Gone  # and nothing is written

        try:
            station.servers.write(step)
        except _Gone:
            return False
        return True

    def _have_confirmed(
        self,
        context: RequestContext,
        station: Station,
        instance: Instance,
        migration: Migration,
    ) -> None:
        """Have the source let go; if it hears nothing, its audit does."""
        source = self._stations.get(migration.source_compute or '')
        if source is not None:
            self.confirm(context, source, instance.uuid, migration.uuid)
            return
        try:
            station.computes.confirm_resize(
                context,
                migration.source_compute or '',
                instance=instance,
                migration=migration._asdict(),
            )
        except SILENCE as problem:
            LOG.warning('%s was not told to let go: %s', instance.uuid, problem)

    def confirm(
        self, context: RequestContext, station: Station, uuid: str, migration_uuid: str
    ) -> None:
        """Free what a finished move holds on its source; may be done twice."""
        now = station.servers.migration(migration_uuid)
        if now is None or now.status != 'finished':
            return
        if now.dest_compute != station.name:
            station.release(uuid)
            tell(
                self._parts.news,
                lambda news: news.delete_instance_info(context, station.name, uuid),
                uuid,
            )
        if self._parts.allocations.remove(context, migration_uuid):
            station.servers.update_migration(
                migration_uuid, ['finished'], status='confirmed'
            )

    def undo(
        self,
        context: RequestContext,
        station: Station,
        migration: Migration,
        problem: errors.RequestError,
    ) -> None:
        """End a move that did not take place: the instance stays on its source."""
        uuid, servers = migration.instance_uuid, station.servers
        if not servers.update_migration(migration.uuid, BEGUN, status='reverting'):
            return
        if servers.instance(uuid) is None:
            self._parts.allocations.remove(context, migration.uuid)
        elif not self._swap_back(context, uuid, migration.uuid):
            return  # an audit tries again
        servers.update(
            uuid, {'host': migration.source_compute}, vm_state='active', task_state=None
        )
        servers.add_fault(uuid, fault_of(problem), station.name)
        station.note(uuid, EVENT, str(problem))
        servers.update_migration(migration.uuid, ['reverting'], status='error')
        LOG.warning('The move of %s came to nothing: %s', uuid, problem)

    def _refuse(
        self,
        context: RequestContext,
        station: Station,
        move: Move,
        problem: errors.RequestError,
    ) -> None:
        """Give the source its allocation back; have the next host tried, if any."""
        migration = station.servers.migration(move.migration_uuid)
        if migration is None:
            return
        retry = move.properties.get('retry')
        if not retry or move.host_list is None:
            self.undo(context, station, migration, problem)
            return
        LOG.info('%s cannot take %s: %s', station.name, move.uuid, problem)
        if not station.servers.update_migration(
            move.migration_uuid, ['migrating'], status='reverting'
        ):
            return
        instance = station.servers.instance(move.uuid)
        back = self._swap_back(context, move.uuid, move.migration_uuid)
        if instance is None or not back:
            self.undo(context, station, migration, problem)
            return
        properties = {
            **move.properties,
            'retry': {**retry, 'exc_reason': str(problem)},
            'migration_uuid': move.migration_uuid,
        }
        try:
            self._parts.conductor.migrate_server(
                context,
                instance,
                move.flavor,
                move.request,
                properties,
                move.host_list,
                wait=False,
            )
        except SILENCE as silence:
            LOG.error('No conductor was reached for %s: %s', move.uuid, silence)
            self.undo(context, station, migration, problem)

    def _swap_back(
        self, context: RequestContext, uuid: str, migration_uuid: str
    ) -> bool:
        try:
            return self._parts.allocations.swap(context, migration_uuid, uuid)
        except errors.AllocationUpdateFailed as problem:
            LOG.warning('%s keeps the allocation of its move: %s', uuid, problem)
            return False
