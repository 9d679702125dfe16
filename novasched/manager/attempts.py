# SPDX-License-Identifier: Apache-2.0
"""The attempts to serve a request: the outer one of the two loops that decide again.

It waits for services that are unavailable, and asks for candidates once more if those
of an answer were cut or stale. drivers/filter_scheduler.py has the inner loop.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from novasched import errors
from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import (
    RequestAttempt,
    RetryBudget,
    ScheduleRequest,
    Scope,
    UnresolvedClaim,
)
from novasched.cluster.freshness import ViewFreshness
from novasched.cluster.view import ClusterView
from novasched.drivers import Driver, ScheduleResult
from novasched.manager.candidate_query import (
    LAGS,
    NO_HOST_LEFT,
    UNVERIFIED,
    CandidateQueries,
    QueryPolicy,
)
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.outages import PLACEMENT, OutagePatience, Outages, cell
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import (
    MAY_ARRIVE,
    STANDS,
    UNDO_WITHIN_S,
    CallerGone,
    Candidates,
    Claimed,
    Journal,
    Network,
    Notifier,
    Placement,
    QueryFailed,
    UndoLeft,
)
from novasched.resources import (
    Query,
    not_found,
    target_of,
)
from novasched.runtime import connections
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.reasons import Blocker

LOG = logging.getLogger(__name__)

REFUSALS = (
    Outcome.CONFLICT,
    Outcome.REFUSED,
    Outcome.UNAVAILABLE,
    Outcome.UNREACHABLE,
)
"""Claims that placement has not taken."""
ASKED_AGAIN = {
    Outcome.STALE: 'No host left after filtering %d allocation candidates of the copy '
    'of placement; retrying once it is up to date.',
    Outcome.INCOMPLETE: 'No host left after filtering the first %d allocation '
    'candidates (limit reached); retrying without the limit.',
}
Answer = list[list[Selection]] | list[dict[str, Any]]
"""Per instance its selections, or the selected host as a dict."""
Selected = tuple[list[list[Selection]], Answer]
"""The selections, and the form of them that the caller wants."""
Result = TypeVar('Result')

LEAST_UNDO_S = 5.0
WAIT = 'wait'
"""The stage of a request that waits."""


@dataclass(frozen=True)
class HandedToSuccessor:
    """The manager of a newer configuration serves a request that waited."""

    manager: Any
    attempt: RequestAttempt  # the last one before


class OutageRetry:
    """Makes the attempts of one request, and waits between them.

    Claims of unknown fate are looked up before it. If a claim stands,
    the next attempt adopts it: another delivery may have been answered with it. If its
    consumer holds nothing, it may still arrive. Then the next claim is refused, and the
    late claim is adopted once it shows.
    """

    def __init__(
        self,
        outages: Outages,
        request: ScheduleRequest,
        placement: Placement,
        view: ClusterView,
        clock: Clock,
    ) -> None:
        before = request.attempt
        self._outages = outages
        self._patience = OutagePatience(outages, request.caller, clock, before.came_s)
        self._request = request
        self._placement = placement
        self._view = view
        self._clock = clock
        self._lost = before.lost
        self._adopts: list[UnresolvedClaim] = []
        self._has_adopted = self._is_unsure = False
        self._handed: HandedToSuccessor | None = None
        self._budget = before.budget

    def run(
        self, serve: Callable[[RequestAttempt], Result]
    ) -> Result | HandedToSuccessor:
        """Return the result of the first attempt, by ``serve``, that does not fail by
        an unavailable service. Raises what the last attempt has raised, or CallerGone.
        """
        attempt = self._request.attempt
        try:
            if attempt.unavailable:  # it waited for another manager
                self._go_on_after(attempt)
                self._budget.decide_again(
                    Outcome.OUTAGE, ', '.join(attempt.unavailable)
                )
            while self._handed is None:
                self._budget.renew(Scope.ATTEMPT)
                attempt = RequestAttempt(
                    retries_rollback=not self._patience.is_over,
                    is_admitted=self._patience.has_turn,
                    was_announced=attempt.was_announced,
                    came_s=self._patience.came_s,
                    in_flight=frozenset(lost.consumer_uuid for lost in self._lost),
                    lost=self._lost,
                    adopts={lost.consumer_uuid: lost for lost in self._adopts},
                    budget=self._budget,
                )
                try:
                    result = serve(attempt)
                    break
                except errors.RequestError as failure:
                    self._look_for_cells(attempt, failure)
                    why = self._why_another(attempt, failure)
                    if why is not None:
                        self._budget.decide_again(why, str(failure))
                    elif self._handed is None:
                        raise
        except BaseException:
            self._leave_lost()
            raise
        finally:
            self._patience.attempted(attempt.unavailable)
        if self._handed is not None:
            return self._handed
        self._outages.served += 1
        for lost in self._lost:
            lost.answer(self._request.caller)
        return result

    def _leave_lost(self) -> None:
        """Undo what stands, unless the request has adopted claims; recovery undoes
        what else is lost."""
        left = {lost.consumer_uuid: lost.why for lost in self._lost}
        standing = [lost for lost in self._lost if lost.why == STANDS]
        try:
            if standing and not self._has_adopted:
                still_left = self._undo(standing, UNDO_WITHIN_S)
                for lost in standing:
                    del left[lost.consumer_uuid]
                left.update(still_left)
        finally:
            for lost in self._lost:
                why = left.get(lost.consumer_uuid)
                if lost in self._adopts:
                    lost.keep()
                elif why is None:
                    lost.resolved()
                else:
                    lost._replace(why=why).hand_to_recovery()

    def _go_on_after(self, attempt: RequestAttempt) -> None:
        """Resume a wait that a reload interrupted.

        The request is then scheduled with the new configuration, unless an unresolved
        claim remains.
        """
        waited = not self._patience.is_over and self._waited(attempt)
        if not waited and self._lost and self._handed is None:
            lost = self._lost[0]
            raise errors.AllocationUpdateFailed(lost.consumer_uuid, lost.why)

    def _look_for_cells(
        self, attempt: RequestAttempt, failure: errors.RequestError
    ) -> None:
        """Note the cells that do not answer, if one of their hosts might have taken the
        request."""
        spec, offered = self._request.spec, attempt.offered
        attempt.offered = None  # they take memory
        if attempt.unavailable or not isinstance(failure, errors.NoValidHost):
            return
        cell_uuid = spec.target_cell_uuid
        if self._view.unavailable_cells(cell_uuid):
            providers = None
            if offered is not None and (offered.copy is not None or not offered.cut):
                providers = offered.by_provider()
            target = target_of(spec)
            broken = self._view.cells.broken()
            for name in self._view.unavailable_cells(cell_uuid, target, providers):
                if name not in broken:
                    attempt.note_unavailable(cell(name), 'it does not answer')

    def _why_another(
        self, attempt: RequestAttempt, failure: errors.RequestError
    ) -> Outcome | None:
        """Wait for what did not answer an attempt that has failed, and undo what it
        left; return why to make another one, or None."""
        if isinstance(failure, CallerGone) or attempt.rollback_uncertain:
            return None
        if failure.unavailable:
            attempt.note_unavailable(failure.unavailable, str(failure))
        if isinstance(failure, errors.AlreadyClaimed):
            may_retry = self._budget.spend(Outcome.ARRIVED_LATE) and bool(self._lost)
            arrived = may_retry and self._settle()
            return Outcome.ARRIVED_LATE if arrived else None
        if not attempt.unavailable or self._patience.is_over:
            return None
        self._budget.spend(Outcome.OUTAGE)
        for cause in connections.causes(failure):  # frames have all that was read
            cause.__traceback__ = None
        return Outcome.OUTAGE if self._waited(attempt) else None

    def _waited(self, attempt: RequestAttempt) -> bool:
        """Wait until services answer, and nothing is held of earlier attempts."""
        began_s, recorder = self._clock.monotonic(), self._request.recorder
        with recorder.stage(WAIT):
            waited = self._patience.wait(attempt.unavailable, attempt.is_query_lost)
            while waited and not self._settle():
                waited = not self._is_unsure and self._patience.wait(
                    {PLACEMENT: self._lost[0].why}
                )
        attempt.waited_s = self._clock.monotonic() - began_s
        successor = self._outages.successor
        if not waited and successor is not None and not self._is_unsure:
            attempt.lost = self._lost  # less what was undone meanwhile
            self._handed = HandedToSuccessor(successor, attempt)
            return False
        recorder.waited(attempt.unavailable, attempt.waited_s, again=waited)
        return waited

    def _settle(self) -> bool:
        """Adopt the earlier claims if they stand for all instances; else undo them.

        Returns False if placement does not answer, or if an undo may be carried out
        later: it would undo the next claim.
        """
        self._adopts = []
        if not self._lost:
            return True
        within_s = min(UNDO_WITHIN_S, max(LEAST_UNDO_S, self._patience.left_s()))
        left = self._undo(self._lost, within_s, keeps_unknown=True)
        standing = {claim.consumer_uuid for claim in left.standing}
        if standing and standing >= {*self._request.instance_uuids}:
            claims = {id(claim) for claim in left.standing}
            self._adopts = [lost for lost in self._lost if id(lost.claim) in claims]
            self._has_adopted = True
            return not self._is_unsure
        if standing:
            others = [lost for lost in self._lost if lost.consumer_uuid in left]
            left = self._undo(others, within_s)
        self._lost = [*self._unresolved(left)]
        return not self._is_unsure and all(
            lost.why == MAY_ARRIVE for lost in self._lost
        )

    def _unresolved(self, left: UndoLeft) -> Iterator[UnresolvedClaim]:
        """Yield the lost claims that are left, or may still arrive."""
        for lost in self._lost:
            why = left.get(lost.consumer_uuid)
            is_certain = isinstance(lost.claim, Claimed) or self._request.spec.is_move
            if why is None and is_certain:
                lost.resolved()
            else:  # a claim sent twice may arrive once more after it was undone
                yield lost._replace(why=why or MAY_ARRIVE)

    def _undo(
        self,
        lost: Sequence[UnresolvedClaim],
        within_s: float,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        context = self._request.context.elevated()
        claims = [unresolved.claim for unresolved in lost]
        with self._request.recorder.stage('undo'):
            left = self._placement.undo(
                context, claims, within_s, keeps_unknown=keeps_unknown
            )
        self._is_unsure |= bool(left.unsure)
        return left


class RequestAttempts:
    """Serves requests by a driver, in as many attempts as it takes."""

    def __init__(
        self,
        driver: Driver,
        view: ClusterView,
        placement: Placement,
        notifier: Notifier,
        query_policy: QueryPolicy,
        network: Network,
        journal: Journal | None = None,
        clock: Clock = SYSTEM_CLOCK,
        copy: CopyKeeper | None = None,
        outages: Outages | None = None,
    ) -> None:
        self.driver = driver
        self.view = view
        self.copy = copy
        self._placement = placement
        self._notifier = notifier
        self._journal = journal
        self._clock = clock
        self._outages = outages = outages or Outages()
        self._query_policy = query_policy
        self._queries = CandidateQueries(
            view,
            placement,
            network,
            query_policy,
            copy,
            lambda: outages.waited_for(PLACEMENT),
            clock,
        )

    def select(self, request: ScheduleRequest) -> Selected | HandedToSuccessor:
        """Place the instances. If a service is unavailable, wait for it as long as the
        caller waits."""
        waiting = OutageRetry(
            self._outages, request, self._placement, self.view, self._clock
        )
        return waiting.run(functools.partial(self._attempt, request))

    def _attempt(self, request: ScheduleRequest, attempt: RequestAttempt) -> Selected:
        clock, stage = self._clock, request.recorder.stage
        freshness = ViewFreshness(self.view, clock.monotonic(), stage, clock)
        request = replace(request, attempt=attempt, freshness=freshness)
        if self.driver.USES_ALLOCATION_CANDIDATES and not request.spec.is_rebuild:
            return self._selected(request)
        freshness.refresh_if_stale()
        self._announce(request)
        return self._place(request)

    def _selected(self, request: ScheduleRequest) -> Selected:
        """Place the instances, if need be on hosts that the first answer had not."""
        request, query = self._with_candidates(request)
        self._announce(request)
        while True:
            request.budget.renew(Scope.CANDIDATES)
            asked = request
            if request.names_instances:
                asked = ClaimedRequest.of(request, self._placement, self._journal)
            try:
                return self._place(asked)
            except errors.NoValidHost:
                more = self._once_more(request, query)
                if more is None:
                    if request.attempt.failed_query is not None:
                        request.attempt.offers(request.attempt.failed_query)
                    raise
            request = replace(request, candidates=more, copy_lags=lambda: False)

    def _announce(self, request: ScheduleRequest) -> None:
        """Notify that the request starts, in its first attempt."""
        if request.attempt.was_announced:
            return
        request.attempt.was_announced = True
        with request.recorder.stage('notify'):
            self._notifier.select_destinations(request.context, request.spec, 'start')

    def _once_more(self, request: ScheduleRequest, query: Query) -> Candidates | None:
        """Return candidates for another decision, or None if it would not help.

        They are new ones, or the same if this request has not refreshed the cells yet.
        """
        budget, may_be_old = request.budget, not request.freshness.is_current
        happened = budget.within(Scope.CANDIDATES)
        may_stand = happened[Outcome.UNKNOWN] or request.attempt.rollback_uncertain
        if may_stand or budget.is_over(Outcome.GROUP_BROKEN):
            return None
        ends = happened[Outcome.UNVERIFIED] or happened[Outcome.UNREACHABLE]
        may_refresh = not (ends or budget.is_over(Outcome.UNAVAILABLE))
        why = self._why_others(request.candidates, budget)
        more = None if why is None else self._asked_again(request, query, why)
        may_refresh = may_refresh and may_be_old and more is None
        if may_refresh and request.freshness.refresh_if_stale():
            why, more = Outcome.STALE_HOSTS, request.candidates
            budget.spend(why)
        if why is not None and more is not None:
            budget.decide_again(why)
        return more

    def _place(self, request: ScheduleRequest) -> Selected:
        """Run the driver. Any later failure rolls the claims back."""
        with request.claiming():
            placed = self.driver.select_destinations(request)
            request.check_caller()
            with request.recorder.stage('notify'):
                self._notifier.select_destinations(
                    request.context, placed.request, 'end'
                )
            return placed.selections, _answer(placed, request.return_objects)

    def _see_hosts(self, request: ScheduleRequest) -> None:
        """Use known host state if the driver verifies its picks; otherwise refresh."""
        cell_uuid = request.spec.target_cell_uuid
        enabled = self.view.cells.enabled
        in_enabled = cell_uuid is None or any(c.uuid == cell_uuid for c in enabled())
        is_verified = self.driver.VERIFIES_HOSTS and request.names_instances
        if is_verified and in_enabled:
            request.freshness.use_cached()
        else:
            request.freshness.refresh_if_stale()

    def _with_candidates(
        self, request: ScheduleRequest
    ) -> tuple[ScheduleRequest, Query]:
        """Ask for candidates; return the query, and the request with the node that it
        names.

        The cells are looked at once, as late as can be.
        """
        attempt, recorder = request.attempt, request.recorder
        spec, query, nodes = self._queries.make(request)
        if nodes == []:
            recorder.blocked(Blocker.NAMED_HOST)
            raise errors.NoValidHost(not_found(spec))
        answer: Candidates | QueryFailed | None = attempt.adopted
        if answer is None:
            is_patient = attempt.retries_rollback and not attempt.is_admitted
            with recorder.stage('query'):
                answer = self._queries.ask(
                    request.context, query, is_patient=is_patient
                )
        recorder.asked(query, answer)
        attempt.offers(answer)
        if isinstance(answer, QueryFailed) or not answer.requests:
            failed = isinstance(answer, QueryFailed)
            recorder.blocked(
                Blocker.PLACEMENT_FAILED if failed else Blocker.NO_CANDIDATES
            )
            LOG.log(
                logging.DEBUG if attempt.is_waited_for else logging.INFO,
                'Got no allocation candidates from the Placement API. This could be '
                'due to insufficient resources or a temporary occurrence as compute '
                'nodes start up.',
            )
            raise errors.NoValidHost('')
        if nodes is None:
            self._see_hosts(request)
        if self.copy is not None:
            request = replace(request, copy_lags=self.copy.lacks_nodes)
        return replace(request, spec=spec, candidates=answer), query

    def query(
        self, context: RequestContext, spec: RequestSpec
    ) -> tuple[RequestSpec, Query]:
        """Return a request as filters see it, and its query to placement, which is not
        asked. Raises errors.NoValidHost, and any other errors.RequestError."""
        request = ScheduleRequest(context, spec, freshness=ViewFreshness(self.view))
        return self._queries.make(request)[:2]

    def _why_others(self, known: Candidates, budget: RetryBudget) -> Outcome | None:
        """Return why other candidates may do where these would not.

        None if it was not the filters that took all. Candidates for which requests
        compete may be gone by now.
        """
        happened = budget.within(Scope.CANDIDATES)
        for outcome in (Outcome.UNVERIFIED, Outcome.OVER_CAPACITY, Outcome.COPY_LAGS):
            if happened[outcome]:
                return None if budget.is_over(outcome) else outcome
        if known.further:
            return None
        if known.copy is not None:
            return Outcome.STALE
        is_refused = any(happened[outcome] for outcome in REFUSALS)
        may_have_more = known.cut and self._query_policy.looks_further
        return Outcome.INCOMPLETE if may_have_more and not is_refused else None

    def _asked_again(
        self, request: ScheduleRequest, query: Query, why: Outcome
    ) -> Candidates | None:
        """Ask for other candidates, of placement if its copy lags or cannot be
        verified; return None if there are no others."""
        known = request.candidates
        if why is Outcome.COPY_LAGS:
            LOG.info('Asking placement for hosts that its copy does not show yet.')
            return self._asked(request, query, why_not_copy=LAGS) or known
        if why in (Outcome.UNVERIFIED, Outcome.OVER_CAPACITY):
            is_bad = why is Outcome.UNVERIFIED or known.fallback == UNVERIFIED
            return self._asked(request, query, True, UNVERIFIED if is_bad else '')
        return self._asked_for_all(request, query, why)

    def _asked_for_all(
        self, request: ScheduleRequest, query: Query, why: Outcome
    ) -> Candidates | None:
        """Ask for all candidates if a limit or a stale copy may have hidden hosts;
        return None if there are no others."""
        known = request.candidates
        if not request.budget.spend(why):
            return None
        LOG.info(ASKED_AGAIN[why], len(known.requests))
        is_stale = why is Outcome.STALE
        if is_stale and self.copy and not self.copy.store.reads_fast:
            return self._asked(request, query, why_not_copy=NO_HOST_LEFT)
        is_chosen = known.fallback in (UNVERIFIED, LAGS, NO_HOST_LEFT)
        why_not_copy = known.fallback if is_chosen else ''
        answer = self._asked(request, query.without_limit(), is_stale, why_not_copy)
        if answer is None or not _has_others(answer, known):
            return None
        return replace(answer, further=True)

    def _asked(
        self,
        request: ScheduleRequest,
        query: Query,
        fresh: bool = False,
        why_not_copy: str = '',
    ) -> Candidates | None:
        """Ask for candidates, then refresh all cells; return None if the query fails.

        Raises errors.NoValidHost where there are none.
        """
        with request.recorder.stage('query'):
            answer = self._queries.ask(request.context, query, fresh, why_not_copy)
        request.recorder.asked(query, answer)
        if isinstance(answer, QueryFailed):
            request.attempt.failed_query = answer
            return None
        request.attempt.offers(answer)
        if not answer.requests:
            request.recorder.blocked(Blocker.NO_CANDIDATES)
            raise errors.NoValidHost('')
        request.freshness.refresh()
        return answer


def _has_others(answer: Candidates, known: Candidates) -> bool:
    """Return whether there are others in an answer than in the one before."""
    if known.copy is None:
        return len(answer.requests) > len(known.requests)
    return known.cut or answer.copy is None or answer.copy != known.copy


def _answer(placed: ScheduleResult, return_objects: bool) -> Answer:
    if return_objects:
        return placed.selections
    return [selections[0].to_dict() for selections in placed.selections]
