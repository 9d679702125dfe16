# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, weighers, and a claim for the best host."""

from __future__ import annotations

import functools
import itertools
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from novasched import errors
from novasched.claiming.group_check import GroupCheck, RecentMembers
from novasched.claiming.request import Again, Retry, Scope
from novasched.claiming.reservation import GroupLocks, Reservation, SeenPicks
from novasched.claiming.verification import RemainingCapacity
from novasched.drivers import (
    ClaimedRequest,
    Driver,
    DriverContext,
    ScheduleRequest,
    ScheduleResult,
)
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
from novasched.ports import ALL_HOSTS, Candidate, Candidates, ClaimRequest
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.fit.claim import book
from novasched.scheduler.hosts import HostState, HostTable, consume
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
Pick = Callable[['PlacementState', set[int]], Picked | Retry]
"""Picks one of the hosts of a state; the set gets the rows that are not asked again."""
Selections = list[list[Selection]]
"""Per instance its host, then the alternates."""


class FilterScheduler(Driver):
    """Nova: scheduler/manager.py, _schedule and what it calls."""

    VERIFIES_HOSTS = True

    def __init__(self, context: DriverContext, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(context)
        self._locks = GroupLocks()
        self._recent = RecentMembers(clock)

    def select_destinations(self, request: ScheduleRequest) -> ScheduleResult:
        context = self.context
        if not isinstance(request, ClaimedRequest):
            seen = SeenPicks(context.assumed, request)
            unclaimed = RequestPlacement(context, request, seen)
            return unclaimed.answer(unclaimed.place())
        reservation = Reservation(context.assumed, request, context.profile)
        group = GroupCheck(
            request,
            self._recent,
            context.view,
            context.placement,
            context.profile.filters,
            context.enforce_groups,
        )
        request.claims.verify_with(
            group, reservation, enforces_capacity=context.enforce_capacity
        )
        with self._locks.of(group.lock_key, request.caller), reservation.picking():
            claimed = ClaimedPlacement(context, request, reservation, group)
            placed = claimed.place()
        return claimed.answer(placed)


@dataclass(frozen=True)
class PlacementState:
    """A request between two of its instances."""

    hosts: HostTable  # hosts left, less what the picks took from them
    offered: HostTable  # hosts that the first instance had
    spec: RequestSpec  # of the next instance
    rng: random.Random  # of the same seed in each ``attempt``
    attempt: int
    picks: tuple[Picked, ...] = ()
    topology: InstanceNUMATopology | None = None  # of the last instance, on its host
    decision: Decision | None = None  # last one, if only its pick was taken since
    retry: Retry | None = None  # why an instance has no host


class RequestPlacement:
    """Places the instances of one request, from one state to the next; nothing is
    claimed."""

    def __init__(
        self,
        context: DriverContext,
        request: ScheduleRequest,
        seen: SeenPicks,
    ) -> None:
        self._context = context
        self._request = request
        self._seen = seen
        self._nodes = context.view.node_uuids()
        self._cells_left_out = context.view.unavailable_cells(
            request.spec.target_cell_uuid
        )
        self._seed = context.rng.getrandbits(64)
        self._lap = context.watch.of(request.context.request_id)
        self._attempts = itertools.count(1)
        self._logged: Logged = set()
        LOG.debug('Seed of the decisions: %d', self._seed)

    def place(self) -> PlacementState:
        """Return the state in which each instance has a host. Raises
        errors.NoValidHost."""
        placed = self._place_each(self._start(), _best)
        self._check_complete(placed)
        return placed

    def _check_complete(self, placed: PlacementState) -> None:
        """Raise errors.NoValidHost unless every instance has a host."""
        if placed.retry is None:
            return
        if placed.retry.why is Outcome.NO_HOST:
            LOG.debug(
                'There are %d hosts available but %d instances requested to build.',
                len(placed.picks),
                self._request.required,
            )
        raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS) from placed.retry.cause

    def _hosts(self) -> HostTable:
        """Return the hosts of the candidates, as they are known now, with lists and
        dicts of their own: plugins may write into them."""
        freshness = self._request.freshness
        cell_uuid = self._request.spec.target_cell_uuid
        freshness.use_cached()  # the lock of a group may have been long in coming
        roots = self._context.roots.uuids()
        offered = self._request.candidates.by_provider(self._nodes, roots)
        spec = self._request.spec
        moved_uuid = spec.if_set('instance_uuid') if spec.is_move else None
        hosts = self._context.view.hosts(offered, cell_uuid, moved_uuid)
        freshness.seen, freshness.cell_uuid = hosts.snapshot, cell_uuid
        filters = self._context.profile.filters
        freshness.reads_aggregates = any(each.reads_aggregates for each in filters)
        return hosts

    def _start(self) -> PlacementState:
        hosts, spec = self._offered(), self._spec()
        rng = random.Random(self._seed)
        return PlacementState(hosts, hosts, spec, rng, next(self._attempts))

    def _offered(self) -> HostTable:
        """Return the hosts, less what other requests picked."""
        return self._seen.hosts(self._hosts)

    def _spec(self) -> RequestSpec:
        """Return a copy, as a caller may schedule one request object twice; its group
        has the members that were seen."""
        return self._seen.request(self._request.spec.replaced())

    def _place_each(
        self, state: PlacementState, pick: Pick, log: bool = True
    ) -> PlacementState:
        """Pick a host per instance; stop at the first instance that has none."""
        uuids = self._request.instance_uuids
        for index in range(self._request.required):
            if state.retry is not None:
                break
            if index:
                self._request.check()
            if uuids:
                state = replace(state, spec=state.spec.for_instance(uuids[index]))
            state, picked = self._decide_and_pick(state, index, pick)
            if isinstance(picked, Retry):
                return replace(state, retry=picked)
            state = self._consume(state, picked)
            if log:
                _log_selected(state.picks[-1])
        return state

    def _decide_and_pick(
        self, state: PlacementState, index: int, pick: Pick
    ) -> tuple[PlacementState, Picked | Retry]:
        state = self._decide(state, index, is_recorded=True)
        return state, pick(state, set())

    def _decide(
        self, state: PlacementState, index: int, is_recorded: bool = False
    ) -> PlacementState:
        """Leave the hosts that may take instance ``index``, the best one first."""
        decision = replace(
            self._decided(state, index),
            seed=self._seed,
            took_s=self._lap.took_s(),
            **_origin_of(self._request.candidates),
            cells_left_out=self._cells_left_out,
            attempt=state.attempt,
        )
        log_decision(decision, self._logged)
        self._request.recorder.decided(decision, index if is_recorded else None)
        return replace(state, hosts=decision.ranked, decision=decision)

    def _decided(self, state: PlacementState, index: int) -> Decision:
        profile, hosts, spec = self._context.profile, state.hosts, state.spec
        if state.decision is None or not state.picks:
            return decide(profile, hosts, spec, state.rng, index, self._lap)
        row = state.picks[-1].host._row
        return decide_next(
            profile, state.decision, hosts, row, spec, state.rng, index, self._lap
        )

    def _consume(self, state: PlacementState, picked: Picked) -> PlacementState:
        """Let the host have the instance, and the server group have the host."""
        row, fitting = picked.host._row, self._context.profile.fitting
        spec = state.spec.with_providers(picked.candidate)
        booked = book(consume(state.hosts, row, spec), row, spec, fitting)
        if fitting.as_nova and 'numa_topology' in spec:
            spec = spec.replaced(numa_topology=booked.topology)
        host = picked.host.over(state.offered.snapshot)
        cells = [cell.id for cell in booked.topology.cells] if booked.topology else ()
        self._request.recorder.picked(host.host, cells)
        picked = replace(picked, host=host, problem=booked.problem)
        return replace(
            state,
            hosts=booked.hosts,
            spec=spec.with_group_on(host.host),
            picks=(*state.picks, picked),
            topology=booked.topology,
        )

    def answer(self, placed: PlacementState) -> ScheduleResult:
        """Return the picks with their alternates."""
        count = 0
        if self._request.return_alternates:
            count = self._context.max_attempts - 1
        if len(placed.picks) > 1 and count:
            placed = self._decide(placed, len(placed.picks) - 1)
        version, spec = self._request.candidates.version or None, placed.spec
        own = self._context.own_alternates and are_kept_apart(spec)
        zone = self._context.default_availability_zone
        selections = self._selections(placed, SelectionMaker(version, zone), count, own)
        if placed.topology is not None:
            spec = spec.replaced(numa_topology=placed.topology)
        return ScheduleResult(selections, spec)

    def _selections(
        self, placed: PlacementState, maker: SelectionMaker, count: int, own: bool
    ) -> Selections:
        """Return the hosts with up to ``count`` alternates each."""
        return maker.with_alternates(placed.picks, placed.hosts, count, own)


