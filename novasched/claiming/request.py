# SPDX-License-Identifier: Apache-2.0
"""The request that a driver places, how often it may decide again, and its attempts.

Two loops decide again: manager/attempts.py asks for candidates once more, and
drivers/filter_scheduler.py selects hosts once more. What did not work out is a Retry.
An attempt knows which services did not answer, and which claims could not be undone.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from http import HTTPStatus
from http.client import responses
from typing import NamedTuple

from novasched.cluster.freshness import ViewFreshness
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.ports import (
    ALL_HOSTS,
    NO_CALLER,
    Caller,
    Candidates,
    Claimed,
    ClaimRequest,
    ClaimUnknown,
    Entry,
    QueryFailed,
)
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Check, never
from novasched.scheduler.outcomes import Outcome

LOG = logging.getLogger(__name__)

LONGEST_PROBLEM = 200

ADOPTED = 'it was claimed before, and stands'
LEFT_BEHIND = (
    'Allocations of %s may be left behind: %s. When placement answers again, remove '
    'them with: openstack resource provider allocation delete %s'
)
UNDONE_LATER = (
    'Allocations of %s are not undone yet: %s. They stay in the journal, and are '
    'undone as soon as placement accepts it.'
)
KEPT = (
    'Allocations of %s are kept: another delivery of this request may have been '
    'answered with them. If it was not, they end with the server. Look at them with: '
    'openstack resource provider allocation show %s'
)


class Scope(IntEnum):
    """A part of the work for a request; each is within the one before."""

    REQUEST = auto()
    ATTEMPT = auto()  # between two outages
    CANDIDATES = auto()  # one set of candidates, one call of the driver
    SELECTION = auto()  # hosts for all instances
    INSTANCE = auto()  # a host for one instance
    PICK = auto()  # with one table of hosts
    WALK = auto()  # along all candidates


class Again(Enum):
    """Where a request goes on after something did not work out."""

    CANDIDATE = auto()  # with the next candidate
    INSTANCE = auto()  # decide for the instance once more
    HOSTS = auto()  # select hosts for all instances once more
    CANDIDATES = auto()  # ask for candidates once more
    ATTEMPT = auto()  # from the start
    NOWHERE = auto()  # there is no host among these candidates


@dataclass(frozen=True)
class Retry:
    """Something that did not work out, and where the request goes on."""

    why: Outcome
    text: str = ''
    again: Again = Again.NOWHERE
    blocks: tuple[str, str] | None = None  # a provider, by uuid, and a resource class
    cause: Exception | None = None  # the error behind it, if there is one


class Limit(NamedTuple):
    """How often a request may decide again for a reason, within a scope. Reasons with
    the same ``pool`` share it."""

    most: float
    scope: Scope
    again: Again
    pool: Outcome | None = None


MOST_ABORTS = 31
"""In the model of sixteen members placed at once, no member aborts more than 17 times,
or 11 times if it sees all others.
"""


def _aborts(again: Again, most: int = MOST_ABORTS) -> Limit:
    return Limit(most, Scope.ATTEMPT, again, Outcome.ABORTED)


LIMITS = {
    # a service is unavailable; the request is served from the start after the outage
    Outcome.OUTAGE: Limit(math.inf, Scope.REQUEST, Again.ATTEMPT),  # bounded in time
    Outcome.ARRIVED_LATE: Limit(8, Scope.REQUEST, Again.ATTEMPT),
    # the candidates will not do: manager/attempts.py asks for others
    Outcome.UNVERIFIED: Limit(1, Scope.ATTEMPT, Again.CANDIDATES),
    Outcome.COPY_LAGS: Limit(1, Scope.ATTEMPT, Again.CANDIDATES),
    Outcome.STALE: Limit(MOST_ABORTS + 1, Scope.ATTEMPT, Again.CANDIDATES),
    Outcome.INCOMPLETE: Limit(MOST_ABORTS + 1, Scope.ATTEMPT, Again.CANDIDATES),
    # the hosts will not do; after the last change of a host all cells are read
    Outcome.STALE_HOSTS: Limit(2, Scope.ATTEMPT, Again.HOSTS),
    Outcome.HOST_CHANGED: Limit(9, Scope.CANDIDATES, Again.HOSTS),
    # other requests claimed or picked the same
    Outcome.GROUP_BROKEN: _aborts(Again.HOSTS),
    Outcome.MEMBERS_MOVED: _aborts(Again.HOSTS, MOST_ABORTS + 1),
    Outcome.OVER_CAPACITY: _aborts(Again.CANDIDATE),
    Outcome.PICKED_BY_OTHER: Limit(8, Scope.CANDIDATES, Again.HOSTS),
    Outcome.PICKS_RELEASED: Limit(16, Scope.CANDIDATES, Again.HOSTS),
    # by default no more requests than that are served at once
    Outcome.PICKED_MEANWHILE: Limit(64, Scope.INSTANCE, Again.INSTANCE),
    # the next candidate may do
    Outcome.VOID: Limit(8, Scope.CANDIDATES, Again.CANDIDATE),
    Outcome.CONFLICT: Limit(math.inf, Scope.WALK, Again.CANDIDATE),
    Outcome.REFUSED: Limit(math.inf, Scope.WALK, Again.CANDIDATE),
    Outcome.UNAVAILABLE: Limit(3, Scope.CANDIDATES, Again.CANDIDATE),
    # claims that are tried again, further candidates of hosts, joint claims
    Outcome.BUSY: Limit(20, Scope.PICK, Again.CANDIDATE),
    Outcome.FURTHER: Limit(20, Scope.WALK, Again.CANDIDATE),
    Outcome.JOINT: Limit(2, Scope.SELECTION, Again.HOSTS),
    # nothing more is tried with these candidates
    Outcome.UNREACHABLE: Limit(0, Scope.CANDIDATES, Again.NOWHERE),
    Outcome.UNKNOWN: Limit(0, Scope.CANDIDATES, Again.NOWHERE),
    Outcome.GROUP_SPLIT: Limit(0, Scope.CANDIDATES, Again.NOWHERE),
    Outcome.NO_HOST: Limit(0, Scope.CANDIDATES, Again.NOWHERE),
}


class RetryBudget:
    """What one request has spent of LIMITS; ``counts`` are of the whole request.

    ``rounds`` says for which reasons the request did decide again, and how often.
    """

    def __init__(self) -> None:
        self.rounds = Counter[Outcome]()
        self._counts = {scope: Counter[Outcome]() for scope in Scope}
        self.counts = self._counts[Scope.REQUEST]

    def within(self, scope: Scope) -> Counter[Outcome]:
        """Return how often each reason was spent since a scope began."""
        return self._counts[scope]

    def renew(self, scope: Scope) -> None:
        """Begin a scope, and all that are within it."""
        for inner, counts in self._counts.items():
            if inner >= scope:
                counts.clear()

    def spend(self, reason: Outcome, times: int = 1) -> bool:
        """Count a reason; return whether the request may decide again for it."""
        for counts in self._counts.values():
            counts[reason] += times
        return not self.is_over(reason)

    def spent(self, reason: Outcome) -> int:
        """Return how much is spent of the limit of a reason."""
        limit = LIMITS[reason]
        counts = self._counts[limit.scope]
        if limit.pool is None:
            return counts[reason]
        return sum(counts[why] for why in LIMITS if LIMITS[why].pool == limit.pool)

    def is_spent(self, reason: Outcome) -> bool:
        """Return whether the request may not decide again for a reason."""
        return self.spent(reason) >= LIMITS[reason].most

    def is_over(self, reason: Outcome) -> bool:
        """Return whether a reason has ended what it bounds."""
        return self.spent(reason) > LIMITS[reason].most

    def retry(self, why: Outcome, text: str = '') -> Retry:
        """Spend a reason, and return where the request goes on."""
        may_retry = self.spend(why)
        return Retry(why, text, LIMITS[why].again if may_retry else Again.NOWHERE)

    def decide_again(self, why: Outcome, text: str = '') -> None:
        """Note that the request decides again, and why."""
        self.rounds[why] += 1
        LOG.debug('Deciding again: %s%s', why.text, f' ({text})' if text else '')


class UnresolvedClaim(NamedTuple):
    """A claim that could not be undone."""

    claim: Claimed | ClaimUnknown
    why: str  # the reason
    entry: Entry | None  # its open entry of the journal, if any; nobody else has it
    wanted: ClaimRequest
    version: str  # microversion of ``wanted``

    @property
    def consumer_uuid(self) -> str:
        return self.claim.consumer_uuid

    def resolved(self) -> None:
        """It is undone, barred or adopted: nothing is left to do."""
        if self.entry is not None:
            self.entry.settle()

    def answer(self, caller: Caller) -> None:
        """What is claimed since bars it, unless the answer reaches no reader."""
        if self.entry is not None:
            self.entry.answering()
        caller.when_answered(self.resolved)
        caller.if_undeliverable(self.hand_to_recovery)

    def keep(self) -> None:
        """It stands, and nothing undoes it."""
        self.resolved()
        LOG.warning(KEPT, self.consumer_uuid, self.consumer_uuid)

    def hand_to_recovery(self) -> None:
        """Leave the claim to recovery, or to the operator if there is no recovery.

        If placement gets a claim later, another delivery of the request may have sent
        it.
        """
        consumer = self.consumer_uuid
        if self.entry is None:
            LOG.error(LEFT_BEHIND, consumer, self.why, consumer)
            return
        made_s_ago = SYSTEM_CLOCK.monotonic() - self.claim.by_s
        self.entry.undo_later(made_s_ago)
        LOG.warning(UNDONE_LATER, consumer, self.why)


@dataclass(eq=False)
class RequestAttempt:
    """What happens in one attempt."""

    # its maker rolls unresolved claims back once placement answers; else recovery does
    retries_rollback: bool = False
    is_admitted: bool = False  # it has waited, and goes on while others wait still
    was_announced: bool = False  # the start of the request was told, now or before
    # consumers for which an unresolved claim of an earlier attempt may be written still
    in_flight: frozenset[str] = frozenset()
    # unresolved claims that stand and are answered, by consumer
    adopts: Mapping[str, UnresolvedClaim] = field(
        default_factory=dict[str, UnresolvedClaim]
    )
    rollback_uncertain: bool = False  # a rollback may be carried out later
    offered: Candidates | None = None  # None: it is not known what it may choose from
    is_query_lost: bool = False  # placement did not answer the query for candidates
    failed_query: QueryFailed | None = None  # one for others, which may not be needed
    came_s: float | None = None  # when the request came, on the monotonic clock
    waited_s: float = 0.0  # for how long it has waited after the attempt
    unavailable: dict[str, str] = field(default_factory=dict)  # problems by service
    lost: list[UnresolvedClaim] = field(default_factory=list)
    budget: RetryBudget = field(default_factory=RetryBudget)  # of the whole request

    @property
    def is_waited_for(self) -> bool:
        """Whether the request will wait for what did not answer."""
        return self.retries_rollback and bool(self.unavailable)

    @property
    def adopted(self) -> Candidates | None:
        """The candidates of the claims that it adopts, or None if it adopts none."""
        if not self.adopts:
            return None
        requests, summaries, version = [], {}, ''
        for lost in self.adopts.values():
            wanted, version = lost.wanted, lost.version
            requests.append(wanted.candidate)
            root = {'root_provider_uuid': wanted.node_uuid}
            summaries.update(dict.fromkeys(wanted.candidate['allocations'], root))
        return Candidates(requests, version, summaries)

    def adopt(self, wanted: Sequence[ClaimRequest], recorder: DecisionRecorder) -> bool:
        """Take standing claims as claims of this attempt, which never undoes them.

        Returns whether these are the claims that it adopts.
        """
        is_adopted = all(map(self.may_claim, wanted))
        if is_adopted:
            recorder.claimed(wanted, Outcome.CLAIMED, ADOPTED)
        return is_adopted

    def answer_adopted(self) -> dict[str, Entry]:
        """Return the journal entries of the claims that it adopts, by consumer. These
        claims are answered: they are lost no more."""
        adopted = self.adopts.values()
        self.lost[:] = [lost for lost in self.lost if lost not in adopted]
        return {c: claim.entry for c, claim in self.adopts.items() if claim.entry}

    def may_claim(self, wanted: ClaimRequest) -> bool:
        """Whether it may claim this, or adopts it."""
        lost = self.adopts.get(wanted.consumer_uuid)
        return lost is None or wanted.candidate == lost.wanted.candidate

    def offers(self, answer: Candidates | QueryFailed) -> None:
        """Note what placement offers, or that it did not answer."""
        self.failed_query = None
        if not isinstance(answer, QueryFailed):
            self.offered = answer
        elif answer.is_unavailable:
            self.is_query_lost = True
            self.note_unavailable(PLACEMENT, answer.text, answer.status)

    def note_unavailable(self, service: str, problem: str, status: int = 0) -> None:
        """Note a service that did not answer, or only with an HTTP ``status``."""
        if status >= HTTPStatus.BAD_REQUEST and status in responses:
            problem = f'{status} {responses[status]}'
        line = ' '.join(problem.split())
        self.unavailable.setdefault(service, line[:LONGEST_PROBLEM])


@dataclass(frozen=True)
class ScheduleRequest:
    """A request whose hosts are chosen, and not claimed.

    It is a rebuild, it names no instances, or the driver does not use placement.
    """

    context: RequestContext
    spec: RequestSpec
    instance_uuids: Sequence[str] = ()
    names_instances: bool = True  # else its hosts are not claimed
    return_alternates: bool = False
    return_objects: bool = True  # else the selected hosts as dicts
    candidates: Candidates = ALL_HOSTS
    caller: Caller = NO_CALLER
    recorder: DecisionRecorder = NO_RECORDER  # gets each decision
    check: Check = never  # called between two instances; raises to end the work
    freshness: ViewFreshness = field(default_factory=lambda: ViewFreshness(is_new=True))
    # notes which services did not answer
    attempt: RequestAttempt = field(default_factory=RequestAttempt)
    # whether placement may offer hosts that the copy of placement does not show yet
    copy_lags: Callable[[], bool] = lambda: False

    @property
    def budget(self) -> RetryBudget:
        """What the request may still decide again."""
        return self.attempt.budget

    @property
    def required(self) -> int:
        """The number of hosts to answer; what the request says may be stale."""
        return len(self.instance_uuids) or self.spec.num_instances

    def claiming(self) -> contextlib.AbstractContextManager[object]:
        """Return the context within which the driver claims, and the answer is sent."""
        return contextlib.nullcontext()

    def check_caller(self) -> None:
        """Raise CallerGone if something is claimed and the caller waits no more."""
