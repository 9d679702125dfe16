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


class UnresolvedClaim(NamedTuple):
    """A claim that could not be undone, and why; ``entry`` is that of the journal, open
    and of nobody else, if there is one."""

    claim: Claimed | ClaimUnknown
    why: str
    entry: Entry | None

    def resolved(self) -> None:
        """It is undone, or barred: nothing is left to do."""
        if self.entry is not None:
            self.entry.settle()

    def hand_to_recovery(self, is_alone: bool = False) -> None:
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
    """What happens in one attempt."""

    # its maker rolls unresolved claims back once placement answers; else recovery does
    retries_rollback: bool = False
    is_admitted: bool = False  # it has waited, and goes on while others wait still
    was_announced: bool = False  # the start of the request was told, now or before
    # consumers for which an unresolved claim of an earlier attempt may be written still
    in_flight: frozenset[str] = frozenset()
    rollback_uncertain: bool = False  # a rollback may be carried out later
    offered: Candidates | None = None  # None: it is not known what it may choose from
    came_s: float | None = None  # when the request came, on the monotonic clock
    waited_s: float = 0.0  # for how long it has waited after the attempt
    unavailable: dict[str, str] = field(default_factory=dict)  # problems by service
    lost: list[UnresolvedClaim] = field(default_factory=list)
    budget: RetryBudget = field(default_factory=RetryBudget)  # of the whole request

    @property
    def is_waited_for(self) -> bool:
        """Whether the request will wait for what did not answer."""
        return self.retries_rollback and bool(self.unavailable)

    def offers(self, answer: Candidates | QueryFailed) -> None:
        """Note what placement offers, or that it did not answer."""
        if not isinstance(answer, QueryFailed):
            self.offered = answer
        elif answer.is_away:
            self.note_unavailable(PLACEMENT, answer.text, answer.status)

    def note_unavailable(self, service: str, problem: str, status: int = 0) -> None:
        """A service did not answer, or with an HTTP ``status`` of one that is away."""
        if status in responses:
            problem = f'{status} {responses[status]}'
        line = ' '.join(problem.split())
        self.unavailable.setdefault(service, line[:LONGEST_PROBLEM])
