# SPDX-License-Identifier: Apache-2.0
"""Own claims that the copy of placement does not show yet."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from novasched.providers.table import Amounts

MOST = 10_000
"""Own claims that are remembered one by one, until a look shows them."""


class OwnClaim(NamedTuple):
    """What an own claim took, and when placement said so, on the monotonic clock."""

    taken: Amounts
    answered_at: float


class ShowsClaims(Protocol):
    """What shows own claims that it was read too early for."""

    @property
    def as_of(self) -> float:
        """When what it shows was so, on the monotonic clock."""

    def take(self, amounts: Amounts) -> None:
        """Show that more is used, or less; called with ``changing``."""


class OwnClaims:
    """Own claims of a process by consumer, the oldest first.

    During a reload two schedulers have a copy of placement each. Each shows the claims
    of both that were answered after the time of the copy. ``changing`` is held while
    claims, or the table of a copy, change.
    """

    def __init__(self) -> None:
        self.changing = threading.Lock()
        self._claims: dict[str, OwnClaim] = {}
        self._copies: weakref.WeakSet[ShowsClaims] = weakref.WeakSet()

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, consumer: object) -> bool:
        return consumer in self._claims

    def join(self, copy: ShowsClaims) -> None:
        """Let a copy show claims from now on."""
        with self.changing:
            self._copies.add(copy)

    def leave(self, copy: ShowsClaims) -> None:
        """Keep nothing for this copy any more."""
        with self.changing:
            self._copies.discard(copy)

    def add(self, taken: Mapping[str, Amounts], now: float) -> None:
        """Count claims that stand, by consumer.

        Of too many the oldest are forgotten: what they took stays taken in the tables,
        until a look that comes later.
        """
        with self.changing:
            self._claims.update({c: OwnClaim(each, now) for c, each in taken.items()})
            while len(self._claims) > MOST:
                del self._claims[next(iter(self._claims))]
            for copy in self._copies:
                copy.take(together(taken.values()))

    def forget(self, consumers: Iterable[str]) -> None:
        """Count claims no more: they were undone."""
        with self.changing:
            found = [self._claims.pop(c) for c in consumers if c in self._claims]
            for copy in self._copies:
                freed = together(c.taken for c in found if c.answered_at >= copy.as_of)
                copy.take(
                    {u: {n: -a for n, a in part.items()} for u, part in freed.items()}
                )

    def since(self, as_of: float) -> Amounts:
        """Return the sum of claims that were answered after that time, and forget
        those that every copy shows. The caller holds ``changing``."""
        shown = min((copy.as_of for copy in self._copies), default=as_of)
        self._claims = {
            c: each for c, each in self._claims.items() if each.answered_at > shown
        }
        left = (each for each in self._claims.values() if each.answered_at > as_of)
        return together(each.taken for each in left)


def together(taken: Iterable[Amounts]) -> Amounts:
    found: dict[str, Counter[str]] = {}
    for each in taken:
        for uuid, amounts in each.items():
            found.setdefault(uuid, Counter()).update(amounts)
    return {uuid: dict(amounts) for uuid, amounts in found.items()}
