# SPDX-License-Identifier: Apache-2.0
"""The claims of one request: written to the journal, kept or undone together."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

from novasched import errors
from novasched.claiming.request import (
    Again,
    Retry,
    ScheduleRequest,
    UnresolvedClaim,
)
from novasched.claiming.verification import (
    CandidateInPlacement,
    HostInCell,
    PickVerification,
    ProviderCapacity,
    RemainingCapacity,
    Verifier,
)
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.ports import (
    NO_CALLER,
    UNDO_WITHIN_S,
    Caller,
    Candidate,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Entry,
    Intent,
    Journal,
    Placement,
)
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.outcomes import Outcome

LOG = logging.getLogger(__name__)

CHUNK = 100
"""Instances that are claimed by one POST.

For a thousand on 350 hosts placement used 7.8 s of CPU time in chunks of 25. Chunks of
50, 100, 200 and 1000 took 6.8, 7.0, 6.9 and 6.7 s. The longest POST took 14 s. Two
chunks at once are slower and may deadlock: placement locks gaps between consumers.
"""
NOT_ROLLED_BACK = (
    'it was claimed before an outage, and is not rolled back, as another delivery of '
    'this request may have been answered with it; but it is in conflict'
)


class ClaimJournal:
    """Keeps the open journal entries of a request by consumer; without a journal, none.

    Without a ``caller`` the request counts as answered as soon as the claims stand.
    """

    def __init__(
        self, journal: Journal | None = None, caller: Caller = NO_CALLER
    ) -> None:
        self._journal = journal
        self._caller = caller
        self._open: dict[str, Entry] = {}

    def intend(
        self,
        request_id: str | None,
        project_id: str | None,
        wanted: Sequence[ClaimRequest],
    ) -> None:
        """Write down claims that are about to be made."""
        if self._journal is None:
            return
        within_s = self._caller.patience_left_s()
        intents = []
        for claim in wanted:
            allocations = claim.candidate['allocations']
            amounts = {name: part['resources'] for name, part in allocations.items()}
            intents.append(
                Intent(
                    request_id,
                    claim.consumer_uuid,
                    project_id,
                    amounts,
                    undo_within_s=within_s,
                )
            )
        consumers = [claim.consumer_uuid for claim in wanted]
        self._open.update(zip(consumers, self._journal.intend(intents), strict=True))

    def resume(self, entries: Mapping[str, Entry]) -> None:
        """Take over open entries of an earlier attempt, by consumer."""
        self._open.update(entries)

    def settle(self, *consumers: str) -> None:
        """Settle the entries of consumers: recovery leaves their claims alone."""
        for consumer in consumers:
            if entry := self._open.pop(consumer, None):
                entry.settle()

    def take(self, consumer: str) -> Entry | None:
        """Return the open entry of a consumer, which is another's from now on."""
        return self._open.pop(consumer, None)

    def end(self, error: BaseException) -> None:
        """Leave to recovery what is neither answered nor undone.

        An ``error`` that is no Exception ends the process, and no caller hears of it.
        """
        for entry in self._open.values():
            if isinstance(error, Exception):
                entry.undo_later(0.0)
            else:
                entry.leave()
        self._open = {}

    def check_caller(self) -> None:
        """Raise CallerGone when the caller waits no more for the answer."""
        self._caller.check()

    def answer(self, undo: Callable[[], None] = lambda: None) -> None:
        """Settle the entries once the answer is delivered.

        ``undo`` is called if the answer cannot be delivered.
        """
        answered, self._open = self._open, {}

        def settle() -> None:
            for entry in answered.values():
                entry.settle()

        def take_back() -> None:
            self._open.update(answered)
            try:
                undo()
            except BaseException as defect:
                self.end(defect)
                raise

        for entry in answered.values():
            entry.answering()
        self._caller.when_answered(settle)
        self._caller.if_undeliverable(take_back)


