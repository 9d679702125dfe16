# SPDX-License-Identifier: Apache-2.0
"""The capacity that providers have left for one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from novasched.ports import Candidate

Stock = tuple[str, str]
"""A provider, by uuid, and a resource class."""


class RemainingCapacity:
    """What placement offered, less what was claimed or refused since.

    Only a claim that cannot succeed does not fit: one that asks for what this
    request itself has used up, or for as much as was refused before. The summaries
    are not looked at before something was taken.
    """

    def __init__(self, summaries: Mapping[str, Any]) -> None:
        self._summaries = summaries
        self._taken: dict[Stock, int] = {}
        self._refused: dict[Stock, int] = {}
        self._most: dict[Stock, int] = {}

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = type(self)(self._summaries)
        copied._taken = self._taken.copy()
        copied._refused = self._refused.copy()
        copied._most = self._most.copy()
        return copied

    def fits(self, candidate: Candidate) -> bool:
        """Say whether a claim of the candidate may succeed."""
        return all(self._has(stock, amount) for stock, amount in _amounts(candidate))

    def fits_all(self, candidates: Iterable[Candidate]) -> bool:
        """Say whether claims of all the candidates may succeed together."""
        room = self.copy()
        for candidate in candidates:
            if not room.fits(candidate):
                return False
            room.take(candidate)
        return True

    def take(self, candidate: Candidate) -> None:
        """Count the candidate as claimed."""
        for stock, amount in _amounts(candidate):
            self._taken[stock] = self._taken.get(stock, 0) + amount

    def refuse(self, candidate: Candidate, exhausted: Stock | None) -> None:
        """Remember of what placement has not as much as the candidate asks for."""
        amount = dict(_amounts(candidate)).get(exhausted) if exhausted else None
        if exhausted and amount is not None:
            self._refused[exhausted] = min(amount, self._refused.get(exhausted, amount))

    def refuse_all(
        self, candidates: Iterable[Candidate], exhausted: Stock | None
    ) -> None:
        """Remember of what placement has not as much as these ask for together."""
        if exhausted is None:
            return
        total = sum(dict(_amounts(each)).get(exhausted, 0) for each in candidates)
        if total:
            less = self._taken.get(exhausted, 0) + total - 1
            self._most[exhausted] = min(less, self._most.get(exhausted, less))

    def _has(self, stock: Stock, amount: int) -> bool:
        refused = self._refused.get(stock)
        if refused is not None and amount >= refused:
            return False
        taken = self._taken.get(stock, 0)
        most = self._most.get(stock)
        if most is not None and taken + amount > most:
            return False
        free = self._free(stock) if taken else None
        return free is None or taken + amount <= free

    def _free(self, stock: Stock) -> int | None:
        """Return what was free when placement was asked; None: it did not say."""
        uuid, resource_class = stock
        try:
            summary = self._summaries[uuid]['resources'][resource_class]
            return int(summary['capacity'] - summary['used'])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None  # also for NaN and infinity


def _amounts(candidate: Candidate) -> Iterator[tuple[Stock, int]]:
    for uuid, allocation in candidate['allocations'].items():
        for resource_class, amount in allocation['resources'].items():
            yield (uuid, resource_class), amount
