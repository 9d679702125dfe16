# SPDX-License-Identifier: Apache-2.0
"""Building an instance: claimed, spawned, told of; or handed back to the conductor.

A process that is killed leaves, wherever it was, a row that audit.py understands.
Nova: compute/manager.py, _do_build_and_run_instance.
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
from novasched_lab.compute import policy, rules
from novasched_lab.compute.book import ResourcesUnavailable
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.station import SILENCE, Parts, Station, tell_of
from novasched_lab.failures import fault_of

LOG = logging.getLogger(__name__)

EVENT = 'compute__do_build_and_run_instance'
POWERED_ON = 1


class BuildFailed(errors.RequestError):
    """An instance could not be built here; another host may do better."""


class BuildAborted(errors.RequestError):
    """An instance cannot be built anywhere. Nova: BuildAbortException."""


HANDED_BACK = (BuildFailed, ResourcesUnavailable, errors.AllocationUpdateFailed)


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


class Builds:
    """Builds instances on the hosts of a process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def run(self, context: RequestContext, station: Station, build: Build) -> None:
        """Build an instance, have another host do it, or say why none can."""
        outcome = self._parts.rules.outcome(station.name, build.flavor_name, build.uuid)
        if outcome == rules.LOSE:
            LOG.warning('%s forgets instance %s', station.name, build.uuid)
            return
        with station.working_on(build.uuid):
            try:
                self._build(context, station, build, outcome)
            except policy.PolicyViolated as problem:
                self._hand_back(context, station, build, problem)
            except HANDED_BACK as problem:
                self._count_failure(station)
                self._hand_back(context, station, build, problem)
            except errors.RequestError as problem:
                self._count_failure(station)
                self.give_up(context, station, build.uuid, problem)

    def _build(
        self,
        context: RequestContext,
        station: Station,
        build: Build,
        outcome: str | None,
    ) -> None:
        self._check_allocation(context, station, build.uuid)
        if outcome == rules.REFUSE:
            raise ResourcesUnavailable('the fleet has a rule that refuses it')
        if not self._claim(station, build):
            self._let_go(context, station, build.uuid)
            return
        station.publish()
        if outcome == rules.FAIL:
            raise BuildFailed('The fleet has a rule that fails it.')
        if outcome == rules.ABORT:
            raise BuildAborted(
                f'Build of instance {build.uuid} aborted: the fleet has a rule for it.'
            )
        if not station.servers.update(
            build.uuid,
            {'host': station.name, 'task_state': 'spawning'},
            vm_state='active',
            task_state=None,
            power_state=POWERED_ON,
            launched_at=timeutils.utcnow().replace(microsecond=0),
        ):
            LOG.info('Instance %s was deleted while it was built', build.uuid)
            return
        with station.lock:
            station.book.mark(build.uuid, 'active')
            station.book.failed_builds = 0
        station.publish()
        LOG.info('Instance %s runs on %s', build.uuid, station.name)
        station.note(build.uuid, EVENT)
        self._announce(context, station, build.uuid)

    def _announce(self, context: RequestContext, station: Station, uuid: str) -> None:
        """Tell schedulers of an instance, if they are told anything."""
        if self._parts.news is None:
            return
        try:
            built = station.servers.instance(uuid)
        except errors.StoreFailed as problem:
            LOG.warning('Schedulers were not told of %s: %s', uuid, problem)
            return
        if built is not None:
            tell_of(self._parts, context, station.name, built)

    def _check_allocation(
        self, context: RequestContext, station: Station, uuid: str
    ) -> None:
        """Build nothing for which placement keeps no room here."""
        held = self._parts.allocations.held_by(context, uuid)
        if not station.provider_uuids.intersection(held.allocations):
            raise ResourcesUnavailable('placement has no allocation for it here')

    def _claim(self, station: Station, build: Build) -> bool:
        """Take the instance in; False if it is not to be built any more."""
        request = build.request
        demand = Demand.of_request(request, build.limits)
        with station.lock:
            if build.uuid in station.book.held:
                return False
            held = station.book.claim(build.uuid, demand)
            if self._parts.checks_policy:
                policy.check(station.servers, station.name, build.uuid, request)
            found = {} if held.topology is None else {'numa_topology': held.topology}
            taken = station.servers.update(
                build.uuid,
                {
                    'host': None,
                    'vm_state': 'building',
                    'task_state': [None, 'scheduling'],
                },
                host=station.name,
                node=station.name,
                launched_on=station.name,
                compute_id=station.node_id,
                task_state='spawning',
                **found,
            )
            if not taken:
                station.book.release(build.uuid)
        return taken

    def _let_go(self, context: RequestContext, station: Station, uuid: str) -> None:
        """Free the room of an instance that was deleted before it came here.

        One that is here keeps what it holds.
        """
        now = station.servers.instance(uuid)
        if now is None or now.host != station.name:
            station.release(uuid)
        if now is None:
            self._parts.allocations.remove(context, uuid)
        elif now.task_state == 'deleting' and now.host is None:
            station.servers.destroy(uuid)
            self._parts.allocations.remove(context, uuid)
        else:
            LOG.warning(
                'Instance %s is %s on %s already; %s leaves it',
                uuid,
                now.vm_state,
                now.host,
                station.name,
            )

    def _count_failure(self, station: Station) -> None:
        if self._parts.counts_failures:
            with station.lock:
                station.book.failed_builds += 1

    def _hand_back(
        self,
        context: RequestContext,
        station: Station,
        build: Build,
        problem: errors.RequestError,
    ) -> None:
        """Have the conductor try the next host, if it is to try any.

        What is claimed is taken back first, as an alternate is claimed for the same
        consumer.
        """
        LOG.info('%s cannot build %s: %s', station.name, build.uuid, problem)
        retry = build.properties.get('retry')
        if not retry:
            self.give_up(context, station, build.uuid, problem)
            return
        mine = {'vm_state': 'building', 'host': [None, station.name]}
        kept = station.servers.update(
            build.uuid,
            {**mine, 'task_state': [None, 'scheduling', 'spawning']},
            host=None,
            node=None,
            compute_id=None,
            launched_on=station.name,
            task_state='scheduling',
        )
        if not kept:
            self._let_go(context, station, build.uuid)
            return
        station.release(build.uuid)
        if not self._parts.allocations.remove(context, build.uuid):
            self.give_up(context, station, build.uuid, problem)
            return
        properties = dict(build.properties)
        properties['retry'] = {**retry, 'exc_reason': str(problem)}
        self._ask_conductor(context, station, build, properties, problem)

    def _ask_conductor(
        self,
        context: RequestContext,
        station: Station,
        build: Build,
        properties: Mapping[str, Any],
        problem: errors.RequestError,
    ) -> None:
        instance = station.servers.instance(build.uuid)
        if instance is None:
            return
        try:
            self._parts.conductor.build_instances(
                context,
                instance,
                properties,
                build.request,
                build.host_list,
                build.image,
            )
        except SILENCE as silence:
            LOG.error('No conductor was reached for %s: %s', build.uuid, silence)
            self.give_up(context, station, build.uuid, problem)

    def give_up(
        self,
        context: RequestContext,
        station: Station,
        uuid: str,
        problem: errors.RequestError,
    ) -> None:
        """Leave an instance in error, with a fault, and free what it holds."""
        changed = station.servers.update(
            uuid,
            {'vm_state': 'building', 'host': [None, station.name]},
            vm_state='error',
            task_state=None,
            host=None,
            node=None,
            compute_id=None,
            launched_on=station.name,
        )
        if not changed:
            self._let_go(context, station, uuid)
            return
        station.release(uuid)
        LOG.error('Instance %s is in error: %s', uuid, problem)
        station.servers.add_fault(uuid, fault_of(problem), station.name)
        station.note(uuid, EVENT, str(problem))
        self._parts.allocations.remove(context, uuid)