class Claims:
    """Claims made within a ``with`` block; leaving it by an error undoes them.

    An answer that reaches no reader undoes them, too. Undoing ends soon after
    UNDO_WITHIN_S, and the error goes on. Each pick is verified; a failure is returned
    as a Retry and spent from the budget of the ``attempt``. The attempt may keep claims
    that cannot be undone.
    """

    def __init__(
        self,
        placement: Placement,
        request: ScheduleRequest,
        journal: Journal | None = None,
    ) -> None:
        self._placement = placement
        self._request = request
        self._attempt = request.attempt
        self._context = request.context.elevated()
        self._version = request.candidates.version
        self._made: list[Claimed | ClaimUnknown] = []
        self._wanted: dict[str, ClaimRequest] = {}
        # less what was claimed
        self.remaining = RemainingCapacity(request.candidates.summaries)
        self._journal = ClaimJournal(journal, request.caller)
        self._recorder = request.recorder
        self._left_behind: list[str] = []
        self._budget = request.budget
        self.verification = PickVerification(request, self.remaining)
        self.verify_with()
        self.if_undone: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.verification.verifiers = []  # they hold these claims
        if error is None:
            self._journal.resume(self._attempt.answer_adopted())
            self._journal.answer(self._undo_unread)
            return
        ended_by = error
        try:
            if self._made:
                self._undo(self._made)
        except BaseException as interruption:
            ended_by = interruption
            raise
        finally:
            for forget in self.if_undone:
                forget()
            self._journal.end(ended_by)

    def check_caller(self) -> None:
        """Raise CallerGone if something is claimed and the caller waits no more."""
        if self._made or self._attempt.adopts:
            self._journal.check_caller()

    def verify_with(self, *others: Verifier, enforces_capacity: bool = True) -> None:
        """Choose the verifiers, in the order in which they look."""
        request, copy = self._request, self._request.candidates.verifier
        verifiers: list[Verifier] = [HostInCell(request.freshness)]
        if copy is not None:
            verifiers.append(CandidateInPlacement(copy, self._recorder))
        if enforces_capacity:
            capacity = ProviderCapacity(self._placement, request, self.remaining)
            verifiers.append(capacity)
        self.verification.verifiers = [*verifiers, *others]

    def make(
        self,
        request: RequestSpec,
        candidate: Candidate,
        node_uuid: str = '',
        ahead: Sequence[ClaimRequest] = (),
    ) -> Retry | None:
        """Claim a candidate for the instance of the request; return a Retry if that
        fails.

        The same look may verify likely alternates, ``ahead``. Raises
        errors.AllocationUpdateFailed, with all undone, if the consumer changed, holds
        something though it does not move, or the claim's fate is unknown. A late claim
        must not be added to a claim on another host.
        """
        wanted = [ClaimRequest(request.instance_uuid, candidate, node_uuid)]
        retry = self.verification.before(wanted, ahead, bool(self._made))
        if retry is not None:
            return retry
        if self._attempt.adopts:
            return self._adopt(wanted)
        with (
            self._written(request, wanted),
            self._recorder.stage('claim'),
            self._after_lost(request.instance_uuid),
        ):
            outcome = self._placement.claim(
                self._context,
                wanted[0],
                self._version,
                request.project_id,
                self._user_of(request),
                adds=self._adds(request),
                check=self._journal.check_caller,
            )
        if isinstance(outcome, ClaimRefused):
            if outcome.conflicted:
                self._budget.spend(Outcome.BUSY)
            self.remaining.refuse(candidate, outcome.exhausted)
            LOG.debug('Claim for %s refused: %s', request.instance_uuid, outcome.text)
            return self._refused(wanted, outcome)
        self._keep(wanted, [outcome])
        self.remaining.take(candidate)
        return self._fit(wanted)

    @contextlib.contextmanager
    def _after_lost(self, consumer_uuid: str) -> Iterator[None]:
        """Claim within this context. Who changes the consumer meanwhile may be an
        earlier claim that was lost and is being written: that is waited for."""
        try:
            yield
        except errors.AlreadyClaimed:
            raise
        except errors.AllocationUpdateFailed as changed:
            if consumer_uuid in self._attempt.in_flight:
                self._attempt.note_unavailable(PLACEMENT, str(changed))
            raise

    def _adds(self, request: RequestSpec) -> bool:
        """Whether the claim may be added to what the server holds.

        True for a move, unless the server may hold a late claim of this same request.
        """
        is_lost = request.instance_uuid in self._attempt.in_flight
        return request.is_move and not is_lost

    def make_all(
        self, request: RequestSpec, wanted: Sequence[ClaimRequest]
    ) -> Retry | None:
        """Claim for several instances, which hold nothing, all or none.

        Nothing else may be claimed before. Returns a Retry if a chunk is refused, and
        ends there. Raises CallerGone if the caller stopped waiting before a chunk.
        Raises errors.AllocationUpdateFailed if placement does not answer, or if earlier
        chunks may be left behind.
        """
        if (retry := self.verification.before(wanted)) is not None:
            return retry
        if self._attempt.adopts:
            return self._adopt(wanted)
        for chunk in chunks(wanted):
            self.check_caller()
            with self._written(request, chunk), self._recorder.stage('claim'):
                outcome = self._placement.claim_all(
                    self._context,
                    chunk,
                    self._version,
                    request.project_id,
                    self._user_of(request),
                )
            if isinstance(outcome, ClaimRefused):
                candidates = [pick.candidate for pick in wanted]
                self.remaining.refuse_all(candidates, outcome.exhausted)
                number, text = len(chunk), outcome.text
                LOG.debug('Claims for %d instances refused: %s', number, text)
                retry = self._refused(chunk, outcome)
                if retry.again is not Again.NOWHERE:
                    self._undo_before_another()
                return retry
            self._keep(chunk, outcome)
        for pick in wanted:
            self.remaining.take(pick.candidate)
        return self._fit(wanted)

    def _adopt(self, wanted: Sequence[ClaimRequest]) -> Retry | None:
        """Take claims that stand for these, which are never rolled back."""
        if self._attempt.adopt(wanted, self._recorder):
            return None
        return self._budget.retry(
            Outcome.REFUSED, 'other candidates were claimed before'
        )

    def _fit(self, wanted: Sequence[ClaimRequest]) -> Retry | None:
        """Verify claims that placement took; if it should not have, as others have
        raced with them, roll these claims back. Of claims that race, the last one sees
        all."""
        made = self._made[-len(wanted) :]
        claims = [(self._wanted[claim.consumer_uuid], claim) for claim in made]
        verdicts = (each.after(claims) for each in self.verification.verifiers)
        broken = next(filter(None, verdicts), None)
        if broken is None:
            return None
        LOG.debug('Claims for %d instances are undone: %s', len(wanted), broken.text)
        for pick in wanted:
            self.remaining.give_back(pick.candidate)
        self._undo_before_another(broken.why, broken.text, made)
        candidates = [pick.candidate for pick in wanted]
        if len(candidates) == 1:
            self.remaining.refuse(candidates[0], broken.blocks)
        else:
            self.remaining.refuse_all(candidates, broken.blocks)
        return self._budget.retry(broken.why, broken.text)

    @contextlib.contextmanager
    def _written(
        self, request: RequestSpec, wanted: Sequence[ClaimRequest]
    ) -> Iterator[None]:
        """Write the claims to the journal, then claim within this context.

        An errors.RequestError means that nothing was claimed. Whatever else ends the
        context leaves the journal entries open.
        """
        for pick in wanted:
            LOG.debug(
                'Attempting to claim resources in the placement API for instance %s',
                pick.consumer_uuid,
            )
        self._journal.intend(self._context.request_id, request.project_id, wanted)
        try:
            yield
        except errors.RequestError:
            self._journal.settle(*(pick.consumer_uuid for pick in wanted))
            raise
        except Exception as defect:
            now = SYSTEM_CLOCK.monotonic()
            for pick in wanted:
                entry = self._journal.take(pick.consumer_uuid)
                claim = Claimed(pick.consumer_uuid, by_s=now)
                lost = UnresolvedClaim(claim, str(defect), entry, pick, self._version)
                lost.hand_to_recovery()
            raise

    def _user_of(self, request: RequestSpec) -> str | None:
        user_id = request.user_id if 'user_id' in request else None
        return user_id or self._request.context.user_id

    def _refused(self, wanted: Sequence[ClaimRequest], refused: ClaimRefused) -> Retry:
        """Record a refusal. Return where the request goes on."""
        self._journal.settle(*(pick.consumer_uuid for pick in wanted))
        self._recorder.claimed(wanted, refused.outcome, refused.text)
        why = refused.outcome
        if refused.is_unavailable:
            self._attempt.note_unavailable(PLACEMENT, refused.text, refused.status)
            why = Outcome.UNAVAILABLE if self._attempt.retries_rollback else why
        if refused.status == 0:
            why = Outcome.UNREACHABLE
        retry = self._budget.retry(why, refused.text)
        if retry.again is Again.NOWHERE:
            LOG.log(
                logging.DEBUG if self._attempt.retries_rollback else logging.WARNING,
                'Placement cannot be reached, no host is tried any more: %s',
                refused.text,
            )
        return retry

    def _keep(
        self, wanted: Sequence[ClaimRequest], made: Sequence[Claimed | ClaimUnknown]
    ) -> None:
        """Remember claims; undo all where the outcome of one is unknown."""
        self._made += made
        self._wanted.update((pick.consumer_uuid, pick) for pick in wanted)
        unknown = [claim for claim in made if isinstance(claim, ClaimUnknown)]
        outcome = Outcome.UNKNOWN if unknown else Outcome.CLAIMED
        self._recorder.claimed(wanted, outcome, unknown[0].text if unknown else '')
        for claim in made:
            if isinstance(claim, ClaimUnknown):
                self._give_up(claim)
        for verifier in self.verification.verifiers:
            verifier.claimed(wanted)

    def abort(self, reason: str, is_conflict: bool = True) -> None:
        """Roll all claims back in favour of other requests; their amounts are free
        again. Raises as _undo_before_another does, and CallerGone.

        Adopted claims are not rolled back: in a conflict, the request ends by
        errors.AllocationUpdateFailed.
        """
        self.check_caller()
        if is_conflict and self._attempt.adopts:
            raise errors.AllocationUpdateFailed(
                next(iter(self._attempt.adopts)), f'{NOT_ROLLED_BACK}: {reason}'
            )
        for claim in self._made:
            self.remaining.give_back(self._wanted[claim.consumer_uuid].candidate)
        self._undo_before_another(Outcome.ABORTED, reason)

    def _undo_before_another(
        self,
        outcome: Outcome = Outcome.ROLLED_BACK,
        text: str = '',
        made: Sequence[Claimed | ClaimUnknown] | None = None,
    ) -> None:
        """Undo what was claimed, such as the chunks before one that was refused.

        Raises errors.AllocationUpdateFailed where that fails, or may be carried out
        once more later: no other host may be claimed for their instances then.
        """
        claims = [*self._made] if made is None else made
        if claims:
            self._undo(claims, outcome, text)
        if self._left_behind or (claims and self._attempt.rollback_uncertain):
            raise errors.AllocationUpdateFailed(
                (self._left_behind or [claims[0].consumer_uuid])[0],
                'it cannot get another host, as this claim may be left behind; try '
                'again',
            )

    def _give_up(self, claim: ClaimUnknown) -> NoReturn:
        """Undo all, as the request ends here; say whether something is left."""
        consumer = claim.consumer_uuid
        level = logging.DEBUG if self._attempt.retries_rollback else logging.WARNING
        LOG.log(level, 'No answer to the claim for %s: %s', consumer, claim.text)
        self._attempt.note_unavailable(PLACEMENT, claim.text)
        self._undo(self._made)
        became = 'may be left behind' if consumer in self._left_behind else 'was undone'
        raise errors.AllocationUpdateFailed(
            consumer,
            f'placement did not answer, and the claim {became}; try again',
        )

    def _undo(
        self,
        claims: Sequence[Claimed | ClaimUnknown],
        outcome: Outcome = Outcome.ROLLED_BACK,
        text: str = '',
        records: bool = True,
    ) -> None:
        """Undo claims, the last one first; log those that may be left behind.

        ``records``: the request is recorded still, and with it the ``outcome``.
        """
        claims = claims[::-1]
        consumers = [claim.consumer_uuid for claim in claims]
        LOG.debug('Cleaning up allocations for %s', consumers)
        keeps_lost = records and self._attempt.retries_rollback
        with self._recorder.stage('undo'):
            left = self._placement.undo(
                self._context, claims, UNDO_WITHIN_S, keeps_unknown=keeps_lost
            )
        gone = {*consumers}
        self._made = [c for c in self._made if c.consumer_uuid not in gone]
        self._attempt.rollback_uncertain |= bool(left.unsure)
        undone = [consumer for consumer in consumers if consumer not in left]
        self._journal.settle(*undone)
        lost = [claim for claim in claims if claim.consumer_uuid in left]
        self._leave_behind(lost, left, keeps_lost)
        if records:
            self._record_undone(undone, left, outcome, text)

    def _record_undone(
        self,
        undone: Sequence[str],
        left: Mapping[str, str],
        outcome: Outcome,
        text: str,
    ) -> None:
        if undone:
            picks = [self._wanted[consumer] for consumer in undone]
            self._recorder.claimed(picks, outcome, text)
        for consumer, why in left.items():
            self._recorder.claimed([self._wanted[consumer]], Outcome.UNKNOWN, why)

    def _leave_behind(
        self,
        claims: Sequence[Claimed | ClaimUnknown],
        why: Mapping[str, str],
        keeps_lost: bool,
    ) -> None:
        """Leave claims that could not be undone to the next attempt, or to recovery."""
        self._left_behind += why
        self._budget.spend(Outcome.UNKNOWN, len(why))
        for claim in claims:
            consumer = claim.consumer_uuid
            entry, wanted = self._journal.take(consumer), self._wanted[consumer]
            lost = UnresolvedClaim(claim, why[consumer], entry, wanted, self._version)
            if keeps_lost:
                self._attempt.lost.append(lost)
            else:
                lost.hand_to_recovery()

    def _undo_unread(self) -> None:
        """Undo claims whose answer reached no reader; keep those that were adopted."""
        for consumer, adopted in self._attempt.adopts.items():
            self._journal.take(consumer)
            adopted.keep()
        if not self._made:
            return
        LOG.warning(
            'The answer to request %s could not be delivered; its claims are undone',
            self._context.request_id,
        )
        self._undo(self._made, records=False)
        for forget in self.if_undone:
            forget()


