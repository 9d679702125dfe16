# SPDX-License-Identifier: Apache-2.0
"""Own claims that the copy of placement does not show yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MOST = 10_000
"""Own claims that are remembered one by one, until a look shows them."""

Amounts = Mapping[str, Mapping[str, int]]
"""Amounts by class by provider."""


class Assumed(NamedTuple):
    """What an own claim took, and when placement said so, on the monotonic clock."""

    taken: Amounts
    answered_at: float


class AssumedClaims:
    """Own claims by consumer, the oldest first; one thread at a time."""

    def __init__(self) -> None:
        self._claims: dict[str, Assumed] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, taken: Mapping[str, Amounts], now: float) -> Amounts:
        """Remember claims, by consumer; return what they took together.

        Of too many the oldest are forgotten: what they took stays taken in the table,
        until a look that comes later.
        """
        self._claims.update({c: Assumed(each, now) for c, each in taken.items()})
        while len(self._claims) > MOST:
            del self._claims[next(iter(self._claims))]
        return together(taken.values())

    def forget(self, consumers: Iterable[str]) -> Amounts:
        """Forget claims that were undone; return what they took together, less than
        zero."""
        found = [self._claims.pop(each, None) for each in consumers]
        freed = together(each.taken for each in found if each is not None)
        return {u: {n: -a for n, a in part.items()} for u, part in freed.items()}

    def since(self, as_of: float) -> Amounts:
        """Forget what a look at that time has shown; return what is left together."""
        self._claims = {
            c: each for c, each in self._claims.items() if each.answered_at > as_of
        }
        return together(each.taken for each in self._claims.values())


def together(taken: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts."""
    found: dict[str, Counter[str]] = {}
    for each in taken:
        for uuid, amounts in each.items():
            found.setdefault(uuid, Counter()).update(amounts)
    return {uuid: dict(amounts) for uuid, amounts in found.items()}
