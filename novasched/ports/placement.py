# SPDX-License-Identifier: Apache-2.0
"""The placement service: candidates, claims and their outcomes."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.providers.by_root import CandidatesByRoot
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.deadline import Check, never
from novasched.scheduler.outcomes import Outcome

FORGET_AFTER_S = 600.0
"""A known root is looked up again after this time: it may have got a parent."""

Candidate = Mapping[str, Any]
"""One allocation request of placement: ``allocations`` and ``mappings``."""


class CandidateVerifier(Protocol):
    """Verifies that candidates of a copy of placement are what placement has now."""

    def still_offered(self, picks: Sequence[tuple[str, Candidate]]) -> Sequence[bool]:
        """Return for each pick, a compute node and a candidate with it, whether
        placement would offer it now, but for amounts, which a claim verifies.

        Raises errors.CopyError where that cannot be found out.
        """

    def claimed(self, taken: Iterable[Candidate]) -> None:
        """Know that one claim of candidates that were looked at has been made."""


@dataclass(frozen=True)
class Candidates:
    """The answer to an allocation candidates query."""

    # in placement's order; not to be modified
    requests: Sequence[Candidate] | CandidatesByRoot
    version: str
    # placement's, by provider uuid, parsed at the first access
    summaries: Mapping[str, Any] = field(
        default_factory=dict[str, Any], compare=False, repr=False
    )
    cut: bool = False  # whether the limit of the query kept some back
    further: bool = False  # asked for as a limit or a copy kept hosts back
    copy: int | None = None  # number of the copy of placement they are of, if any
    fallback: str = ''  # why placement was asked though there is a copy
    verifier: CandidateVerifier | None = field(default=None, compare=False, repr=False)

    def by_provider(
        self, nodes: Container[str] = frozenset(), roots: set[str] | None = None
    ) -> Mapping[str, list[Candidate]] | None:
        """Return the candidates by each provider that they take from, in order; None
        for ALL_HOSTS.

        A candidate that takes from none of ``nodes``, the known compute nodes, is also
        listed by the roots of its providers. It asks only for what children of a host
        have. ``roots`` are known roots, for which no summary is read; others are added.
        """
        if self is ALL_HOSTS:
            return None
        if isinstance(self.requests, CandidatesByRoot):
            return self.requests
        offered: dict[str, list[Candidate]] = {}
        roots = set() if roots is None else roots
        for candidate in self.requests:
            uuids = candidate['allocations']
            for uuid in uuids:
                offered.setdefault(uuid, []).append(candidate)
            if not any(uuid in nodes for uuid in uuids) and not roots.issuperset(uuids):
                for root in self._roots_above(uuids, roots):
                    offered.setdefault(root, []).append(candidate)
        return offered

    def _roots_above(self, uuids: Collection[str], roots: set[str]) -> list[str]:
        """Return the roots of providers that are not among them; note those that
        are."""
        above = {
            uuid: self.summaries[uuid].get('root_provider_uuid') or uuid
            for uuid in uuids
            if uuid in self.summaries
        }
        roots.update(uuid for uuid, root in above.items() if root == uuid)
        return [root for root in dict.fromkeys(above.values()) if root not in uuids]


ALL_HOSTS = Candidates((), '')
"""Placement is not asked: all known hosts are candidates."""


class KnownRoots:
    """The providers that were found to be roots though they are no compute nodes."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._uuids: set[str] = set()
        self._forget_at = clock.monotonic() + FORGET_AFTER_S

    def uuids(self) -> set[str]:
        """Return the set of their uuids, to which callers add those that they find."""
        if self._clock.monotonic() >= self._forget_at:
            self._uuids = set()
            self._forget_at = self._clock.monotonic() + FORGET_AFTER_S
        return self._uuids


@dataclass(frozen=True)
class QueryFailed:
    """Placement answered a query with an error, or not at all: ``status`` 0.

    ``is_unavailable``: it did not answer, or not with its own mouth, and may soon.
    """

    status: int
    text: str
    is_unavailable: bool = False


