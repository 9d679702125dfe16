# SPDX-License-Identifier: Apache-2.0
"""The default driver: filters, weighers, and a claim for the best host."""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from novasched import errors
from novasched.drivers import Driver, DriverContext, ScheduleRequest, ScheduleResult
from novasched.drivers.candidate_order import offers, with_providers
from novasched.drivers.claims import Claims
from novasched.drivers.decision_log import Told, log_decision
from novasched.drivers.remaining_capacity import RemainingCapacity
from novasched.drivers.reservation import GroupTurns, Reservation
from novasched.drivers.selections import Picked, SelectionMaker, are_kept_apart
from novasched.drivers.target_cell import (
    KnownRoots,
    by_provider,
    cells_left_out,
    target_cell,
)
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, ClaimRequest
from novasched.scheduler.consumption import consume
from novasched.scheduler.fit.claim import book
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.pipeline import decide
from novasched.scheduler.trace import Decision

LOG = logging.getLogger(__name__)

MOST_FURTHER_CLAIMS = 20
"""Claims of further candidates that may be refused, should a cloud fill up just now."""
MOST_JOINT_CLAIMS = 2
"""Claims of all instances at once that may be refused before each gets its own."""


class FilterScheduler(Driver):
    """Nova: scheduler/manager.py, _schedule and what it calls."""

    def __init__(self, parts: DriverContext) -> None:
        super().__init__(parts)
        self._roots = KnownRoots()
        self._turns = GroupTurns()

    def select_destinations(self, work: ScheduleRequest) -> ScheduleResult:
        cell = target_cell(self.parts.view, work.request)
        nodes = self.parts.view.node_uuids()

        def hosts() -> HostTable:
            offered = by_provider(work.candidates, nodes, self._roots.uuids())
            return self.parts.view.hosts(offered, cell)

        reservation = Reservation(self.parts.assumed, work, self._turns)
        with reservation.turn():
            placing = _Placing(self.parts, work, hosts, reservation)
            placing.pick_all()
            placing.check_complete()
        return placing.answer()


