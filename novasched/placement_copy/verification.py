# SPDX-License-Identifier: Apache-2.0
"""Verifies, before a claim, that placement would offer now what a copy offers.

A claim verifies amounts alone: placement looks at neither traits nor aggregates then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from novasched import errors
from novasched.placement_copy import PlacementCopy
from novasched.ports import Candidate, ProviderStore
from novasched.providers.candidates import search
from novasched.providers.contents import Contents, build
from novasched.providers.generation_cache import GenerationCache
from novasched.providers.table import ProviderTable
from novasched.resources import Query
from novasched.runtime.clock import Clock

MOST_CANDIDATES = 1000
"""Candidates of a host, of the providers of one pick, among which it is looked for."""


class Keeper(Protocol):
    """Keeps the copy, and learns what reads of placement show."""

    def look(self, read: Callable[[], Contents | None]) -> Contents | None:
        """Read placement, bounded in time."""

    def changed(self, provider_uuids: Iterable[str], void: int) -> None:
        """Providers are not what the copy says, and so many picks are void."""

    def failed(self, problem: Exception) -> errors.CopyError:
        """Placement must be asked; return why."""


class CopyVerifier:
    """Verifies candidates that ``queries`` found in known contents.

    Satisfies ports.CandidateVerifier.
    """

    def __init__(
        self,
        store: ProviderStore,
        known: PlacementCopy,
        queries: Sequence[Query],
        keeper: Keeper,
        clock: Clock,
    ) -> None:
        self._store = store
        self._contents, self._table = known.contents, known.table
        self._generations = GenerationCache(known.proved, clock.monotonic)
        self._queries = queries
        self._keeper = keeper

    def still_offered(self, picks: Sequence[tuple[str, Candidate]]) -> Sequence[bool]:
        try:
            return self._looked_at(picks)
        except MemoryError:
            raise
        except errors.CopyError as problem:
            self._keeper.failed(problem)
            raise
        except Exception as problem:  # placement can answer
            raise self._keeper.failed(problem) from problem

    def claimed(self, taken: Iterable[Candidate]) -> None:
        uuids = {uuid for one in taken for uuid in one['allocations']}
        self._generations.claimed(self._table.ids_of(uuids).tolist())

    def _looked_at(self, picks: Sequence[tuple[str, Candidate]]) -> Sequence[bool]:
        known, roots = self._contents, self._roots(picks)
        has_named = any(each.aggregates() for each in self._queries)
        # What a provider shares depends on the aggregates that both are in.
        share = any(len(self._roots([each])) > 1 for each in picks)
        is_alone = len(self._queries) == 1 and not share
        terms = self._queries[0].terms_of_one() if is_alone else None
        now = self._keeper.look(
            lambda: self._store.trees(
                known, roots, has_named or share, terms, self._generations
            )
        )
        if now is None:
            return [True] * len(picks)
        offered = list(self._offered(now, picks))
        self._keeper.changed(now.uuids.values(), offered.count(False))
        return offered

    def _roots(self, picks: Sequence[tuple[str, Candidate]]) -> set[int]:
        """Return the ids of the roots of all providers that picks depend on."""
        uuids = {uuid for node, one in picks for uuid in (node, *one['allocations'])}
        providers = self._contents.providers
        at = np.searchsorted(providers[:, 0], self._table.ids_of(uuids))
        return set(providers[at, 2].tolist())

    def _offered(
        self, now: Contents, picks: Sequence[tuple[str, Candidate]]
    ) -> Iterable[bool]:
        """Yield for each pick whether it is a candidate by the rules of the queries.

        Nothing counts as used, and nothing is taken from other providers.
        """
        taken = {uuid for _, one in picks for uuid in one['allocations']}
        table = self._table_of(now, taken)
        try:
            searches = [search(each, table) for each in self._queries]
        except errors.InvalidCandidateQuery:
            searches = []
        for node, candidate in picks:
            named = node or next(iter(candidate['allocations']))
            row = table.rows_by_uuid.get(named)
            root = None if row is None else int(table.roots[row])
            yield root is not None and any(
                _has(each.under(root), candidate) for each in searches
            )

    def _table_of(self, now: Contents, uuids: Collection[str]) -> ProviderTable:
        """Return the table of what there is now, with inventories of some alone."""
        ids = [id_ for id_, uuid in now.uuids.items() if uuid in uuids]
        known = self._contents
        return build(
            replace(
                now,
                inventories=now.inventories[np.isin(now.inventories[:, 0], ids)],
                class_names={**known.class_names, **now.class_names},
                trait_names={**known.trait_names, **now.trait_names},
                aggregate_uuids={**known.aggregate_uuids, **now.aggregate_uuids},
            )
        )


def _has(found: Iterable[Candidate], candidate: Candidate) -> bool:
    among = itertools.islice(found, MOST_CANDIDATES)
    return any(_are_same(each, candidate) for each in among)


def _are_same(one: Candidate, other: Candidate) -> bool:
    """Return whether two candidates are the same, in whatever order they were made."""
    mappings = (
        {suffix: set(uuids) for suffix, uuids in each['mappings'].items()}
        for each in (one, other)
    )
    return one['allocations'] == other['allocations'] and next(mappings) == next(
        mappings
    )
