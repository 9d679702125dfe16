# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, weighers, and a claim for the best host."""

from __future__ import annotations

import functools
import itertools
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from novasched import errors
from novasched.claiming.claims import Claims
from novasched.claiming.group_check import GroupCheck, RecentMembers
from novasched.claiming.host_candidates import (
    KnownRoots,
    RemainingCapacity,
    by_provider,
    candidates_in_order,
    origin_of,
    with_providers,
)
from novasched.claiming.reservation import GroupLocks, Reservation
from novasched.claiming.retries import Again, Retry, Scope
from novasched.drivers import Driver, DriverContext, ScheduleRequest, ScheduleResult
from novasched.drivers.nova_log_lines import Logged, log_decision
from novasched.drivers.selections import (
    Picked,
    SelectionMaker,
    are_kept_apart,
    are_kept_together,
)
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import Candidate, ClaimRequest
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.fit.claim import book
from novasched.scheduler.hosts import HostTable, consume
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import decide
from novasched.scheduler.successive import decide_next
from novasched.scheduler.trace import Decision

LOG = logging.getLogger(__name__)

NO_HOST = Retry(Outcome.NO_HOST)
PICKED_MEANWHILE = Retry(Outcome.PICKED_MEANWHILE, again=Again.INSTANCE)

ClaimCandidate = Callable[[RequestSpec, Candidate, str], Retry | None]
"""Claims a candidate, with a compute node by uuid, for the instance of a request, or
counts it as claimed; returns why it has not."""
Pick = Callable[['_State', set[int]], Picked | Retry]
"""Picks one of the hosts of a state; the set gets the rows that are not asked again."""


