# SPDX-License-Identifier: Apache-2.0
"""How often a request may decide again, by reason.

Two loops decide again: manager/attempts.py asks for candidates once more, and
drivers/filter_scheduler.py selects hosts once more. What did not work out is a Retry.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from novasched.scheduler.outcomes import Outcome

LOG = logging.getLogger(__name__)


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
