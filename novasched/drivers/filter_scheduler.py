# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, weighers, and a claim for the best host."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

from novasched import errors
from novasched.drivers import Driver, Parts, Placed, Work
from novasched.drivers.claims import Claims
from novasched.drivers.milestones import log_decision
from novasched.drivers.scope import by_provider, target_cell
from novasched.drivers.selections import Picked, SelectionMaker
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate
from novasched.scheduler.consumption import consume
from novasched.scheduler.fit.booking import book
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import decide
from novasched.scheduler.trace import Complaint

LOG = logging.getLogger(__name__)


class FilterScheduler(Driver):
    """Nova: scheduler/manager.py, _schedule and what it calls."""

    def select_destinations(self, work: Work) -> Placed:
        self.parts.view.refresh()
        cell = target_cell(self.parts.view, work.request)
        hosts = self.parts.view.hosts(by_provider(work.candidates), cell)
        placing = _Placing(self.parts, work, hosts)
        placing.pick_all()
        placing.check_complete()
        return placing.answer()


class _Placing:
    """One request on its way: the hosts left, the picks so far, and the request
    as it is for the next instance; the last one is on ``_nodes`` of its host.
    Chance has a seed of its own in each."""

    def __init__(self, parts: Parts, work: Work, hosts: HostTable) -> None:
        self._parts = parts
        self._work = work
        self._hosts = hosts
        # A caller may schedule one request object twice.
        self._request = work.request.replaced()
        self._picked: list[Picked] = []
        self._nodes: InstanceNUMATopology | None = None
        self._seed = parts.rng.getrandbits(64)
        self._rng = random.Random(self._seed)
        self._lap = parts.watch.of(work.context.request_id)
        self._told: set[Complaint] = set()
        LOG.debug('Seed of the decisions: %d', self._seed)

    def pick_all(self) -> None:
        """Pick a host per instance; stop at the first instance that has none."""
        uuids = self._work.instance_uuids
        claims = self._work.claims
        for index in range(self._work.required if claims is None else len(uuids or ())):
            if uuids:
                self._request = self._request.for_instance(uuids[index])
            self._decide(index)
            picked = self._best() if claims is None else self._first_claimed(claims)
            if picked is None:
                break
            self._take(picked)

    def _decide(self, index: int) -> None:
        """Leave the hosts that may take instance ``index``, the best one first."""
        parts = self._parts
        decision = decide(
            parts.profile, self._hosts, self._request, self._rng, index, self._lap
        )
        took_s = self._lap.took_s()
        decision = replace(decision, seed=self._seed, took_s=took_s)
        self._hosts = decision.ranked
        log_decision(decision, self._told)
        parts.on_decision(decision)

    def _best(self) -> Picked | None:
        return Picked(self._hosts.state(0), None) if len(self._hosts) else None

    def _first_claimed(self, claims: Claims) -> Picked | None:
        """Claim the best host that placement grants; only its first candidate."""
        for host in self._hosts.states():
            if not host.allocation_candidates:
                LOG.debug(
                    'The nova scheduler removed every allocation candidate'
                    'for host %s so this host was skipped.',
                    host,
                )
                continue
            candidate: Candidate = host.allocation_candidates[0]
            if claims.make(self._request, candidate):
                return Picked(host, candidate)
        if len(self._hosts):
            LOG.debug('Unable to successfully claim against any host.')
        return None

    def _take(self, picked: Picked) -> None:
        """Let the host have the instance, and the server group have the host."""
        LOG.debug('Selected host: %s', picked.host)
        self._picked.append(picked)
        self._request = with_providers(self._request, picked.candidate)
        row, fitting = picked.host._row, self._parts.profile.fitting
        self._hosts = consume(self._hosts, row, self._request)
        booked = book(self._hosts, row, self._request, fitting)
        self._hosts, self._nodes = booked.hosts, booked.topology
        if booked.problem:
            LOG.warning(
                'Selected host: %s failed to consume from instance. Error: %s',
                picked.host,
                booked.problem,
            )
        if fitting.as_nova and 'numa_topology' in self._request:
            self._request = self._request.replaced(numa_topology=booked.topology)
        self._request = self._request.with_group_on(picked.host.host)

    def check_complete(self) -> None:
        """Raise errors.NoValidHost unless every instance has a host."""
        if len(self._picked) != self._work.required:
            LOG.debug(
                'There are %d hosts available but %d instances requested to build.',
                len(self._picked),
                self._work.required,
            )
            raise errors.NoValidHost('There are not enough hosts available.')

    def answer(self) -> Placed:
        """Return the picks with their alternates."""
        work, parts = self._work, self._parts
        alternates = parts.max_attempts - 1 if work.return_alternates else 0
        if len(self._picked) > 1 and alternates:
            self._decide(len(self._picked) - 1)
        version = work.candidates.version if work.candidates else None
        maker = SelectionMaker(version, parts.default_availability_zone)
        selections = maker.with_alternates(self._picked, self._hosts, alternates)
        request = self._request
        if self._nodes is not None:
            request = request.replaced(numa_topology=self._nodes)
        return Placed(selections, request)


def with_providers(request: RequestSpec, candidate: Candidate | None) -> RequestSpec:
    """Write down for each requested group which providers the candidate gives it."""
    groups = request.requested_resources if 'requested_resources' in request else None
    if not groups or candidate is None:
        return request
    mappings = candidate.get('mappings', {})
    filled = [
        group.replaced(provider_uuids=mappings.get(group.requester_id, []))
        for group in groups
    ]
    return request.replaced(requested_resources=filled)
