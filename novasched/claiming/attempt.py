# SPDX-License-Identifier: Apache-2.0
"""One attempt to serve a request: which services did not answer it, and which claims it
could not undo."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from http.client import responses
from typing import NamedTuple

from novasched.claiming.retries import RetryBudget
from novasched.outages import PLACEMENT
from novasched.ports import Candidates, Claimed, ClaimUnknown, Entry, QueryFailed
from novasched.runtime.clock import SYSTEM_CLOCK

LOG = logging.getLogger(__name__)

LONGEST_PROBLEM = 200

LEFT_BEHIND = (
    'Allocations of %s may be left behind: %s. When placement answers again, remove '
    'them with: openstack resource provider allocation delete %s'
)
UNDONE_LATER = (
    'Allocations of %s are not undone yet: %s. They stay in the journal, and are '
    'undone as soon as placement accepts it.'
)


class LostClaim(NamedTuple):
    """A claim that could not be undone, and why; ``entry`` is that of the journal, open
    and of nobody else, if there is one."""

    claim: Claimed | ClaimUnknown
    why: str
    entry: Entry | None

    def settle(self) -> None:
        """It is undone, or barred: nothing is left to do."""
        if self.entry is not None:
            self.entry.settle()

    def leave(self, is_alone: bool = False) -> None:
        """Leave it to recovery, or to the operator where there is none. ``is_alone``:
        no other request can have made it until now, even if it arrived late."""
        consumer = self.claim.consumer_uuid
        if self.entry is None:
            LOG.error(LEFT_BEHIND, consumer, self.why, consumer)
            return
        made_s_ago = SYSTEM_CLOCK.monotonic() - self.claim.by_s
        self.entry.undo_later(0.0 if is_alone else made_s_ago)
        LOG.warning(UNDONE_LATER, consumer, self.why)


@dataclass(eq=False)
class RequestAttempt:
    """What happens in one attempt.

    ``away`` has the services that did not answer, and what was the matter; ``lost`` the
    claims that could not be undone. ``keeps_lost``: who made the attempt undoes them
    once placement answers, else they are left at once. Claims of the consumers that
    ``may_arrive`` were lost before; ``unsure``: so was an undo. ``offered`` are the
    candidates that it may choose from; None: they are not known. ``was_announced``: the
    start of the request was told, in this attempt or before; ``has_turn``: it has
    waited, and goes on while others wait still. ``came_s`` is when the request came, on
    the monotonic clock, ``waited_s`` how long it has waited after it. The ``budget`` is
    of the request: each attempt has the same.
    """

    keeps_lost: bool = False
    has_turn: bool = False
    was_announced: bool = False
    may_arrive: frozenset[str] = frozenset()
    unsure: bool = False
    offered: Candidates | None = None
    came_s: float | None = None
    waited_s: float = 0.0
    away: dict[str, str] = field(default_factory=dict)
    lost: list[LostClaim] = field(default_factory=list)
    budget: RetryBudget = field(default_factory=RetryBudget)

    @property
    def is_waited_for(self) -> bool:
        """Whether the request will wait for what did not answer."""
        return self.keeps_lost and bool(self.away)

    def offers(self, answer: Candidates | QueryFailed) -> None:
        """Note what placement offers, or that it did not answer."""
        if not isinstance(answer, QueryFailed):
            self.offered = answer
        elif answer.is_away:
            self.missed(PLACEMENT, answer.text, answer.status)

    def missed(self, service: str, problem: str, status: int = 0) -> None:
        """A service did not answer, or with an HTTP ``status`` of one that is away."""
        if status in responses:
            problem = f'{status} {responses[status]}'
        line = ' '.join(problem.split())
        self.away.setdefault(service, line[:LONGEST_PROBLEM])
