# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates by the root provider that they belong to, made when asked for.

One host of ten thousand is chosen: the candidates of the others are never made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from novasched.providers.candidates import CandidateSearch
from novasched.providers.table import ProviderTable
from novasched.scheduler.columns import Rows


class CandidatesByRoot(Mapping[str, list[Any]]):
    """The candidates of searches in one table by the uuid of their root, in order.

    ``most`` bounds the candidates of a root from each search, if it is not None.
    """

    def __init__(self, searches: Sequence[CandidateSearch], most: int | None) -> None:
        self._searches = searches
        self._most = most

    @property
    def table(self) -> ProviderTable:
        return self._searches[0].providers

    @cached_property
    def rows(self) -> Rows:
        """The roots that have a candidate, as rows of the table."""
        if len(self._searches) == 1:
            return self._searches[0].anchors
        found = np.concatenate([search.anchors for search in self._searches])
        _, first = np.unique(found, return_index=True)
        rows: Rows = found[np.sort(first)]
        return rows

    @property
    def shares(self) -> bool:
        """Some root is served by a provider of another tree."""
        return any(search.shares for search in self._searches)

    @property
    def amounts_of_root(self) -> Mapping[str, int] | None:
        """The amounts that each root gives by itself, in its only candidate; None if
        there are other candidates."""
        return self._searches[0].amounts_of_root if len(self._searches) == 1 else None

    @property
    def cut(self) -> bool:
        """Some root may have more candidates than the bound."""
        most = self._most
        return most is not None and any(s.most_of_root > most for s in self._searches)

    def flat(self, whole: bool = True) -> list[dict[str, Any]]:
        """Return the candidates, the first of each root before all others: all, or at
        most so many as all roots may have."""
        found = itertools.chain.from_iterable(self._searches)
        most = None if whole or self._most is None else self._most * len(self.rows)
        return list(itertools.islice(found, most))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return map(self.table.uuids.__getitem__, self.rows.tolist())

    def __getitem__(self, uuid: str) -> list[dict[str, Any]]:
        row = self.table.rows_by_uuid[uuid]
        found = [
            candidate
            for search in self._searches
            for candidate in itertools.islice(search.under(row), self._most)
        ]
        if not found:
            raise KeyError(uuid)
        return found


class TableSummaries(Mapping[str, Any]):
    """Provider summaries by uuid, made when one is asked for."""

    def __init__(self, table: ProviderTable) -> None:
        self._table = table

    def __getitem__(self, uuid: str) -> dict[str, object]:
        return self._table.summary(self._table.rows_by_uuid[uuid])

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.uuids)

    def __len__(self) -> int:
        return len(self._table)