class _Placing:
    """One request on its way: the hosts left, the picks so far, and the request
    as it is for the next instance; the last one is on ``_nodes`` of its host.
    Chance has a seed of its own in each. ``hosts`` makes the hosts with lists and
    dicts of their own, as plugins may write into them."""

    def __init__(
        self,
        parts: DriverContext,
        work: ScheduleRequest,
        hosts: Callable[[], HostTable],
        reservation: Reservation,
    ) -> None:
        self._parts = parts
        self._work = work
        self._reservation = reservation
        self._all_hosts = hosts
        self._hosts = self._offered = reservation.hosts(hosts)
        self._left_out = cells_left_out(parts.view, work.request)
        self._decision: Decision | None = None
        # A caller may schedule one request object twice.
        self._request = reservation.request(work.request.replaced())
        self._picked: list[Picked] = []
        self._untold: list[tuple[HostState, errors.RequestError | None]] = []
        self._attempt = 1
        self._nodes: InstanceNUMATopology | None = None
        self._seed = parts.rng.getrandbits(64)
        self._rng = random.Random(self._seed)
        self._lap = parts.watch.of(work.context.request_id)
        self._told: Told = set()
        self._barred: set[int] = set()
        LOG.debug('Seed of the decisions: %d', self._seed)

    def pick_all(self) -> None:
        """Pick a host per instance; stop at the first instance that has none."""
        claims = self._work.claims
        if claims is None:
            self._pick_each(self._work.required, self._best)
        elif not self._picked_together(claims):
            number = len(self._work.instance_uuids or ())
            self._pick_each(number, lambda: self._first_claimed(claims))

    def _pick_each(
        self, number: int, pick: Callable[[], Picked | None], final: bool = True
    ) -> None:
        uuids = self._work.instance_uuids
        for index in range(number):
            if uuids:
                self._request = self._request.for_instance(uuids[index])
            picked = self._decided(index, pick)
            if picked is None:
                break
            self._take(picked)
            if final:
                self._tell_selected()

    def _decided(self, index: int, pick: Callable[[], Picked | None]) -> Picked | None:
        """Decide, once more each time another request was faster, and pick."""
        self._barred.clear()
        while True:
            self._decide(index)
            picked = pick()
            fitting = self._parts.profile.fitting
            hosts = self._reservation.caught_up(self._hosts, fitting)
            if hosts is None:
                return picked
            self._hosts = hosts

    def _picked_together(self, claims: Claims) -> bool:
        """Pick for several instances, then claim for all at once; False: start anew.

        Where placement says of what it has too little, that is done once more. Nothing
        is claimed when one of them gets no host.
        """
        uuids = self._work.instance_uuids or ()
        if len(set(uuids)) < max(len(uuids), 2):
            return False
        request = self._request
        for _ in range(MOST_JOINT_CLAIMS):
            wanted = self._wanted(uuids, claims.room.copy())
            if len(wanted) < len(uuids):
                return True
            if claims.make_all(self._request, wanted):
                self._tell_selected()
                return True
            self._start_anew(request)
            if claims.room.fits_all(one.candidate for one in wanted):
                break
        return False

    def _wanted(
        self, uuids: Sequence[str], room: RemainingCapacity
    ) -> list[ClaimRequest]:
        """Pick for several instances; fewer: there are no more hosts."""
        self._pick_each(len(uuids), lambda: self._first_with_room(room), False)
        pairs = zip(uuids, self._picked, strict=False)
        return [ClaimRequest(u, one.candidate) for u, one in pairs if one.candidate]

    def _start_anew(self, request: RequestSpec) -> None:
        LOG.debug(
            'What was selected for %d instances is void, as it could not be claimed '
            'together; selecting anew.',
            len(self._picked),
        )
        self._hosts = self._offered = self._reservation.hosts(self._all_hosts)
        self._request = request
        self._picked.clear()
        self._untold.clear()
        self._rng = random.Random(self._seed)
        self._attempt += 1

    def _decide(self, index: int) -> None:
        """Leave the hosts that may take instance ``index``, the best one first."""
        parts = self._parts
        decision = decide(
            parts.profile, self._hosts, self._request, self._rng, index, self._lap
        )
        candidates = self._work.candidates
        decision = replace(
            decision,
            seed=self._seed,
            took_s=self._lap.took_s(),
            cut=candidates is not None and candidates.cut,
            further=candidates is not None and candidates.further,
            cells_left_out=self._left_out,
            attempt=self._attempt,
        )
        self._hosts, self._decision = decision.ranked, decision
        log_decision(decision, self._told)
        parts.on_decision(decision)

    def _best(self) -> Picked | None:
        return Picked(self._hosts.state(0), None) if len(self._hosts) else None

    def _first_claimed(self, claims: Claims) -> Picked | None:
        """Claim the best host that placement grants; what conflicts gets two turns."""
        before = claims.conflicts
        grant = functools.partial(claims.make, self._request)
        picked = self._first_granted(claims.room, grant)
        if picked is None and claims.conflicts > before:
            self._barred.clear()
            picked = self._first_granted(claims.room, grant)
        return picked

    def _first_with_room(self, room: RemainingCapacity) -> Picked | None:
        """Take the room on the best host that has any; nothing is claimed."""

        def grant(candidate: Candidate) -> bool:
            room.take(candidate)
            return True

        return self._first_granted(room, grant)

    def _first_granted(
        self, room: RemainingCapacity, grant: Callable[[Candidate], bool]
    ) -> Picked | None:
        """Return the first that is granted of the first candidates of all hosts.

        Only when there is none the further candidates count, so that they get no
        host chosen where another one would do. A host that was refused for
        anything but a lack of room is barred: it is not asked for again in this turn.
        """
        asked = 0
        for host, candidate in offers(self._hosts):
            if host._row in self._barred or not room.fits(candidate):
                continue
            if candidate is not host.allocation_candidates[0]:
                asked += 1
            if asked > MOST_FURTHER_CLAIMS:
                break
            request = with_providers(self._request, candidate)
            if not self._reservation.reserve(host, request):
                return None
            if grant(candidate):
                return Picked(host, candidate)
            self._reservation.release()
            if room.fits(candidate):
                self._barred.add(host._row)
        if len(self._hosts):
            LOG.debug('Unable to successfully claim against any host.')
        return None

    def _take(self, picked: Picked) -> None:
        """Let the host have the instance, and the server group have the host."""
        self._picked.append(picked)
        self._request = with_providers(self._request, picked.candidate)
        row, fitting = picked.host._row, self._parts.profile.fitting
        self._hosts = consume(self._hosts, row, self._request)
        booked = book(self._hosts, row, self._request, fitting)
        self._hosts, self._nodes = booked.hosts, booked.topology
        self._untold.append((picked.host, booked.problem))
        if fitting.as_nova and 'numa_topology' in self._request:
            self._request = self._request.replaced(numa_topology=booked.topology)
        self._request = self._request.with_group_on(picked.host.host)

    def _tell_selected(self) -> None:
        for host, problem in self._untold:
            LOG.debug('Selected host: %s', host)
            if problem:
                LOG.warning(
                    'Selected host: %s failed to consume from instance. Error: %s',
                    host,
                    problem,
                )
        self._untold.clear()

    def check_complete(self) -> None:
        """Raise errors.NoValidHost unless every instance has a host."""
        if len(self._picked) != self._work.required:
            LOG.debug(
                'There are %d hosts available but %d instances requested to build.',
                len(self._picked),
                self._work.required,
            )
            parts, last = self._parts, self._decision
            raise errors.NoValidHost(
                parts.detail.of_decision(
                    'There are not enough hosts available.',
                    parts.detail.over_all(last, self._offered, parts.profile),
                    len(self._picked),
                    self._work.required,
                )
            )

    def answer(self) -> ScheduleResult:
        """Return the picks with their alternates."""
        work, parts = self._work, self._parts
        alternates = parts.max_attempts - 1 if work.return_alternates else 0
        if len(self._picked) > 1 and alternates:
            self._decide(len(self._picked) - 1)
        version = work.candidates.version if work.candidates else None
        maker = SelectionMaker(version, parts.default_availability_zone)
        if work.claims:
            maker = replace(maker, fits=work.claims.room.fits)
        own = parts.own_alternates and are_kept_apart(self._request)
        selections = maker.with_alternates(self._picked, self._hosts, alternates, own)
        request = self._request
        if self._nodes is not None:
            request = request.replaced(numa_topology=self._nodes)
        return ScheduleResult(selections, request)