class ClaimedPlacement(RequestPlacement):
    """Places the instances of one request, and claims and verifies their hosts."""

    def __init__(
        self,
        context: DriverContext,
        request: ClaimedRequest,
        reservation: Reservation,
        group: GroupCheck,
    ) -> None:
        super().__init__(context, request, reservation)
        self._claims = request.claims
        self._verifiers = request.claims.verification.verifiers
        self._budget = request.budget
        self._reservation = reservation
        self._group = group

    def place(self) -> PlacementState:
        while True:
            self._budget.renew(Scope.SELECTION)
            placed = self._place()
            retry = self._verified(placed)
            if retry is None or retry.again is not Again.HOSTS:
                placed = replace(placed, retry=retry)
                self._check_complete(placed)
                return placed
            self._budget.decide_again(retry.why, retry.text)

    def _verified(self, placed: PlacementState) -> Retry | None:
        """Verify the hosts of all instances; return why they are not to be answered."""
        if placed.retry is None:
            hosts = [picked.host for picked in placed.picks]
            retries = (each.placed(placed.offered, hosts) for each in self._verifiers)
        elif placed.retry.why is Outcome.NO_HOST:
            retries = (each.released() for each in self._verifiers)
        else:
            return placed.retry
        return next(filter(None, retries), placed.retry)

    def _offered(self) -> HostTable:
        return self._group.hosts(super()._offered())

    def _spec(self) -> RequestSpec:
        return self._group.request(super()._spec())

    def _start(self) -> PlacementState:
        state = super()._start()
        return replace(state, retry=self._too_few(state.hosts))

    def _place(self) -> PlacementState:
        uuids = self._request.instance_uuids
        if not uuids:
            return replace(self._start(), retry=NO_HOST)
        if len(set(uuids)) == len(uuids) > 1:
            placed = self._place_together(uuids)
            if placed is not None:
                return placed
        return self._place_each(self._start(), self._claim_best)

    def _place_together(self, uuids: Sequence[str]) -> PlacementState | None:
        """Pick for several instances, then claim for all at once; None if refused.

        Where placement says of what it has too little, that is done once more. Nothing
        is claimed when one of them gets no host.
        """
        remaining = self._claims.remaining
        while self._budget.spend(Outcome.JOINT):
            pick = functools.partial(self._fit_best, remaining.copy())
            state = self._place_each(self._start(), pick, log=False)
            if state.retry is not None:
                return state
            wanted = [
                ClaimRequest(uuid, picked.candidate, picked.host.uuid)
                for uuid, picked in zip(uuids, state.picks, strict=True)
                if picked.candidate is not None
            ]
            retry = self._claims.make_all(state.spec, wanted)
            if retry is None:
                for picked in state.picks:
                    _log_selected(picked)
                return state
            if retry.again is not Again.CANDIDATE:
                return replace(state, retry=retry)
            self._budget.decide_again(retry.why, retry.text)
            if remaining.fits_all(claim.candidate for claim in wanted):
                break
        return None

    def _decide_and_pick(
        self, state: PlacementState, index: int, pick: Pick
    ) -> tuple[PlacementState, Picked | Retry]:
        """Decide and pick; once more each time another request was faster."""
        excluded_rows: set[int] = set()
        self._budget.renew(Scope.INSTANCE)
        while True:
            state = self._decide(state, index, is_recorded=True)
            if not state.picks and (few := self._too_few(state.hosts)):
                return state, few
            picked = pick(state, excluded_rows)
            hosts = self._reservation.rebased(state.hosts)
            if hosts is None:
                return state, picked
            self._budget.decide_again(Outcome.PICKED_MEANWHILE)
            state = replace(state, hosts=hosts, decision=None)

    def _decide(
        self, state: PlacementState, index: int, is_recorded: bool = False
    ) -> PlacementState:
        state = super()._decide(state, index, is_recorded)
        return replace(state, hosts=self._group.in_order(state.hosts))

    def _too_few(self, hosts: HostTable) -> Retry | None:
        """Return a Retry where there are too few hosts for the answer, its alternates
        included, and the cells or placement may show more."""
        request = self._request
        if not self._are_few(hosts):
            return None
        if not request.freshness.is_current and request.freshness.refresh_if_stale():
            text = 'all cells were looked at, as there were few hosts'
            return self._budget.retry(Outcome.STALE_HOSTS, text)
        if request.candidates.copy is not None and request.copy_lags():
            text = 'the copy of placement does not show all hosts yet'
            return self._budget.retry(Outcome.COPY_LAGS, text)
        return None

    def _are_few(self, hosts: HostTable) -> bool:
        required, there = self._request.required, _in_cell_of_best(hosts)
        if not self._request.return_alternates:
            return there < required
        may_differ = required > 1 and there < len(hosts)  # cells of several picks
        return may_differ or there < required + self._context.max_attempts - 1

    def _claim_best(
        self, state: PlacementState, excluded_rows: set[int]
    ) -> Picked | Retry:
        """Claim the best host that placement grants. Claims that it refused as it was
        busy are tried again, all of them twice at least."""
        self._budget.renew(Scope.PICK)
        remaining = self._claims.remaining
        claim = functools.partial(self._claims.make, ahead=self._ahead(state))
        last = 0
        while True:
            picked = self._first_granted(state, remaining, claim, excluded_rows)
            busy = self._budget.spent(Outcome.BUSY)
            is_over = last > 0 and self._budget.is_spent(Outcome.BUSY)
            if picked != NO_HOST or is_over or busy == last:
                return picked
            last = busy
            self._budget.decide_again(Outcome.BUSY)
            excluded_rows.clear()

    def _ahead(self, state: PlacementState) -> list[ClaimRequest]:
        """Return the likely alternates of the one instance that there is."""
        if self._request.required > 1 or not self._request.return_alternates:
            return []
        best = [*itertools.islice(state.hosts.states(), self._context.max_attempts)]
        return [
            ClaimRequest('', host.allocation_candidates[0], host.uuid)
            for host in best[1:]
            if host.allocation_candidates and host.cell_uuid == best[0].cell_uuid
        ]

    def _fit_best(
        self,
        remaining: RemainingCapacity,
        state: PlacementState,
        excluded_rows: set[int],
    ) -> Picked | Retry:
        """Take the best host that fits; nothing is claimed."""

        def take(_: RequestSpec, candidate: Candidate, node_uuid: str) -> None:
            remaining.take(candidate)

        return self._first_granted(state, remaining, take, excluded_rows)

    def _first_granted(
        self,
        state: PlacementState,
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
        retry = None
        for host, candidate in self._claimable(state, remaining, excluded_rows):
            if not self._reservation.reserve(
                host, state.spec.with_providers(candidate)
            ):
                return PICKED_MEANWHILE
            if retry is not None:
                self._budget.decide_again(retry.why, retry.text)
            retry = claim(state.spec, candidate, host.uuid)
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

    def _claimable(
        self,
        state: PlacementState,
        remaining: RemainingCapacity,
        excluded_rows: set[int],
    ) -> Iterator[tuple[HostState, Candidate]]:
        """Yield the candidates that may be claimed, as far as the budget goes."""
        for host, candidate in candidates_in_order(state.hosts):
            if host._row in excluded_rows or not remaining.fits(candidate):
                continue
            pick = ClaimRequest(state.spec.instance_uuid, candidate, host.uuid)
            if not self._request.attempt.may_claim(pick):
                continue
            is_further = candidate is not host.allocation_candidates[0]
            if is_further and not self._budget.spend(Outcome.FURTHER):
                return
            yield host, candidate

    def _selections(
        self, placed: PlacementState, maker: SelectionMaker, count: int, own: bool
    ) -> Selections:
        verify = functools.partial(self._alternates_offered, placed)
        maker = replace(maker, fits=self._claims.remaining.fits, verify=verify)
        selections = super()._selections(placed, maker, count, own)
        if self._may_have_more(placed.spec, selections, count):
            hosts = self._others(placed)
            return maker.with_alternates(placed.picks, hosts, count, own, taken=())
        return selections

    def _alternates_offered(
        self, placed: PlacementState, picks: Sequence[ClaimRequest]
    ) -> Sequence[bool]:
        offered = self._claims.verification.alternates_offered(picks)
        if isinstance(offered, Retry):
            self._check_complete(replace(placed, retry=offered))
            return []
        return offered

    def _may_have_more(
        self, spec: RequestSpec, selections: Selections, count: int
    ) -> bool:
        """Look at all cells if they may show more alternates; with affinity there are
        none beside the host of the group. Return whether hosts may be others now."""
        has_few = any(len(host_and_others) <= count for host_and_others in selections)
        if not count or not has_few or are_kept_together(spec):
            return False
        freshness = self._request.freshness
        return not freshness.is_current and freshness.refresh_if_stale()

    def _others(self, placed: PlacementState) -> HostTable:
        """Return the current hosts that are not picked, the best one first.

        All filters run again, even filters that run once for a request: the hosts are
        new.
        """
        self._claims.verification.look_again()
        hosts = self._group.with_seen(self._reservation.others(self._hosts))
        picked = {picked.host.uuid for picked in placed.picks}
        others = [uuid not in picked for uuid in hosts.uuid.tolist()]
        state = replace(placed, hosts=hosts[np.array(others, bool)], decision=None)
        return self._decide(state, 0).hosts


def _origin_of(candidates: Candidates) -> dict[str, Any]:
    """Return where the hosts of a decision come from."""
    if candidates is ALL_HOSTS:
        return {}
    return {
        'cut': candidates.cut,
        'further': candidates.further,
        'from_copy': candidates.copy is not None,
        'fallback': candidates.fallback,
    }


def candidates_in_order(hosts: HostTable) -> Iterator[tuple[HostState, Candidate]]:
    """Yield the first candidates of the hosts, the best first, then all others."""
    several = []
    for host in hosts.states():
        if not host.allocation_candidates:
            LOG.debug(
                'The nova scheduler removed every allocation candidate'
                'for host %s so this host was skipped.',
                host,
            )
            continue
        if len(host.allocation_candidates) > 1:
            several.append(host)
        yield host, host.allocation_candidates[0]
    for host in several:
        for candidate in host.allocation_candidates[1:]:
            yield host, candidate


def _in_cell_of_best(hosts: HostTable) -> int:
    """Return how many of the hosts are in the cell of the first one."""
    if not len(hosts):
        return 0
    codes = hosts.cell_uuid.codes
    return int(np.count_nonzero(codes == codes[0]))


def _best(state: PlacementState, _: set[int]) -> Picked | Retry:
    return Picked(state.hosts.state(0), None) if len(state.hosts) else NO_HOST


def _log_selected(picked: Picked) -> None:
    LOG.debug('Selected host: %s', picked.host)
    if picked.problem:
        LOG.warning(
            'Selected host: %s failed to consume from instance. Error: %s',
            picked.host,
            picked.problem,
        )
