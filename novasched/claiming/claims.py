# SPDX-License-Identifier: Apache-2.0
"""The claims of one request: kept together, or undone together."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, Self

from novasched import errors
from novasched.claiming.attempt import MOST_YIELDS, LostClaim, RequestAttempt
from novasched.claiming.capacity_check import Usages, overfull
from novasched.claiming.claim_chunks import chunks
from novasched.claiming.claim_journal import ClaimJournal
from novasched.claiming.host_candidates import HostsChanged, RemainingCapacity
from novasched.cluster.look import ClusterLook
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.ports import (
    Candidate,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    Verifier,
)
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.ports.outcomes import Outcome
from novasched.runtime.clock import SYSTEM_CLOCK

LOG = logging.getLogger(__name__)

VOID = 'placement would not offer it now: the copy of its state was behind'
CHANGED = 'the host, or its service, has changed since it was looked at'
MOST_AWAY = 3
"""Claims that a placement refuses which is away, where the request can wait for it."""
MOST_CHANGED = 8
"""Picks of which the host may have changed; then all cells are looked at."""
UNDO_WITHIN_S = 30.0
"""How long a request may go on undoing its claims, however many there are."""


class Claims:
    """Claims made within a ``with`` block; leaving it by an error undoes them.

    So does an answer that reaches no reader. Undoing ends soon after UNDO_WITHIN_S;
    ``left_behind`` are the consumers of which nothing is known then. The error that
    ended the block is the one that goes on. ``remaining`` knows what was claimed, and
    what was refused as too little was left; ``refused`` is the number of candidates
    that were refused, ``conflicts`` that of those that may do when tried again, and
    ``yields`` how often claims were undone as a provider was over capacity; without
    ``enforces_capacity`` none are. ``claim_journal`` has all written down, should this
    process be killed. ``if_undone`` are called after undoing. What is claimed is
    verified first by the ``verifier``, if there is one; after ``most_void`` picks that
    are void by now, the candidates are not worth another one. So are the hosts, by the
    ``look`` that showed them; HostsChanged is raised where one is not as it was, and
    nothing is claimed yet. ``unverified``: the former could not be done; ``unreached``:
    it could not be asked for a claim. The ``attempt`` is told where placement did not
    answer, and gets the claims that cannot be undone, if it keeps them.
    """

    def __init__(
        self,
        placement: Placement,
        context: RequestContext,
        version: str,
        remaining: RemainingCapacity | None = None,
        claim_journal: ClaimJournal | None = None,
        recorder: DecisionRecorder = NO_RECORDER,
        verifier: Verifier | None = None,
        most_void: float = math.inf,
        look: ClusterLook | None = None,
        attempt: RequestAttempt | None = None,
    ) -> None:
        self._placement = placement
        self._attempt = attempt or RequestAttempt()
        self._context = context.elevated()
        self._user_id = context.user_id
        self._version = version
        self._made: list[Claimed | ClaimUnknown] = []
        self._wanted: dict[str, ClaimRequest] = {}
        self.remaining = remaining or RemainingCapacity({})
        self._journal = claim_journal or ClaimJournal()
        self._recorder = recorder
        self._verifier = verifier
        self._void_left = most_void
        self._look = look or ClusterLook(is_new=True)
        self._changed_left = MOST_CHANGED
        self._away_left = MOST_AWAY
        self._seen: dict[str, tuple[Candidate, str]] = {}
        self.unverified = self.unreached = False
        self.refused = 0
        self.conflicts = 0
        self.yields = 0
        self.enforces_capacity = True
        self.left_behind: list[str] = []
        self.if_undone: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
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
        if self._made:
            self._journal.check_caller()

    def alternates_offered(self, wanted: Sequence[ClaimRequest]) -> Sequence[bool]:
        """Return which alternates may be offered. Raises as _reasons does."""
        others = [one for one in wanted if self._of(one) is None]
        self._reasons(others, self._changed(others))
        return [not self._of(one) for one in wanted]

    def look_again(self) -> None:
        """Hosts are taken again: those may be fit that had merely changed."""
        for node, (candidate, why) in [*self._seen.items()]:
            if why == CHANGED:
                self.remaining.include(candidate)
                del self._seen[node]

    def _of(self, pick: ClaimRequest) -> str | None:
        """Return why a pick is void, empty if it is not; None: it was not looked at."""
        candidate, why = self._seen.get(pick.node_uuid, (None, None))
        return why if candidate == pick.candidate else None

    def _changed(self, wanted: Sequence[ClaimRequest]) -> Collection[str]:
        """Return the nodes of picks that are not as they were."""
        return self._look.changed({one.node_uuid for one in wanted if one.node_uuid})

    def _reasons(
        self, wanted: Sequence[ClaimRequest], changed: Collection[str]
    ) -> list[str]:
        """Return why each pick is void by now, empty if it is not. Raises
        errors.NoValidHost where that cannot be found out, and once too many were."""
        offered = iter(
            self._are_in_placement([o for o in wanted if o.node_uuid not in changed])
        )
        reasons = []
        for one in wanted:
            if one.node_uuid in changed:
                why = CHANGED
            else:
                why = '' if next(offered) else VOID
            if why:
                LOG.debug('The pick of %s is void: %s', one.node_uuid, why)
                self.remaining.exclude(one.candidate)
                self._void_left -= why == VOID
            self._seen[one.node_uuid] = one.candidate, why
            reasons.append(why)
        if self._void_left < 0:
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
        return reasons

    def _are_in_placement(self, wanted: Sequence[ClaimRequest]) -> Sequence[bool]:
        """Return which picks placement would offer now."""
        if self._verifier is None or not wanted:
            return [True] * len(wanted)
        try:
            with self._recorder.stage('verify'):
                return self._verifier.still_offered(
                    [(one.node_uuid, one.candidate) for one in wanted]
                )
        except errors.MirrorError as problem:
            LOG.debug('Picks cannot be verified, placement is asked: %s', problem)
            self.unverified = True
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS) from problem

    def _are_offered(
        self, wanted: Sequence[ClaimRequest], ahead: Sequence[ClaimRequest] = ()
    ) -> bool:
        """Return whether all picks are what they were picked as; record those that are
        void. What may be alternates is looked at with them. Raises HostsChanged."""
        changed = self._changed([*wanted, *ahead])
        if changed and not self._made and self._changed_left >= 0:
            self._record_void(
                [CHANGED if one.node_uuid in changed else '' for one in wanted], wanted
            )
            if not self._changed_left:
                self._look.refresh()
            self._changed_left -= 1
            raise HostsChanged
        reasons = self._reasons([*wanted, *ahead], changed)[: len(wanted)]
        self._record_void(reasons, wanted)
        return not any(reasons)

    def _record_void(
        self, reasons: Sequence[str], wanted: Sequence[ClaimRequest]
    ) -> None:
        for reason in (VOID, CHANGED):
            void = [o for o, why in zip(wanted, reasons, strict=True) if why == reason]
            if void:
                self._recorder.claimed(void, Outcome.VOID, reason)

    def make(
        self,
        request: RequestSpec,
        candidate: Candidate,
        node_uuid: str = '',
        ahead: Sequence[ClaimRequest] = (),
    ) -> bool:
        """Claim a candidate for the instance of the request; False: refused.

        What is likely to be an alternate may be verified ``ahead``, by the same look.

        Raises errors.AllocationUpdateFailed when the consumer changed meanwhile, holds
        something though the request is no move, or when it is unknown what became of
        the claim: all is undone, but a late one must not be added to that for another
        host. Raises errors.NoValidHost when placement cannot be reached, so that it is
        not tried for each host.
        """
        wanted = [ClaimRequest(request.instance_uuid, candidate, node_uuid)]
        if not self._are_offered(wanted, ahead):
            return False
        with (
            self._written(request, wanted),
            self._recorder.stage('claim'),
            self._after_lost(request.instance_uuid),
        ):
            outcome = self._placement.claim(
                self._context,
                request.instance_uuid,
                candidate,
                self._version,
                request.project_id,
                self._user_of(request),
                adds=self._adds(request),
            )
        if isinstance(outcome, ClaimRefused):
            self._refuse(wanted, outcome)
            self.conflicts += outcome.conflicted
            self.remaining.refuse(candidate, outcome.exhausted)
            LOG.debug('Claim for %s refused: %s', request.instance_uuid, outcome.text)
            return False
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
            if consumer_uuid in self._attempt.may_arrive:
                self._attempt.missed(PLACEMENT, str(changed))
            raise

    def _adds(self, request: RequestSpec) -> bool:
        """Whether a claim may be added to what the server holds: it is moved, and that
        is not an earlier claim of the request that arrived late."""
        is_lost = request.instance_uuid in self._attempt.may_arrive
        return request.is_move and not is_lost

    def make_all(self, request: RequestSpec, wanted: Sequence[ClaimRequest]) -> bool:
        """Claim for several instances, which hold nothing, all or none; False: none.

        Nothing else may be claimed before. Many are claimed chunk by chunk; the first
        chunk that is not granted ends it. Raises errors.AllocationUpdateFailed when
        placement does not answer, which undoes the claims, or when those before a
        refused chunk may be left behind. Raises errors.NoValidHost when placement
        cannot be reached, CallerGone when its caller has not waited for the next chunk.
        """
        if not self._are_offered(wanted):
            return False
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
                candidates = [one.candidate for one in wanted]
                self.remaining.refuse_all(candidates, outcome.exhausted)
                number, text = len(chunk), outcome.text
                LOG.debug('Claims for %d instances refused: %s', number, text)
                self._refuse(chunk, outcome)
                self._undo_before_another()
                return False
            self._keep(chunk, outcome)
        for one in wanted:
            self.remaining.take(one.candidate)
        return self._fit(wanted)

    def _fit(self, wanted: Sequence[ClaimRequest]) -> bool:
        """Return whether providers have room for claims that placement took; if not,
        as others have raced with them, these claims are undone. Of those that race, the
        last one sees all. Raises errors.NoValidHost where that was so too often."""
        if not self.enforces_capacity:
            return True
        made = self._made[-len(wanted) :]
        known = [(self._wanted[each.consumer_uuid], each) for each in made]
        found = overfull(self._usages, self._attempt, self.remaining, known)
        if found is None:
            return True
        LOG.debug('Claims for %d instances are undone: %s', len(wanted), found)
        for one in wanted:
            self.remaining.give_back(one.candidate)
        self._undo_before_another(Outcome.OVER_CAPACITY, str(found), made)
        if len(wanted) == 1:
            self.remaining.refuse(wanted[0].candidate, found.key)
        else:
            self.remaining.refuse_all([one.candidate for one in wanted], found.key)
        self.yields += 1
        self._attempt.yields += 1
        if self._attempt.yields >= MOST_YIELDS:
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
        return False

    def _usages(self, mine: Mapping[str, str]) -> Usages | QueryFailed:
        with self._recorder.stage('verify'):
            return self._placement.usages(self._context, mine)

    @contextlib.contextmanager
    def _written(
        self, request: RequestSpec, wanted: Sequence[ClaimRequest]
    ) -> Iterator[None]:
        """Write the claims to the journal, then claim within this context.

        An errors.RequestError means that nothing was claimed. Whatever else ends the
        context leaves the journal entries open.
        """
        for one in wanted:
            LOG.debug(
                'Attempting to claim resources in the placement API for instance %s',
                one.consumer_uuid,
            )
        self._journal.intend(self._context.request_id, request.project_id, wanted)
        try:
            yield
        except errors.RequestError:
            self._journal.settle(*(one.consumer_uuid for one in wanted))
            raise
        except Exception as defect:
            now = SYSTEM_CLOCK.monotonic()
            for one in wanted:
                entry = self._journal.take(one.consumer_uuid)
                claim = Claimed(one.consumer_uuid, by_s=now)
                LostClaim(claim, str(defect), entry).leave()
            raise

    def _user_of(self, request: RequestSpec) -> str | None:
        user_id = request.user_id if 'user_id' in request else None
        return user_id or self._user_id

    def _refuse(self, wanted: Sequence[ClaimRequest], refused: ClaimRefused) -> None:
        """Count a refusal; raise errors.NoValidHost where placement was not reached."""
        self._journal.settle(*(one.consumer_uuid for one in wanted))
        self._recorder.claimed(wanted, refused.outcome, refused.text)
        self.refused += 1
        if refused.is_away:
            self._attempt.missed(PLACEMENT, refused.text, refused.status)
            self._away_left -= self._attempt.keeps_lost
        if refused.status == 0 or self._away_left < 0:
            self.unreached = True
            LOG.log(
                logging.DEBUG if self._attempt.keeps_lost else logging.WARNING,
                'Placement cannot be reached, no host is tried any more: %s',
                refused.text,
            )
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)

    def _keep(
        self, wanted: Sequence[ClaimRequest], made: Sequence[Claimed | ClaimUnknown]
    ) -> None:
        """Remember claims; undo all where the outcome of one is unknown."""
        self._made += made
        self._wanted.update((one.consumer_uuid, one) for one in wanted)
        unknown = [claim for claim in made if isinstance(claim, ClaimUnknown)]
        outcome = Outcome.UNKNOWN if unknown else Outcome.CLAIMED
        self._recorder.claimed(wanted, outcome, unknown[0].text if unknown else '')
        for claim in made:
            if isinstance(claim, ClaimUnknown):
                self._give_up(claim)
        if self._verifier is not None:
            self._verifier.claimed(one.candidate for one in wanted)

    def yield_to(self, others: str) -> None:
        """Undo all claims, as those of ``others`` stand against them; what they took
        may be claimed again. Raises as _undo_before_another does, and CallerGone."""
        self.check_caller()
        for claim in self._made:
            self.remaining.give_back(self._wanted[claim.consumer_uuid].candidate)
        self._undo_before_another(Outcome.ABORTED, others)

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
        if self.left_behind or (claims and self._attempt.unsure):
            raise errors.AllocationUpdateFailed(
                (self.left_behind or [claims[0].consumer_uuid])[0],
                'it cannot get another host, as this claim may be left behind; try '
                'again',
            )

    def _give_up(self, claim: ClaimUnknown) -> NoReturn:
        """Undo all, as the request ends here; say whether something is left."""
        consumer = claim.consumer_uuid
        level = logging.DEBUG if self._attempt.keeps_lost else logging.WARNING
        LOG.log(level, 'No answer to the claim for %s: %s', consumer, claim.text)
        self._attempt.missed(PLACEMENT, claim.text)
        self._undo(self._made)
        became = 'may be left behind' if consumer in self.left_behind else 'was undone'
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
        with self._recorder.stage('claim') if records else contextlib.nullcontext():
            left = self._placement.undo(self._context, claims, UNDO_WITHIN_S)
        gone = {*consumers}
        self._made = [each for each in self._made if each.consumer_uuid not in gone]
        self._attempt.unsure |= bool(left.unsure)
        self._journal.settle(*(each for each in consumers if each not in left))
        self.left_behind += left
        for claim in claims:
            if why := left.get(claim.consumer_uuid):
                entry = self._journal.take(claim.consumer_uuid)
                lost = LostClaim(claim, why, entry)
                if records and self._attempt.keeps_lost:
                    self._attempt.lost.append(lost)
                else:
                    lost.leave()
        if not records:
            return
        undone = [self._wanted[each] for each in consumers if each not in left]
        if undone:
            self._recorder.claimed(undone, outcome, text)
        for consumer, why in left.items():
            self._recorder.claimed([self._wanted[consumer]], Outcome.UNKNOWN, why)

    def _undo_unread(self) -> None:
        """Undo claims whose answer reached no reader."""
        if not self._made:
            return
        LOG.warning(
            'The answer to request %s could not be delivered; its claims are undone',
            self._context.request_id,
        )
        self._undo(self._made, records=False)
        for forget in self.if_undone:
            forget()