class FilterScheduler(Driver):
    """Nova: scheduler/manager.py, _schedule and what it calls."""

    VERIFIES_HOSTS = True

    def __init__(self, parts: DriverContext, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(parts)
        self._roots = KnownRoots()
        self._locks = GroupLocks()
        self._recent = RecentMembers(clock)

    def select_destinations(self, work: ScheduleRequest) -> ScheduleResult:
        reservation = Reservation(self.parts.assumed, work, self.parts.profile)
        group = GroupCheck(
            work,
            self._recent,
            self.parts.view,
            self.parts.placement,
            self.parts.profile.filters,
            self.parts.enforce_groups,
        )
        if work.claims is not None:
            work.claims.verify_with(
                group, reservation, enforces_capacity=self.parts.enforce_capacity
            )
        with self._locks.of(group.lock_key, work.caller), reservation.picking():
            placing = _Placing(self.parts, work, self._roots, reservation, group)
            placed = placing.place()
            placing.check_complete(placed)
        return placing.answer(placed)


@dataclass(frozen=True)
class _State:
    """A request between two of its instances."""

    hosts: HostTable  # hosts left, less what the picks took from them
    offered: HostTable  # hosts that the first instance had
    request: RequestSpec  # of the next instance
    rng: random.Random  # of the same seed in each ``attempt``
    attempt: int
    picks: tuple[Picked, ...] = ()
    topology: InstanceNUMATopology | None = None  # of the last instance, on its host
    decision: Decision | None = None  # last one, if only its pick was taken since
    retry: Retry | None = None  # why an instance has no host


class _Placing:
    """Places the instances of one request, from one state to the next."""

    def __init__(
        self,
        parts: DriverContext,
        work: ScheduleRequest,
        roots: KnownRoots,
        reservation: Reservation,
        group: GroupCheck,
    ) -> None:
        self._parts = parts
        self._work = work
        self._budget = work.budget
        self._verifiers = work.claims.verifiers if work.claims is not None else ()
        self._roots = roots
        self._nodes = parts.view.node_uuids()
        self._reservation = reservation
        self._group = group
        self._cells_left_out = parts.view.unavailable_cells(
            work.request.target_cell_uuid
        )
        self._seed = parts.rng.getrandbits(64)
        self._lap = parts.watch.of(work.context.request_id)
        self._attempts = itertools.count(1)
        self._logged: Logged = set()
        LOG.debug('Seed of the decisions: %d', self._seed)

    def place(self) -> _State:
        """Return the state once each instance has a host, or there is none for one."""
        while True:
            self._budget.renew(Scope.SELECTION)
            placed = self._place()
            retry = self._verified(placed)
            if retry is None or retry.again is not Again.HOSTS:
                return replace(placed, retry=retry)
            LOG.debug('Selecting again: %s. %s', retry.why, retry.text)

    def _verified(self, placed: _State) -> Retry | None:
        """Verify the hosts of all instances; return why they are not to be answered."""
        if placed.retry is None:
            hosts = [picked.host for picked in placed.picks]
            found = (each.placed(placed.offered, hosts) for each in self._verifiers)
        elif placed.retry.why is Outcome.NO_HOST:
            found = (each.released() for each in self._verifiers)
        else:
            return placed.retry
        return next(filter(None, found), placed.retry)

    def _hosts(self) -> HostTable:
        """Return the hosts of the candidates, as they are known now, with lists and
        dicts of their own: plugins may write into them."""
        freshness, cell_uuid = self._work.freshness, self._work.request.target_cell_uuid
        freshness.use_cached()  # the lock of a group may have been long in coming
        roots = self._roots.uuids()
        offered = by_provider(self._work.candidates, self._nodes, roots)
        found = self._parts.view.hosts(offered, cell_uuid)
        freshness.seen, freshness.cell_uuid = found.snapshot, cell_uuid
        freshness.reads_aggregates = any(
            each.reads_aggregates for each in self._parts.profile.filters
        )
        return found

    def _place(self) -> _State:
        claims, uuids = self._work.claims, self._work.instance_uuids or ()
        if claims is None:
            return self._place_each(self._start(), _best)
        if not uuids:
            return replace(self._start(), retry=NO_HOST)
        if len(set(uuids)) == len(uuids) > 1:
            placed = self._place_together(claims, uuids)
            if placed is not None:
                return placed
        return self._place_each(
            self._start(), functools.partial(self._claim_best, claims)
        )

    def _start(self) -> _State:
        hosts = self._group.hosts(self._reservation.hosts(self._hosts))
        # A caller may schedule one request object twice.
        request = self._reservation.request(self._work.request.replaced())
        request = self._group.request(request)
        rng = random.Random(self._seed)
        state = _State(hosts, hosts, request, rng, next(self._attempts))
        return replace(state, retry=self._are_few(hosts))

    def _place_together(self, claims: Claims, uuids: Sequence[str]) -> _State | None:
        """Pick for several instances, then claim for all at once; None if refused.

        Where placement says of what it has too little, that is done once more. Nothing
        is claimed when one of them gets no host.
        """
        while self._budget.spend(Outcome.JOINT):
            pick = functools.partial(self._fit_best, claims.remaining.copy())
            state = self._place_each(self._start(), pick, log=False)
            if state.retry is not None:
                return state
            wanted = [
                ClaimRequest(uuid, picked.candidate, picked.host.uuid)
                for uuid, picked in zip(uuids, state.picks, strict=True)
                if picked.candidate is not None
            ]
            retry = claims.make_all(state.request, wanted)
            if retry is None:
                for picked in state.picks:
                    _log_selected(picked)
                return state
            if retry.again is not Again.CANDIDATE:
                return replace(state, retry=retry)
            LOG.debug(
                'What was selected for %d instances is void, as it could not be '
                'claimed together; selecting again.',
                len(state.picks),
            )
            if claims.remaining.fits_all(one.candidate for one in wanted):
                break
        return None

    def _place_each(self, state: _State, pick: Pick, log: bool = True) -> _State:
        """Pick a host per instance; stop at the first instance that has none."""
        uuids = self._work.instance_uuids
        for index in range(self._work.required):
            if state.retry is not None:
                break
            if index:
                self._work.check()
            if uuids:
                request = state.request.for_instance(uuids[index])
                state = replace(state, request=request)
            state, picked = self._decide_and_pick(state, index, pick)
            if isinstance(picked, Retry):
                return replace(state, retry=picked)
            state = self._consume(state, picked)
            if log:
                _log_selected(state.picks[-1])
        return state

    def _decide_and_pick(
        self, state: _State, index: int, pick: Pick
    ) -> tuple[_State, Picked | Retry]:
        """Decide and pick; once more each time another request was faster."""
        excluded_rows: set[int] = set()
        self._budget.renew(Scope.INSTANCE)
        while True:
            state = self._decide(state, index)
            if state.decision is not None:
                self._work.recorder.decided(state.decision, index)
            if not state.picks and (few := self._are_few(state.hosts)):
                return state, few
            picked = pick(state, excluded_rows)
            hosts = self._reservation.rebased(state.hosts)
            if hosts is None:
                return state, picked
            state = replace(state, hosts=hosts, decision=None)

    def _are_few(self, hosts: HostTable) -> Retry | None:
        """Return a Retry where there are too few hosts for the answer, its alternates
        included, and the cells or placement may show more."""
        work, freshness = self._work, self._work.freshness
        if work.claims is None:
            return None
        wanted, there = work.required, _in_cell_of_best(hosts)
        if work.return_alternates:
            wanted += self._parts.max_attempts - 1
        may_differ = work.required > 1 and there < len(hosts)  # cells of several picks
        is_few = there < wanted or (may_differ and work.return_alternates)
        if not is_few:
            return None
        if not freshness.is_current and freshness.refresh_if_stale():
            text = 'all cells were looked at, as there were few hosts'
            return self._budget.retry(Outcome.STALE_HOSTS, text)
        of_copy = work.candidates is not None and work.candidates.copy is not None
        if of_copy and work.copy_lags():
            text = 'the copy of placement does not show all hosts yet'
            return self._budget.retry(Outcome.COPY_LAGS, text)
        return None

    def _decide(self, state: _State, index: int) -> _State:
        """Leave the hosts that may take instance ``index``, the best one first."""
        parts, candidates = self._parts, self._work.candidates
        decision = replace(
            self._decided(state, index),
            seed=self._seed,
            took_s=self._lap.took_s(),
            **origin_of(candidates),
            cells_left_out=self._cells_left_out,
            attempt=state.attempt,
        )
        log_decision(decision, self._logged)
        parts.on_decision(decision)
        hosts = self._group.in_order(decision.ranked)
        return replace(state, hosts=hosts, decision=decision)

    def _decided(self, state: _State, index: int) -> Decision:
        profile, hosts, request = self._parts.profile, state.hosts, state.request
        if state.decision is None or not state.picks:
            return decide(profile, hosts, request, state.rng, index, self._lap)
        row = state.picks[-1].host._row
        return decide_next(
            profile, state.decision, hosts, row, request, state.rng, index, self._lap
        )

    def _consume(self, state: _State, picked: Picked) -> _State:
        """Let the host have the instance, and the server group have the host."""
        row, fitting = picked.host._row, self._parts.profile.fitting
        request = with_providers(state.request, picked.candidate)
        booked = book(consume(state.hosts, row, request), row, request, fitting)
        if fitting.as_nova and 'numa_topology' in request:
            request = request.replaced(numa_topology=booked.topology)
        host = picked.host.over(state.offered.snapshot)
        cells = [cell.id for cell in booked.topology.cells] if booked.topology else ()
        self._work.recorder.picked(host.host, cells)
        picked = replace(picked, host=host, problem=booked.problem)
        return replace(
            state,
            hosts=booked.hosts,
            request=request.with_group_on(host.host),
            picks=(*state.picks, picked),
            topology=booked.topology,
        )

    def _claim_best(
        self, claims: Claims, state: _State, excluded_rows: set[int]
    ) -> Picked | Retry:
        """Claim the best host that placement grants. Claims that it refused as it was
        busy are tried again, all of them twice at least."""
        self._budget.renew(Scope.PICK)
        claim = functools.partial(claims.make, ahead=self._ahead(state))
        last = 0
        while True:
            picked = self._first_granted(state, claims.remaining, claim, excluded_rows)
            busy = self._budget.spent(Outcome.BUSY)
            is_over = last > 0 and self._budget.is_spent(Outcome.BUSY)
            if picked != NO_HOST or is_over or busy == last:
                return picked
            last = busy
            excluded_rows.clear()

    def _ahead(self, state: _State) -> list[ClaimRequest]:
        """Return the likely alternates of the one instance that there is."""
        if self._work.required > 1 or not self._work.return_alternates:
            return []
        first = [*itertools.islice(state.hosts.states(), self._parts.max_attempts)]
        return [
            ClaimRequest('', host.allocation_candidates[0], host.uuid)
            for host in first[1:]
            if host.allocation_candidates and host.cell_uuid == first[0].cell_uuid
        ]

    def _fit_best(
        self, remaining: RemainingCapacity, state: _State, excluded_rows: set[int]
    ) -> Picked | Retry:
        """Take the best host that fits; nothing is claimed."""

        def take(_: RequestSpec, candidate: Candidate, node_uuid: str) -> None:
            remaining.take(candidate)

        return self._first_granted(state, remaining, take, excluded_rows)

    def _first_granted(
        self,
        state: _State,
        remaining: RemainingCapacity,
        claim: ClaimCandidate,
        excluded_rows: set[int],
    ) -> Picked | Retry:
        """Return the first that is granted of the first candidates of all hosts.

        Only when there is none the further candidates count, so that they get no
        host chosen where another one would do. A host that was refused for
        anything but too little left is excluded: it is not asked for again.
        """
        self._budget.renew(Scope.WALK)
        for host, candidate in candidates_in_order(state.hosts):
            if host._row in excluded_rows or not remaining.fits(candidate):
                continue
            wanted = ClaimRequest(state.request.instance_uuid, candidate, host.uuid)
            if not self._work.attempt.may_claim(wanted):
                continue
            is_further = candidate is not host.allocation_candidates[0]
            if is_further and not self._budget.spend(Outcome.FURTHER):
                break
            request = with_providers(state.request, candidate)
            if not self._reservation.reserve(host, request):
                return PICKED_MEANWHILE
            retry = claim(state.request, candidate, host.uuid)
            if retry is None:
                return Picked(host, candidate)
            self._reservation.release()
            if retry.again is not Again.CANDIDATE:
                return retry
            if remaining.fits(candidate):
                excluded_rows.add(host._row)
        if len(state.hosts):
            LOG.debug('Unable to successfully claim against any host.')
        return NO_HOST

    def check_complete(self, placed: _State) -> None:
        """Raise errors.NoValidHost unless every instance has a host."""
        if placed.retry is None:
            return
        LOG.debug(
            'There are %d hosts available but %d instances requested to build.',
            len(placed.picks),
            self._work.required,
        )
        raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)

    def answer(self, placed: _State) -> ScheduleResult:
        """Return the picks with their alternates."""
        work, parts = self._work, self._parts
        alternates = parts.max_attempts - 1 if work.return_alternates else 0
        if len(placed.picks) > 1 and alternates:
            placed = self._decide(placed, len(placed.picks) - 1)
        version = work.candidates.version if work.candidates else None
        maker = SelectionMaker(version, parts.default_availability_zone)
        if work.claims:
            fits = work.claims.remaining.fits
            verify = functools.partial(self._alternates_offered, placed, work.claims)
            maker = replace(maker, fits=fits, verify=verify)
        request = placed.request
        own = parts.own_alternates and are_kept_apart(request)
        selections = maker.with_alternates(placed.picks, placed.hosts, alternates, own)
        if (
            self._may_have_more(request, selections, alternates)
            and work.freshness.refresh_if_stale()
        ):
            hosts = self._others(placed)
            selections = maker.with_alternates(
                placed.picks, hosts, alternates, own, taken=()
            )
        if placed.topology is not None:
            request = request.replaced(numa_topology=placed.topology)
        return ScheduleResult(selections, request)

    def _alternates_offered(
        self, placed: _State, claims: Claims, picks: Sequence[ClaimRequest]
    ) -> Sequence[bool]:
        found = claims.alternates_offered(picks)
        if isinstance(found, Retry):
            self.check_complete(replace(placed, retry=found))
            return []
        return found

    def _may_have_more(
        self, request: RequestSpec, found: Sequence[Sequence[Selection]], wanted: int
    ) -> bool:
        """Whether a look at all cells may show more alternates; with affinity there are
        none beside the host of the group."""
        work = self._work
        has_few = any(len(each) <= wanted for each in found)
        may_be_old = work.claims is not None and not work.freshness.is_current
        is_bound = are_kept_together(request)
        return bool(wanted) and has_few and may_be_old and not is_bound

    def _others(self, placed: _State) -> HostTable:
        """Return the current hosts that are not picked, the best one first.

        All filters run again, even filters that run once for a request: the hosts are
        new.
        """
        if self._work.claims is not None:
            self._work.claims.look_again()
        hosts = self._group.with_seen(self._reservation.others(self._hosts))
        picked = {picked.host.uuid for picked in placed.picks}
        others = [uuid not in picked for uuid in hosts.uuid.tolist()]
        state = replace(placed, hosts=hosts[np.array(others, bool)], decision=None)
        return self._decide(state, 0).hosts


def _in_cell_of_best(hosts: HostTable) -> int:
    """Return how many of the hosts are in the cell of the first one."""
    if not len(hosts):
        return 0
    codes = hosts.cell_uuid.codes
    return int(np.count_nonzero(codes == codes[0]))


def _best(state: _State, _: set[int]) -> Picked | Retry:
    return Picked(state.hosts.state(0), None) if len(state.hosts) else NO_HOST


def _log_selected(picked: Picked) -> None:
    LOG.debug('Selected host: %s', picked.host)
    if picked.problem:
        LOG.warning(
            'Selected host: %s failed to consume from instance. Error: %s',
            picked.host,
            picked.problem,
        )
