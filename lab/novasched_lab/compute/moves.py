# SPDX-License-Identifier: Apache-2.0
"""Cold migrations and resizes between simulated hosts.

The host that takes an instance over claims for it and writes its row; then the host
that had it frees what the migration holds. Nova: compute/manager.py, prep_resize to
confirm_resize.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.compute.host import ComputeContext, FakeComputeHost
from novasched_lab.compute.resource_tracker import (
    Claim,
    Demand,
    ResourcesUnavailable,
)
from novasched_lab.failures import fault_of
from novasched_lab.rpc_api import UNREACHABLE
from novasched_lab.store.cell_servers import Migration

LOG = logging.getLogger(__name__)

EVENT = 'compute_prep_resize'


@dataclass(frozen=True)
class IncomingMove:
    """An instance to be taken over; ``properties`` have ``retry`` if others may try."""

    uuid: str
    migration_uuid: str
    flavor: Flavor
    request: RequestSpec
    properties: Mapping[str, Any]
    host_list: Sequence[Selection] | None
    limits: NUMATopologyLimits | None = None


class MoveManager:
    """Moves instances to and away from the hosts of a process."""

    def __init__(
        self, compute: ComputeContext, hosts: Mapping[str, FakeComputeHost]
    ) -> None:
        self._compute = compute
        self._hosts = hosts

    def run(
        self, context: RequestContext, host: FakeComputeHost, move: IncomingMove
    ) -> None:
        """Take an instance over, have another host do it, or leave it where it is."""
        begun = host.servers.update_migration(
            move.migration_uuid,
            ['pre-migrating'],
            status='migrating',
            dest_compute=host.name,
            dest_node=host.name,
        )
        migration = host.servers.migration(move.migration_uuid)
        if not begun or migration is None:
            LOG.warning('The move of %s to %s is over', move.uuid, host.name)
            return
        attempt = _MoveAttempt(self._compute, context, host, move, migration)
        if attempt.run():
            self._confirm_at_source(context, host, migration)

    def _confirm_at_source(
        self, context: RequestContext, host: FakeComputeHost, migration: Migration
    ) -> None:
        source_name = migration.source_compute or ''
        source = self._hosts.get(source_name)
        if source is not None:
            self.confirm(context, source, migration.instance_uuid, migration.uuid)
            return
        instance = host.servers.instance(migration.instance_uuid)
        if instance is None:
            return
        try:
            host.computes.confirm_resize(
                context, source_name, instance=instance, migration=migration._asdict()
            )
        except UNREACHABLE as problem:
            LOG.warning('%s frees nothing of %s: %s', source_name, migration, problem)

    def confirm(
        self,
        context: RequestContext,
        host: FakeComputeHost,
        uuid: str,
        migration_uuid: str,
    ) -> None:
        """Free what a finished move holds on its source; may be done twice."""
        now = host.servers.migration(migration_uuid)
        if now is None or now.status != 'finished':
            return
        if now.dest_compute != host.name:
            host.release(uuid)
        if self._compute.allocations.remove(context, migration_uuid):
            host.servers.update_migration(
                migration_uuid, ['finished'], status='confirmed'
            )


class _MoveAttempt:
    """One move of an instance to one host."""

    def __init__(
        self,
        compute: ComputeContext,
        context: RequestContext,
        host: FakeComputeHost,
        move: IncomingMove,
        migration: Migration,
    ) -> None:
        self._compute = compute
        self._context = context
        self._host = host
        self._servers = host.servers
        self._move = move
        self._migration = migration

    def run(self) -> bool:
        """Take the instance over; False, after another host was asked, if it cannot."""
        try:
            return self._take()
        except errors.RequestError as problem:
            self._host.release(self._migration.uuid)
            self._refuse(problem)
            return False

    def _take(self) -> bool:
        host, move, migration = self._host, self._move, self._migration
        flavor_name = move.flavor.name or ''
        if self._compute.rules.refuses(host.name, flavor_name, move.uuid):
            raise ResourcesUnavailable('the fleet has a rule that refuses it')
        request = move.request.replaced(flavor=move.flavor)
        with host.lock:
            demand = Demand.of_request(request, move.limits)
            claim = host.tracker.claim(migration.uuid, demand)
        if not self._servers.finish_move(migration, self._values_after(claim)):
            host.release(migration.uuid)
            LOG.warning('Instance %s is gone, or was moved already', move.uuid)
            return False
        with host.lock:
            host.tracker.rename(migration.uuid, move.uuid)
            host.tracker.mark(move.uuid, 'active')
        host.publish()
        host.note(move.uuid, EVENT)
        LOG.info('Instance %s runs on %s now', move.uuid, host.name)
        return True

    def _values_after(self, claim: Claim) -> dict[str, Any]:
        """Return what the row of the instance has after the move."""
        host, flavor = self._host, self._move.flavor
        return {
            'host': host.name,
            'node': host.name,
            'launched_on': host.name,
            'compute_id': host.node_id,
            'vm_state': 'active',
            'task_state': None,
            'instance_type_id': flavor.id if 'id' in flavor else None,
            'vcpus': flavor.vcpus,
            'memory_mb': flavor.memory_mb,
            'root_gb': flavor.root_gb,
            'ephemeral_gb': flavor.ephemeral_gb,
            'flavor': flavor,
            'numa_topology': claim.topology,
        }

    def _refuse(self, problem: errors.RequestError) -> None:
        """Give the source its allocation back; have the next host tried, if any."""
        move = self._move
        LOG.info('%s cannot take %s: %s', self._host.name, move.uuid, problem)
        if not self._servers.update_migration(
            move.migration_uuid, ['migrating'], status='reverting'
        ):
            return
        instance = self._servers.instance(move.uuid)
        retry = move.properties.get('retry')
        swapped = self._swap_back()
        if not swapped or instance is None or not retry or move.host_list is None:
            self._end(problem)
            return
        properties = {
            **move.properties,
            'retry': {**retry, 'exc_reason': str(problem)},
            'migration_uuid': move.migration_uuid,
        }
        try:
            self._compute.conductor.migrate_server(
                self._context,
                instance,
                move.flavor,
                move.request,
                properties,
                move.host_list,
                wait=False,
            )
        except UNREACHABLE as failure:
            LOG.error('No conductor was reached for %s: %s', move.uuid, failure)
            self._end(problem)

    def _swap_back(self) -> bool:
        source, target = self._migration.uuid, self._move.uuid
        try:
            return self._compute.allocations.swap(self._context, source, target)
        except errors.AllocationUpdateFailed as problem:
            LOG.warning('%s keeps the allocation of its move: %s', target, problem)
            return False

    def _end(self, problem: errors.RequestError) -> None:
        """Write that the move failed and that the instance stays on its source."""
        uuid, source = self._move.uuid, self._migration.source_compute
        self._servers.update(uuid, {'host': source}, vm_state='active', task_state=None)
        self._servers.add_fault(uuid, fault_of(problem), self._host.name)
        self._host.note(uuid, EVENT, str(problem))
        self._servers.update_migration(
            self._migration.uuid, ['reverting'], status='error'
        )
        LOG.warning('The move of %s failed: %s', uuid, problem)
