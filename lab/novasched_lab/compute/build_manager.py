# SPDX-License-Identifier: Apache-2.0
"""Builds and deletes instances on simulated hosts.

Nova: compute/manager.py, _do_build_and_run_instance and terminate_instance.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import timeutils

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.compute.host import ComputeContext, FakeComputeHost
from novasched_lab.compute.resource_tracker import Demand, ResourcesUnavailable
from novasched_lab.failures import fault_of
from novasched_lab.rpc_api import UNREACHABLE
from novasched_lab.store.cell_servers import UNDER_WAY

LOG = logging.getLogger(__name__)

EVENT = 'compute__do_build_and_run_instance'
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

    @property
    def flavor_name(self) -> str:
        return self.request.flavor.name or ''


class BuildManager:
    """Builds and deletes the instances of the hosts of a process."""

    def __init__(self, compute: ComputeContext) -> None:
        self._compute = compute

    def run(self, context: RequestContext, host: FakeComputeHost, build: Build) -> None:
        """Build an instance, have another host do it, or leave it in error."""
        _BuildAttempt(self._compute, context, host, build).run()

    def terminate(
        self, context: RequestContext, host: FakeComputeHost, uuid: str
    ) -> None:
        """Delete an instance; one that moved away meanwhile is deleted there."""
        instance = host.servers.instance(uuid)
        if instance is not None and instance.host not in (None, host.name):
            try:
                host.computes.terminate_instance(context, instance.host, instance)
            except UNREACHABLE as problem:
                LOG.warning('%s deletes no %s: %s', instance.host, uuid, problem)
            return
        host.servers.destroy(uuid)
        host.release(uuid)
        for move, _ in host.servers.moves(uuid):
            if host.servers.update_migration(
                move.uuid, (*UNDER_WAY, 'reverting'), status='error'
            ):
                self._compute.allocations.remove(context, move.uuid)
        self._compute.allocations.remove(context, uuid)
        LOG.info('Instance %s is deleted', uuid)


class _BuildAttempt:
    """One build of an instance on one host."""

    def __init__(
        self,
        compute: ComputeContext,
        context: RequestContext,
        host: FakeComputeHost,
        build: Build,
    ) -> None:
        self._compute = compute
        self._context = context
        self._host = host
        self._servers = host.servers
        self._build = build
        self._uuid = build.uuid

    def run(self) -> None:
        try:
            self._run()
        except errors.RequestError as problem:
            with self._host.lock:
                self._host.tracker.failed_builds += 1
            if isinstance(problem, RESCHEDULED) and self._build.properties.get('retry'):
                self._reschedule(problem)
            else:
                self._fail(problem)

    def _run(self) -> None:
        host, uuid = self._host, self._uuid
        held = self._compute.allocations.held_by(self._context, uuid)
        if host.host.uuid not in held.allocations:
            raise ResourcesUnavailable('placement has no allocation for it here')
        if self._compute.rules.refuses(host.name, self._build.flavor_name, uuid):
            raise ResourcesUnavailable('the fleet has a rule that refuses it')
        if not self._claim():
            self._discard()
            return
        host.publish()
        if not self._servers.update(
            uuid,
            {'host': host.name, 'task_state': 'spawning'},
            vm_state='active',
            task_state=None,
            power_state=POWERED_ON,
            launched_at=timeutils.utcnow().replace(microsecond=0),
        ):
            LOG.info('Instance %s was deleted while it was built', uuid)
            return
        with host.lock:
            host.tracker.mark(uuid, 'active')
            host.tracker.failed_builds = 0
        host.publish()
        LOG.info('Instance %s runs on %s', uuid, host.name)
        host.note(uuid, EVENT)

    def _claim(self) -> bool:
        """Claim for the instance and write its host; False if it is not to be built."""
        host, uuid = self._host, self._uuid
        demand = Demand.of_request(self._build.request, self._build.limits)
        with host.lock:
            if uuid in host.tracker.claims:
                return False
            topology = host.tracker.claim(uuid, demand).topology
            fitted = {} if topology is None else {'numa_topology': topology}
            taken = self._servers.update(
                uuid,
                {
                    'host': None,
                    'vm_state': 'building',
                    'task_state': [None, 'scheduling'],
                },
                host=host.name,
                node=host.name,
                launched_on=host.name,
                compute_id=host.node_id,
                task_state='spawning',
                **fitted,
            )
            if not taken:
                host.tracker.release(uuid)
        return taken

    def _discard(self) -> None:
        """Free the claim of an instance that was deleted before it came here.

        One that is here keeps what it holds.
        """
        host, uuid = self._host, self._uuid
        now = self._servers.instance(uuid)
        if now is None or now.host != host.name:
            host.release(uuid)
        if now is None:
            self._compute.allocations.remove(self._context, uuid)
        elif now.task_state == 'deleting' and now.host is None:
            self._servers.destroy(uuid)
            self._compute.allocations.remove(self._context, uuid)
        else:
            LOG.warning('%s leaves instance %s to %s', host.name, uuid, now.host)

    def _reschedule(self, problem: errors.RequestError) -> None:
        """Have the conductor try the next host.

        What is claimed is freed first, as an alternate is claimed for the same
        consumer.
        """
        build, uuid = self._build, self._uuid
        LOG.info('%s cannot build %s: %s', self._host.name, uuid, problem)
        kept = self._leave([None, 'scheduling', 'spawning'], task_state='scheduling')
        instance = self._servers.instance(uuid)
        if not kept or instance is None:
            self._discard()
            return
        self._host.release(uuid)
        retry = {**build.properties['retry'], 'exc_reason': str(problem)}
        try:
            if self._compute.allocations.remove(self._context, uuid):
                self._compute.conductor.build_instances(
                    self._context,
                    instance,
                    {**build.properties, 'retry': retry},
                    build.request,
                    build.host_list,
                    build.image,
                )
                return
        except UNREACHABLE as failure:
            LOG.error('No conductor was reached for %s: %s', uuid, failure)
        self._fail(problem)

    def _fail(self, problem: errors.RequestError) -> None:
        """Leave an instance in error, with a fault, and free what it holds."""
        uuid = self._uuid
        if not self._leave((), vm_state='error', task_state=None):
            self._discard()
            return
        self._host.release(uuid)
        LOG.error('Instance %s is in error: %s', uuid, problem)
        self._servers.add_fault(uuid, fault_of(problem), self._host.name)
        self._host.note(uuid, EVENT, str(problem))
        self._compute.allocations.remove(self._context, uuid)

    def _leave(self, tasks: Sequence[str | None], **values: Any) -> bool:
        """Write that no host has the instance; False if it is not building any more.

        ``tasks`` are the task states that it may have, none: any.
        """
        expected: dict[str, Any] = {
            'vm_state': 'building',
            'host': [None, self._host.name],
        }
        if tasks:
            expected['task_state'] = list(tasks)
        return self._servers.update(
            self._uuid,
            expected,
            host=None,
            node=None,
            compute_id=None,
            launched_on=self._host.name,
            **values,
        )
