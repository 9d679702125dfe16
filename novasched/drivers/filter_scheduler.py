# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, weighers, and a claim for the best host."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from novasched import errors
from novasched.cluster.view import ClusterView
from novasched.drivers import Driver, Placed, Work
from novasched.drivers.claims import Claims
from novasched.drivers.selections import Picked, SelectionMaker
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates, Cell
from novasched.scheduler.consumption import consume
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import decide
from novasched.scheduler.trace import Decision

LOG = logging.getLogger(__name__)


class FilterScheduler(Driver):
    """Nova: scheduler/manager.py, _schedule and what it calls."""

    def select_destinations(self, work: Work) -> Placed:
        self.parts.view.refresh()
        cell = target_cell(self.parts.view, work.request)
        hosts = self.parts.view.hosts(by_provider(work.candidates), cell)
        job = _Job(self, work, hosts)
        if work.instance_uuids is None or work.candidates is None:
            job.place_unclaimed(work.instance_uuids)
            return job.answer()
        version = work.candidates.version
        with Claims(self.parts.placement, work.context, version) as claims:
            job.place(work.instance_uuids, claims)
            return job.answer()


class _Job:
    """One request on its way: the hosts left and what was picked so far."""

    def __init__(self, driver: FilterScheduler, work: Work, hosts: HostTable) -> None:
        self._parts = driver.parts
        self._work = work
        self._hosts = hosts
        self._request = work.request
        self._group_hosts = _group_hosts(work.request)
        self._picked: list[Picked] = []

    def place(self, instance_uuids: Sequence[str], claims: Claims) -> None:
        """Pick and claim a host per instance; stop at the first without one."""
        for index, uuid in enumerate(instance_uuids):
            self._start(uuid)
            ranked = self._decide(index).ranked
            picked = self._claim_first(ranked, claims)
            if picked is None:
                LOG.debug('Unable to successfully claim against any host.')
                break
            self._take(ranked, picked)

    def place_unclaimed(self, instance_uuids: Sequence[str] | None) -> None:
        """Pick the best host per instance; nothing is claimed for a rebuild, nor
        for callers that do not name the instances."""
        for index in range(self._work.count):
            if instance_uuids:
                self._start(instance_uuids[index])
            ranked = self._decide(index).ranked
            if not len(ranked):
                break
            self._take(ranked, Picked(ranked.state(0), None))

    def _start(self, uuid: str) -> None:
        self._request = self._work.request.for_instance(uuid, self._group_hosts)

    def _decide(self, index: int) -> Decision:
        parts = self._parts
        decision = decide(parts.profile, self._hosts, self._request, parts.rng, index)
        self._hosts = decision.ranked
        log_decision(decision)
        parts.on_decision(decision)
        return decision

    def _claim_first(self, ranked: HostTable, claims: Claims) -> Picked | None:
        """Claim the best host that placement grants; only its first candidate."""
        for host in ranked.states():
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
        return None

    def _take(self, ranked: HostTable, picked: Picked) -> None:
        LOG.debug('Selected host: %s', picked.host)
        self._picked.append(picked)
        self._hosts = consume(ranked, picked.host.row, self._request)
        if self._group_hosts is not None:
            self._group_hosts = [*self._group_hosts, picked.host.host]

    def answer(self) -> Placed:
        """Return the selections with alternates, or raise errors.NoValidHost."""
        required = self._work.count
        if len(self._picked) != required:
            LOG.debug(
                'There are %d hosts available but %d instances requested to build.',
                len(self._picked),
                required,
            )
            raise errors.NoValidHost('There are not enough hosts available.')
        alternates = self._parts.max_attempts - 1 if self._work.return_alternates else 0
        if len(self._picked) > 1 and alternates > 0:
            self._decide(len(self._picked) - 1)
        candidates = self._work.candidates
        maker = SelectionMaker(
            candidates.version if candidates else None,
            self._parts.default_availability_zone,
        )
        selections = maker.with_alternates(self._picked, self._hosts, alternates)
        return Placed(selections, self._request)


def _group_hosts(request: RequestSpec) -> list[str] | None:
    group = request.instance_group
    return None if group is None else list(group.hosts or ())


def by_provider(candidates: Candidates | None) -> dict[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order."""
    if candidates is None:
        return None
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates.requests:
        for uuid in candidate['allocations']:
            found.setdefault(uuid, []).append(candidate)
    return found


def target_cell(view: ClusterView, request: RequestSpec) -> Cell | None:
    """Return the cell that the request must stay in, or None."""
    destination = request.requested_destination
    if destination is None or destination.allow_cross_cell_move:
        return None
    cell = destination.cell if 'cell' in destination else None
    if cell is None:
        return None
    known = view.cells.get(cell.uuid)
    return known or Cell(
        cell.uuid, cell.name, cell.transport_url, cell.database_connection, True
    )


def log_decision(decision: Decision) -> None:
    """Write nova's lines: what operators look for when there is no host."""
    for note in decision.notes:
        LOG.info(note)
    if len(decision.ranked):
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug('Filtered %s', list(decision.ranked.states()))
        return
    funnel = decision.funnel()
    if decision.steps:
        LOG.info('Filter %s returned 0 hosts', decision.steps[-1].name)
    uuid = decision.request.instance_uuid if 'instance_uuid' in decision.request else ''
    LOG.info(
        'Filtering removed all hosts for the request with instance ID '
        "'%s'. Filter results: %s",
        uuid,
        funnel,
    )