@dataclass(frozen=True, kw_only=True)
class ClaimedRequest(ScheduleRequest):
    """A request whose hosts are claimed."""

    claims: Claims

    @classmethod
    def of(
        cls,
        request: ScheduleRequest,
        placement: Placement,
        journal: Journal | None = None,
    ) -> Self:
        """Return a request with what holds its claims together."""
        return cls(**vars(request), claims=Claims(placement, request, journal))

    def claiming(self) -> contextlib.AbstractContextManager[object]:
        return self.claims

    def check_caller(self) -> None:
        self.claims.check_caller()


def chunks(
    wanted: Sequence[ClaimRequest], size: int = CHUNK
) -> Sequence[Sequence[ClaimRequest]]:
    """Split claims into chunks of ``size`` at most; those for one host stay together.

    A host is the provider that most claims take from. One that more than ``size`` take
    from, such as shared storage, counts only where there is no other.
    """
    if len(wanted) <= size:
        return [wanted]
    takers = Counter(name for pick in wanted for name in pick.candidate['allocations'])
    by_host: dict[str, list[ClaimRequest]] = {}
    for pick in wanted:
        names = pick.candidate['allocations']
        host = max(names, key=lambda name: (takers[name] <= size, takers[name], name))
        by_host.setdefault(host, []).append(pick)
    split: list[list[ClaimRequest]] = [[]]
    for of_host in by_host.values():
        for start in range(0, len(of_host), size):
            part = of_host[start : start + size]
            if len(split[-1]) + len(part) > size:
                split.append([])
            split[-1] += part
    return split