@dataclass(frozen=True)
class Claimed:
    """The consumer holds the candidate.

    ``undo`` is the body of the PUT that takes the claim back: what it held before, with
    the generation since the claim. ``holds`` is what it holds, amounts by class by
    provider, and ``by_s`` the monotonic time until which that was written. All three
    say whether a claim is still this one.
    """

    consumer_uuid: str
    undo: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    holds: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict[str, Mapping[str, int]], compare=False
    )
    by_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class ClaimRequest:
    """A candidate that is to be claimed for a consumer that holds nothing.

    ``node_uuid`` is the compute node that it was picked with, where that matters.
    """

    consumer_uuid: str
    candidate: Candidate
    node_uuid: str = ''


@dataclass(frozen=True)
class ClaimRefused:
    """Placement did not take the claim; the consumer holds what it held."""

    status: int  # 0 if placement could not be reached
    text: str
    # provider and class, if too little is left
    exhausted: tuple[str, str] | None = None
    conflicted: bool = False  # with another claim; it may succeed if tried again
    is_unavailable: bool = False  # see QueryFailed

    @property
    def outcome(self) -> Outcome:
        """The refusal in the words of records and metrics."""
        return Outcome.CONFLICT if self.status == 409 else Outcome.REFUSED


@dataclass(frozen=True)
class ClaimUnknown:
    """It is not known whether placement took the claim: it must be undone."""

    consumer_uuid: str
    text: str
    # these three as of Claimed, if placement took the claim
    holds: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict[str, Mapping[str, int]], compare=False
    )
    undo: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    by_s: float = field(default=0.0, compare=False)
    sent_s: float = field(default=0.0, compare=False)

    def as_claimed(self) -> Claimed:
        """Return the claim as one that placement took."""
        return Claimed(self.consumer_uuid, self.undo, self.holds, self.by_s)


class UndoOutcome(Enum):
    """Outcome of one attempt to undo a claim of an earlier request."""

    UNDONE = 'undone'
    CONFLICT = 'the consumer or a provider changed at that moment'
    ABSENT = 'the consumer does not hold exactly this'
    OTHER = 'it holds this, but did not get it by this claim'


class UndoLeft(dict[str, str]):
    """Why each of these consumers may still hold a claim."""

    def __init__(self, left: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(left)
        # an undo may be carried out later, also of a new equal claim
        self.unsure: set[str] = set()
        # of unknown fate; they stand and are to be kept
        self.standing: list[ClaimUnknown] = []


class UndoUnanswered(errors.AllocationDeleteFailed):
    """Placement does not answer: it is no use to ask it to undo more now."""


UNDO_WITHIN_S = 30.0
"""How long a request may go on undoing its claims, however many there are."""
MAY_ARRIVE = 'the claim was lost on its way, and may still arrive'
"""Why a claim is not undone whose consumer holds nothing."""
STANDS = 'a claim of unknown fate stands, or one like it'


class Placement(Protocol):
    """The placement service."""

    def answers(self) -> bool:
        """Return whether it answers now, and its database with it."""

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        """Ask GET /allocation_candidates; ``query`` is the encoded query string."""

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        """Return the uuids of a provider's aggregates."""

    def holders(
        self,
        context: RequestContext,
        consumers: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None = None,
    ) -> Mapping[str, Collection[str]] | QueryFailed:
        """Return the providers that each of ``consumers`` takes from now, if any.

        ``mine`` are other consumers, each with a provider that it takes from for
        certain. If the answer does not show this, it is too old. If only the providers
        ``among`` them matter, others may be left out.
        """

    def usages(
        self, context: RequestContext, mine: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]] | QueryFailed:
        """Return the usages of some providers now: amounts by class by provider.

        ``mine`` has for each of them a consumer that takes from it for certain. If the
        answer does not show this, it is too old.
        """

    def claim(
        self,
        context: RequestContext,
        wanted: ClaimRequest,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
        check: Check = never,
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        """Claim a candidate; ``adds``: beside what it holds already.

        ``check`` is called if the claim waits for others; what it raises ends it.
        Raises errors.AllocationUpdateFailed when the consumer holds something
        otherwise, and when another process changes it meanwhile.
        """

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | ClaimUnknown] | ClaimRefused:
        """Claim a candidate for each of several consumers that hold nothing: for all
        or for none."""

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        """Bring the consumers of one request back to what they held before.

        ``keeps_unknown``: a claim of unknown fate that stands is left: another delivery
        of the request may have made it.

        Returns those that may still hold more, and why. What another process wrote
        since stays as it is. Returns soon after ``within_s``.
        """
