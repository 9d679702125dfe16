# SPDX-License-Identifier: Apache-2.0
"""A simulated compute host at work: it builds, deletes and takes over instances.

In a move, the new host claims for the instance and writes its row; then the old host
frees what the migration holds. A host that refuses leaves the instance where it is.
Nova: compute/manager.py, _do_build_and_run_instance, terminate_instance, prep_resize
and confirm_resize.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import timeutils

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.allocations import Allocations
from novasched_lab.compute.fleet import FaultRules
from novasched_lab.compute.resource_tracker import (
    Demand,
    ResourcesUnavailable,
    ResourceTracker,
)
from novasched_lab.compute.rows import HostRows
from novasched_lab.db.cell_servers import UNDER_WAY, CellServers, Migration
from novasched_lab.failures import fault_of
from novasched_lab.host_inventory import SimulatedHost
from novasched_lab.rpc_api import UNREACHABLE, ComputeClient, ConductorClient

LOG = logging.getLogger(__name__)

POWERED_ON = 1
RESCHEDULED = (ResourcesUnavailable, errors.AllocationUpdateFailed)


@dataclass(frozen=True)
class Build:
    """An instance to be built; ``properties`` have ``retry`` if others may try."""

    uuid: str
    request: RequestSpec
    properties: Mapping[str, Any]
    limits: NUMATopologyLimits | None
    host_list: Sequence[Selection]
    image: Any = None


@dataclass(frozen=True)
class IncomingMove:
    """An instance to be taken over."""

    uuid: str
    migration_uuid: str
    flavor: Flavor
    request: RequestSpec
    limits: NUMATopologyLimits | None = None


@dataclass(frozen=True)
class ComputeContext:
    """What all hosts of a process work with."""

    allocations: Allocations
    conductor: ConductorClient
    rules: FaultRules


class FakeComputeHost:
    """A compute host without a hypervisor; one lock is held while a claim is made."""

    def __init__(
        self,
        host: SimulatedHost,
        servers: CellServers,
        rows: HostRows,
        computes: ComputeClient,
        compute: ComputeContext,
    ) -> None:
        self.host = host
        self.name = host.name
        self.servers = servers
        self.tracker = ResourceTracker(host)
        self._computes = computes
        self._compute = compute
        self._rows = rows
        self._node_id = 0
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._written: dict[str, Any] = {}

    # -- its row

    def registered(self, node_id: int) -> None:
        """Take the id of the compute node, whose row has the present usage."""
        self._node_id = node_id
        self._written = self.tracker.usage()

    def restore(self, instance: Instance) -> None:
        """Claim for an instance what its row says that it has here."""
        uuid, state = instance.uuid, instance.vm_state or 'active'
        with self._lock:
            if not self.tracker.restore(uuid, Demand.of_instance(instance)):
                LOG.warning('%s holds less on %s than it should', uuid, self.name)
            self.tracker.mark(uuid, state, instance.task_state)

    def publish(self) -> None:
        """Write the row of the node if its usage is not what was written last.

        One that cannot be written now is written by the next change.
        """
        with self._writing:
            with self._lock:
                usage = self.tracker.usage()
            if usage == self._written:
                return
            try:
                self._rows.write_usage(self._node_id, usage)
                self._written = usage
            except errors.StoreFailed as problem:
                LOG.warning('The row of %s stays old: %s', self.name, problem)

    def release(self, uuid: str) -> None:
        """Free what an instance holds, and publish the usage."""
        with self._lock:
            self.tracker.release(uuid)
        self.publish()

    def _is_here(self) -> dict[str, Any]:
        """Return the columns of an instance that say that it is here."""
        here = dict.fromkeys(('host', 'node', 'launched_on'), self.name)
        return {**here, 'compute_id': self._node_id}

    def _refuse_by_rule(self, flavor: Flavor, uuid: str) -> None:
        """Raise ResourcesUnavailable if a rule of the fleet says so."""
        if self._compute.rules.refuses(self.name, flavor.name or '', uuid):
            raise ResourcesUnavailable('the fleet has a rule that refuses it')

    # -- builds

    def build(self, context: RequestContext, build: Build) -> None:
        """Build an instance, have another host do it, or leave it in error."""
        try:
            self._build(context, build)
        except errors.RequestError as problem:
            with self._lock:
                self.tracker.failed_builds += 1
            if isinstance(problem, RESCHEDULED) and build.properties.get('retry'):
                self._reschedule(context, build, problem)
            else:
                self._fail(context, build.uuid, problem)

    def _build(self, context: RequestContext, build: Build) -> None:
        uuid = build.uuid
        held = self._compute.allocations.held_by(context, uuid)
        if self.host.uuid not in held.allocations:
            raise ResourcesUnavailable('placement has no allocation for it here')
        self._refuse_by_rule(build.request.flavor, uuid)
        if not self._claim(build):
            self._discard(context, uuid)
            return
        self.publish()
        if not self.servers.update(
            uuid,
            {'host': self.name, 'task_state': 'spawning'},
            vm_state='active',
            task_state=None,
            power_state=POWERED_ON,
            launched_at=timeutils.utcnow().replace(microsecond=0),
        ):
            LOG.info('Instance %s was deleted while it was built', uuid)
            return
        with self._lock:
            self.tracker.mark(uuid, 'active')
            self.tracker.failed_builds = 0
        self.publish()
        LOG.info('Instance %s runs on %s', uuid, self.name)

    def _claim(self, build: Build) -> bool:
        """Claim for the instance and write its host; False if it is not to be built."""
        uuid, demand = build.uuid, Demand.of_request(build.request, build.limits)
        waiting = {'host': None, 'vm_state': 'building'}
        expected = {**waiting, 'task_state': [None, 'scheduling']}
        with self._lock:
            if uuid in self.tracker.claims:
                return False
            topology = self.tracker.claim(uuid, demand).topology
            values = {**self._is_here(), 'task_state': 'spawning'}
            if topology is not None:
                values['numa_topology'] = topology
            taken = self.servers.update(uuid, expected, **values)
            if not taken:
                self.tracker.release(uuid)
        return taken

    def _discard(self, context: RequestContext, uuid: str) -> None:
        """Free the claim of an instance that was deleted before it came here.

        One that is here keeps what it holds.
        """
        now = self.servers.instance(uuid)
        if now is None or now.host != self.name:
            self.release(uuid)
        if now is not None and (now.task_state != 'deleting' or now.host is not None):
            LOG.warning('%s leaves instance %s to %s', self.name, uuid, now.host)
            return
        if now is not None:
            self.servers.destroy(uuid)
        self._compute.allocations.remove(context, uuid)

    def _reschedule(
        self, context: RequestContext, build: Build, problem: errors.RequestError
    ) -> None:
        """Have the conductor try the next host.

        What is claimed is freed first, as an alternate is claimed for the same
        consumer.
        """
        uuid, tasks = build.uuid, [None, 'scheduling', 'spawning']
        LOG.info('%s cannot build %s: %s', self.name, uuid, problem)
        kept = self._leave(uuid, {'task_state': tasks}, task_state='scheduling')
        instance = self.servers.instance(uuid)
        if not kept or instance is None:
            self._discard(context, uuid)
            return
        self.release(uuid)
        retry = {**build.properties['retry'], 'exc_reason': str(problem)}
        try:
            if self._compute.allocations.remove(context, uuid):
                self._compute.conductor.build_instances(
                    context,
                    instance,
                    {**build.properties, 'retry': retry},
                    build.request,
                    build.host_list,
                    build.image,
                )
                return
        except UNREACHABLE as failure:
            LOG.error('No conductor was reached for %s: %s', uuid, failure)
        self._fail(context, uuid, problem)

    def _fail(
        self, context: RequestContext, uuid: str, problem: errors.RequestError
    ) -> None:
        """Leave an instance in error, with a fault, and free what it holds."""
        if not self._leave(uuid, {}, vm_state='error', task_state=None):
            self._discard(context, uuid)
            return
        self.release(uuid)
        LOG.error('Instance %s is in error: %s', uuid, problem)
        self.servers.add_fault(uuid, fault_of(problem), self.name)
        self._compute.allocations.remove(context, uuid)

    def _leave(self, uuid: str, expected: Mapping[str, Any], **values: Any) -> bool:
        """Write that no host has the instance; False if it is not building any more."""
        building = {'vm_state': 'building', 'host': [None, self.name], **expected}
        nowhere = {'host': None, 'node': None, 'compute_id': None}
        return self.servers.update(
            uuid, building, **nowhere, launched_on=self.name, **values
        )

    def terminate(self, context: RequestContext, uuid: str) -> None:
        """Delete an instance; one that moved away meanwhile is deleted there."""
        servers, remove = self.servers, self._compute.allocations.remove
        instance = servers.instance(uuid)
        if instance is not None and instance.host not in (None, self.name):
            try:
                self._computes.terminate_instance(context, instance.host, instance)
            except UNREACHABLE as problem:
                LOG.warning('%s deletes no %s: %s', instance.host, uuid, problem)
            return
        servers.destroy(uuid)
        self.release(uuid)
        for move, _ in servers.moves(uuid):
            if servers.update_migration(
                move.uuid, (*UNDER_WAY, 'reverting'), status='error'
            ):
                remove(context, move.uuid)
        remove(context, uuid)
        LOG.info('Instance %s is deleted', uuid)

    # -- moves

    def take(self, context: RequestContext, move: IncomingMove) -> None:
        """Take an instance over and have its source let go, or leave it there."""
        migration = self.servers.begin_move(move.migration_uuid, self.name)
        if migration is None:
            LOG.warning('The move of %s to %s is over', move.uuid, self.name)
            return
        try:
            taken = self._take(move, migration)
        except errors.RequestError as problem:
            LOG.info('%s cannot take %s: %s', self.name, move.uuid, problem)
            self.release(migration.uuid)
            self._give_back(context, migration, problem)
            return
        instance = self.servers.instance(move.uuid)
        if not taken or instance is None:
            return
        source = migration.source_compute or ''
        row = migration._asdict()
        try:
            self._computes.confirm_resize(context, source, instance, row)
        except UNREACHABLE as problem:
            LOG.warning('%s frees nothing of %s: %s', source, migration, problem)

    def _take(self, move: IncomingMove, migration: Migration) -> bool:
        """Take an instance over; False if it is gone or elsewhere.

        Raises ResourcesUnavailable and errors.StoreFailed.
        """
        flavor = move.flavor
        self._refuse_by_rule(flavor, move.uuid)
        demand = Demand.of_request(move.request.replaced(flavor=flavor), move.limits)
        with self._lock:
            claim = self.tracker.claim(migration.uuid, demand)
        values = {
            **self._is_here(),
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
        if not self.servers.finish_move(migration, values):
            self.release(migration.uuid)
            LOG.warning('Instance %s is gone, or was moved already', move.uuid)
            return False
        with self._lock:
            self.tracker.rename(migration.uuid, move.uuid)
            self.tracker.mark(move.uuid, 'active')
        self.publish()
        LOG.info('Instance %s runs on %s now', move.uuid, self.name)
        return True

    def confirm(self, context: RequestContext, uuid: str, migration_uuid: str) -> None:
        """Free what a finished move holds on its source; may be done twice."""
        now = self.servers.migration(migration_uuid)
        if now is None or now.status != 'finished':
            return
        if now.dest_compute != self.name:
            self.release(uuid)
        if self._compute.allocations.remove(context, migration_uuid):
            self.servers.update_migration(
                migration_uuid, ['finished'], status='confirmed'
            )

    def _give_back(
        self, context: RequestContext, migration: Migration, problem: Exception
    ) -> None:
        """Give the source its allocation back, and write that the move failed."""
        uuid, servers = migration.instance_uuid, self.servers
        move = migration.uuid
        if not servers.update_migration(move, ['migrating'], status='reverting'):
            return
        try:
            self._compute.allocations.swap(context, move, uuid)
        except errors.AllocationUpdateFailed as failure:
            LOG.warning('%s keeps the allocation of its move: %s', uuid, failure)
        there = {'host': migration.source_compute}
        servers.update(uuid, there, vm_state='active', task_state=None)
        servers.add_fault(uuid, fault_of(problem), self.name)
        servers.update_migration(move, ['reverting'], status='error')
        LOG.warning('The move of %s failed: %s', uuid, problem)
