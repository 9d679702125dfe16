# SPDX-License-Identifier: Apache-2.0
"""A request and the unavailable services: how it waits for them, and what it rolls back
before it is decided from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from novasched import errors
from novasched.claiming.attempt import RequestAttempt, UnresolvedClaim
from novasched.claiming.claims import UNDO_WITHIN_S
from novasched.claiming.host_candidates import by_provider
from novasched.claiming.request import ScheduleRequest
from novasched.claiming.retries import Scope
from novasched.cluster.view import ClusterView
from novasched.outages import PLACEMENT, OutagePatience, Outages, cell
from novasched.ports import (
    MAY_ARRIVE,
    STANDS,
    CallerGone,
    Claimed,
    Placement,
    UndoLeft,
)
from novasched.resources.request import target_of
from novasched.runtime import connections
from novasched.runtime.clock import Clock
from novasched.scheduler.outcomes import Outcome

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
        for lost in self._lost:  # what may still arrive is barred by what is claimed
            lost.resolved()
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
                providers = by_provider(offered)
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
