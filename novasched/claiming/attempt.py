# SPDX-License-Identifier: Apache-2.0
"""One attempt to serve a request: which services did not answer it, and which claims it
could not undo."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from typing import NamedTuple

from novasched.claiming.retries import RetryBudget
from novasched.outages import PLACEMENT
from novasched.ports import (
    Candidates,
    Claimed,
    ClaimRequest,
    ClaimUnknown,
    Entry,
    QueryFailed,
)
from novasched.ports.decisions import DecisionRecorder
from novasched.ports.outcomes import Outcome
from novasched.runtime.clock import SYSTEM_CLOCK

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


class LostClaim(NamedTuple):
    """A claim that could not be undone, and why; ``entry`` is that of the journal, open
    and of nobody else, if there is one. ``wanted`` is of this microversion."""

    claim: Claimed | ClaimUnknown
    why: str
    entry: Entry | None
    wanted: ClaimRequest
    version: str

    def settle(self) -> None:
        """It is undone, barred or adopted: nothing is left to do."""
        if self.entry is not None:
            self.entry.settle()

    def keep(self) -> None:
        """It stands, and nothing undoes it."""
        self.settle()
        LOG.warning(KEPT, self.claim.consumer_uuid, self.claim.consumer_uuid)

    def leave(self) -> None:
        """Leave it to recovery, or to the operator where there is none. What placement
        got after the claim was given up may be that of another delivery."""
        consumer = self.claim.consumer_uuid
        if self.entry is None:
            LOG.error(LEFT_BEHIND, consumer, self.why, consumer)
            return
        made_s_ago = SYSTEM_CLOCK.monotonic() - self.claim.by_s
        self.entry.undo_later(made_s_ago)
        LOG.warning(UNDONE_LATER, consumer, self.why)


@dataclass(eq=False)
class RequestAttempt:
    """What happens in one attempt.

    ``away`` has the services that did not answer, and what was the matter; ``lost`` the
    claims that could not be undone. ``keeps_lost``: who made the attempt undoes them
    once placement answers, else they are left at once. Claims of the consumers that
    ``may_arrive`` were lost before; ``unsure``: so was an undo. It ``adopts`` lost
    claims that stand, by consumer. ``offered`` are the candidates that it may choose
    from; None: they are not known, and ``is_query_lost`` that placement did not answer
    the query for them. ``was_announced``: the start of the request was told, in this
    attempt or before; ``has_turn``: it has waited, and goes on while others wait still.
    ``came_s`` is when the request came, on the monotonic clock, ``waited_s`` how long
    it has waited after it. The ``budget`` is of the request: each attempt has the same.
    """

    keeps_lost: bool = False
    has_turn: bool = False
    was_announced: bool = False
    may_arrive: frozenset[str] = frozenset()
    adopts: Mapping[str, LostClaim] = field(default_factory=dict[str, LostClaim])
    unsure: bool = False
    offered: Candidates | None = None
    came_s: float | None = None
    waited_s: float = 0.0
    is_query_lost: bool = False
    away: dict[str, str] = field(default_factory=dict)
    lost: list[LostClaim] = field(default_factory=list)
    budget: RetryBudget = field(default_factory=RetryBudget)

    @property
    def is_waited_for(self) -> bool:
        """Whether the request will wait for what did not answer."""
        return self.keeps_lost and bool(self.away)

    @property
    def adopted(self) -> Candidates | None:
        """The candidates that it adopts, as placement offers them; None: it adopts
        none."""
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
        """Take claims that stand for those of this attempt, which never undoes them.
        False: they are others."""
        is_adopted = all(map(self.may_claim, wanted))
        if is_adopted:
            recorder.claimed(wanted, Outcome.CLAIMED, ADOPTED)
        return is_adopted

    def may_claim(self, wanted: ClaimRequest) -> bool:
        """Whether it may claim this, or adopts it."""
        lost = self.adopts.get(wanted.consumer_uuid)
        return lost is None or wanted.candidate == lost.wanted.candidate

    def offers(self, answer: Candidates | QueryFailed) -> None:
        """Note what placement offers, or that it did not answer."""
        if not isinstance(answer, QueryFailed):
            self.offered = answer
        elif answer.is_away:
            self.is_query_lost = True
            self.missed(PLACEMENT, answer.text, answer.status)

    def missed(self, service: str, problem: str, status: int = 0) -> None:
        """A service did not answer, or with an HTTP ``status`` of one that is away."""
        if status in responses:
            problem = f'{status} {responses[status]}'
        line = ' '.join(problem.split())
        self.away.setdefault(service, line[:LONGEST_PROBLEM])
