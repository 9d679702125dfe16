# SPDX-License-Identifier: Apache-2.0
"""Verification of picks: before a claim, after it, and once all instances have a host;
and the capacity that remains.

A further verification is a class here, a line in Claims.verify_with and a row in
request.LIMITS. The rules of capacity:
docs/decisions/0020-capacity-is-verified-after-the-claim.md
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from novasched import errors
from novasched.claiming.request import LIMITS, Again, Retry, ScheduleRequest
from novasched.cluster.freshness import ViewFreshness
from novasched.outages import PLACEMENT
from novasched.ports import (
    Candidate,
    CandidateVerifier,
    Claimed,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
)
from novasched.ports.decisions import DecisionRecorder
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.outcomes import Outcome

LOG = logging.getLogger(__name__)

VOID = Retry(
    Outcome.VOID, 'placement would not offer it now: the copy of its state was behind'
)
CHANGED = Retry(
    Outcome.HOST_CHANGED, 'the host, or its service, has changed since it was looked at'
)

RACING = 16
"""Claims of the same size that others may have made since the copy was read, or
placement was asked."""
SPARE = 8
"""Part of a capacity, one in so many, that they may have taken by larger claims."""


ProviderClass = tuple[str, str]
"""A provider, by uuid, and a resource class."""
MadeClaims = Sequence[tuple[ClaimRequest, Claimed | ClaimUnknown]]


class RemainingCapacity:
    """What placement offered, less what was claimed or refused since.

    A candidate fits unless its claim is sure to fail. It is if this request itself has
    used the amount up, or if placement has refused as much. The summaries are not read
    before something is taken.
    """

    def __init__(self, summaries: Mapping[str, Any]) -> None:
        self._summaries = summaries
        self._resources: dict[str, Any] = {}
        self._taken: Counter[ProviderClass] = Counter()
        self._refused: dict[ProviderClass, int] = {}
        self._most: dict[ProviderClass, int] = {}
        self._excluded: list[Candidate] = []

    def copy(self) -> Self:
        copied = type(self)(self._summaries)
        copied._taken = self._taken.copy()
        copied._refused = self._refused.copy()
        copied._most = self._most.copy()
        copied._excluded = self._excluded.copy()
        return copied

    def fits(self, candidate: Candidate) -> bool:
        """Return whether a claim of the candidate may succeed."""
        if candidate in self._excluded:
            return False
        return all(self._has(key, amount) for key, amount in amounts_of(candidate))

    def fits_all(self, candidates: Iterable[Candidate]) -> bool:
        """Return whether claims of all the candidates may succeed together."""
        remaining = self.copy()
        for candidate in candidates:
            if not remaining.fits(candidate):
                return False
            remaining.take(candidate)
        return True

    def take(self, candidate: Candidate) -> None:
        """Count the candidate as claimed."""
        for key, amount in amounts_of(candidate):
            self._taken[key] += amount

    def give_back(self, candidate: Candidate) -> None:
        """Count the candidate as claimed no more."""
        self._taken.subtract(dict(amounts_of(candidate)))

    def exclude(self, candidate: Candidate) -> None:
        """Remember that this is no candidate any more."""
        if candidate not in self._excluded:
            self._excluded.append(candidate)

    def include(self, candidate: Candidate) -> None:
        """Forget that this was no candidate any more."""
        self._excluded.remove(candidate)

    def refuse(self, candidate: Candidate, exhausted: ProviderClass | None) -> None:
        """Remember of what placement has not as much as the candidate asks for."""
        for key, amount in amounts_of(candidate):
            if key == exhausted:
                self._refused[key] = min(amount, self._refused.get(key, amount))

    def refuse_all(
        self, candidates: Iterable[Candidate], exhausted: ProviderClass | None
    ) -> None:
        """Remember of what placement has not as much as these ask for together."""
        if exhausted is None:
            return
        total = sum(dict(amounts_of(c)).get(exhausted, 0) for c in candidates)
        if total:
            less = self._taken[exhausted] + total - 1
            self._most[exhausted] = min(less, self._most.get(exhausted, less))

    def left(self, key: ProviderClass) -> tuple[float, int]:
        """Return the free amount less what was taken, and the capacity; inf: placement
        did not say."""
        free, capacity = self._known(key)
        return free - self._taken.get(key, 0), capacity

    def _has(self, key: ProviderClass, amount: int) -> bool:
        taken = self._taken.get(key, 0)
        if amount >= self._refused.get(key, math.inf):
            return False
        if taken + amount > self._most.get(key, math.inf):
            return False
        return not taken or taken + amount <= self._known(key)[0]

    def _known(self, key: ProviderClass) -> tuple[float, int]:
        """Return the free amount when placement was asked, and the capacity; inf: it
        did not say."""
        uuid, resource_class = key
        try:
            if uuid not in self._resources:
                self._resources[uuid] = self._summaries[uuid]['resources']
            amounts = self._resources[uuid][resource_class]
            capacity = amounts['capacity']
            return int(capacity - amounts['used']), int(capacity)
        except (KeyError, TypeError, ValueError, OverflowError):
            return math.inf, 0  # also for NaN and infinity


def amounts_of(candidate: Candidate) -> Iterator[tuple[ProviderClass, int]]:
    """Yield the amounts that a candidate takes, by provider and class."""
    for uuid, allocation in candidate['allocations'].items():
        for resource_class, amount in allocation['resources'].items():
            yield (uuid, resource_class), amount


class Verifier:
    """Something that must hold of picks. Subclasses override the moments at which they
    look; by default all is well."""

    def before(self, picks: Sequence[ClaimRequest]) -> Sequence[Retry | None]:
        """Verify picks before they are claimed; return why each of them is void."""
        return [None] * len(picks)

    def claimed(self, picks: Sequence[ClaimRequest]) -> None:
        """Know that placement has taken these claims."""

    def after(self, claims: MadeClaims) -> Retry | None:
        """Verify claims that were just made; return why they are to be rolled back."""
        return None

    def placed(self, offered: HostTable, hosts: Sequence[HostState]) -> Retry | None:
        """Verify the hosts of all instances, chosen from those that were ``offered``.
        If they do not hold, roll the claims back and return why."""
        return None

    def released(self) -> Retry | None:
        """Return, before there is no host, what other requests have released since; the
        claims are rolled back then."""
        return None


class HostInCell(Verifier):
    """A host, with its service, is in its cell as the request has seen it."""

    def __init__(self, freshness: ViewFreshness) -> None:
        self._freshness = freshness

    def before(self, picks: Sequence[ClaimRequest]) -> Sequence[Retry | None]:
        nodes = {pick.node_uuid for pick in picks if pick.node_uuid}
        changed = self._freshness.stale_nodes(nodes)
        return [CHANGED if pick.node_uuid in changed else None for pick in picks]


@dataclass(eq=False)
class CandidateInPlacement(Verifier):
    """Placement would offer the candidate now; ``verifier`` is of its copy."""

    verifier: CandidateVerifier
    recorder: DecisionRecorder

    def before(self, picks: Sequence[ClaimRequest]) -> Sequence[Retry | None]:
        try:
            with self.recorder.stage('verify'):
                offered = self.verifier.still_offered(
                    [(pick.node_uuid, pick.candidate) for pick in picks]
                )
        except errors.CopyError as problem:
            LOG.debug('Picks cannot be verified, placement is asked: %s', problem)
            void = Retry(Outcome.UNVERIFIED, str(problem), cause=problem)
            return [void] * len(picks)
        return [None if is_offered else VOID for is_offered in offered]

    def claimed(self, picks: Sequence[ClaimRequest]) -> None:
        self.verifier.claimed(pick.candidate for pick in picks)


def is_short(left: float, amount: int, capacity: int) -> bool:
    """Return whether so little is left after a claim that it may be less than nothing,
    with what others have claimed meanwhile."""
    return left < max(RACING * amount, capacity // SPARE)


class ProviderCapacity(Verifier):
    """No provider is over capacity by claims, which are counted in ``remaining``.

    Only providers are looked at that are nearly full, and of which a consumer held
    nothing before.
    """

    def __init__(
        self,
        placement: Placement,
        request: ScheduleRequest,
        remaining: RemainingCapacity,
    ) -> None:
        self._placement = placement
        self._context = request.context.elevated()
        self._remaining = remaining
        self._attempt = request.attempt
        self._recorder = request.recorder

    def after(self, claims: MadeClaims) -> Retry | None:
        """Raises errors.AllocationUpdateFailed if placement is unavailable."""
        short, mine = dict[ProviderClass, int](), dict[str, str]()
        for wanted, claim in claims:
            for key, amount in amounts_of(wanted.candidate):
                if key[0] in claim.undo.get('allocations', ()):
                    continue
                left, capacity = self._remaining.left(key)
                if is_short(left, amount, capacity):
                    short[key], mine[key[0]] = capacity, claim.consumer_uuid
        if not short:
            return None
        with self._recorder.stage('verify'):
            usages = self._placement.usages(self._context, mine)
        if isinstance(usages, QueryFailed):
            if usages.is_unavailable:
                self._attempt.note_unavailable(PLACEMENT, usages.text, usages.status)
                raise errors.AllocationUpdateFailed(
                    next(iter(mine.values())),
                    'placement does not say whether its host is over capacity; try '
                    'again',
                )
            LOG.warning('Capacity is not verified after a claim: %s', usages.text)
            return None
        for (uuid, name), capacity in short.items():
            used = usages.get(uuid, {}).get(name, 0)
            if used > capacity:
                text = f'{used} of {capacity} {name} of {uuid} are used'
                return Retry(Outcome.OVER_CAPACITY, text, blocks=(uuid, name))
        return None


class PickVerification:
    """Verifies picks before they are claimed, and alternates before they are answered.

    What is void is no candidate any more. Too many void picks end the work with the
    candidates, if others may be newer.
    """

    def __init__(self, request: ScheduleRequest, remaining: RemainingCapacity) -> None:
        self._freshness = request.freshness
        self._remaining = remaining
        self._budget = request.budget
        self._recorder = request.recorder
        self._may_be_stale = not request.candidates.further
        self._seen: dict[str, tuple[Candidate, Retry | None]] = {}
        self.verifiers: Sequence[Verifier] = ()

    def alternates_offered(
        self, wanted: Sequence[ClaimRequest]
    ) -> Sequence[bool] | Retry:
        """Return which alternates may be offered, or why none of the candidates."""
        others = [pick for pick in wanted if self._known(pick) is None]
        retry = self._look_at(others, (), has_claims=True)
        if isinstance(retry, Retry):
            return retry
        return [not self._is_void(pick) for pick in wanted]

    def look_again(self) -> None:
        """Hosts are taken again: those may be fit that had merely changed."""
        for node, (candidate, verdict) in [*self._seen.items()]:
            if verdict == CHANGED:
                self._remaining.include(candidate)
                del self._seen[node]

    def _known(self, pick: ClaimRequest) -> tuple[Candidate, Retry | None] | None:
        """Return the candidate of a pick that was verified before, with its verdict."""
        known = self._seen.get(pick.node_uuid)
        return known if known is not None and known[0] == pick.candidate else None

    def _is_void(self, pick: ClaimRequest) -> bool:
        """Return whether a pick was verified before, and is void."""
        known = self._known(pick)
        return known is not None and known[1] is not None

    def _look_at(
        self,
        wanted: Sequence[ClaimRequest],
        ahead: Sequence[ClaimRequest],
        has_claims: bool,
    ) -> Sequence[Retry | None] | Retry:
        """Return why each pick is void, or why no other of these candidates is worth a
        claim now."""
        picks = [*wanted, *ahead]
        verdicts: list[Retry | None] = [None] * len(picks)
        for verifier in self.verifiers:
            left = [place for place, verdict in enumerate(verdicts) if verdict is None]
            new = verifier.before([picks[place] for place in left]) if left else ()
            for place, verdict in zip(left, new, strict=True):
                verdicts[place] = verdict
            if (retry := self._of_all(verdicts, wanted, has_claims)) is not None:
                return retry
        return self._excluded(picks, verdicts) or verdicts[: len(wanted)]

    def _excluded(
        self, picks: Sequence[ClaimRequest], verdicts: Sequence[Retry | None]
    ) -> Retry | None:
        """Exclude the picks that are void; return a verdict if there were too many."""
        ended = None
        for pick, verdict in zip(picks, verdicts, strict=True):
            self._seen[pick.node_uuid] = pick.candidate, verdict
            if verdict is None:
                continue
            LOG.debug('The pick of %s is void: %s', pick.node_uuid, verdict.text)
            self._remaining.exclude(pick.candidate)
            is_passed_over = LIMITS[verdict.why].again is Again.CANDIDATE
            if is_passed_over and not self._budget.spend(verdict.why):
                ended = verdict if self._may_be_stale else None
        return ended

    def _of_all(
        self,
        verdicts: Sequence[Retry | None],
        wanted: Sequence[ClaimRequest],
        has_claims: bool,
    ) -> Retry | None:
        """Return a verdict that concerns all candidates. Hosts are selected once more
        only while nothing is claimed; their picks are void otherwise."""
        for verdict in filter(None, verdicts):
            why, text = verdict.why, verdict.text
            again, is_spent = LIMITS[why].again, self._budget.is_spent(why)
            if again is Again.HOSTS and not (has_claims or is_spent):
                self._record_void(verdicts, wanted)
                retry = self._budget.retry(why, text)
                if self._budget.is_spent(why):
                    self._freshness.refresh()
                return retry
            if again is Again.CANDIDATES:
                return replace(self._budget.retry(why, text), cause=verdict.cause)
        return None

    def before(
        self,
        wanted: Sequence[ClaimRequest],
        ahead: Sequence[ClaimRequest] = (),
        has_claims: bool = False,
    ) -> Retry | None:
        """Verify picks before they are claimed, and likely alternates with them; record
        those that are void. Return why they are not to be claimed."""
        ahead = [pick for pick in ahead if not self._is_void(pick)]
        verdicts = self._look_at(wanted, ahead, has_claims)
        if isinstance(verdicts, Retry):
            return verdicts
        self._record_void(verdicts, wanted)
        void = next(filter(None, verdicts), None)
        return void and replace(void, again=Again.CANDIDATE)

    def _record_void(
        self, verdicts: Sequence[Retry | None], wanted: Sequence[ClaimRequest]
    ) -> None:
        void: dict[str, list[ClaimRequest]] = {}
        for pick, verdict in zip(wanted, verdicts, strict=False):
            if verdict is not None:
                void.setdefault(verdict.text, []).append(pick)
        for text, picks in void.items():
            self._recorder.claimed(picks, Outcome.VOID, text)
