# SPDX-License-Identifier: Apache-2.0
"""The request that a driver places, and one attempt to serve it: which services did not
answer, and which claims could not be undone."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from typing import NamedTuple

from novasched.claiming.retries import RetryBudget
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
        if status in responses:
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
