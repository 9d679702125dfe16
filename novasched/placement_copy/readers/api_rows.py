# SPDX-License-Identifier: Apache-2.0
"""One read of providers through placement's API, while they change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from novasched.placement_copy.readers.api_requests import (
    NotFound,
    ProviderRows,
    ProvidersApi,
)
from novasched.providers.contents import Contents
from novasched.scheduler.columns import Ints

BULK = 50
"""A query of candidates costs placement as much for so many providers as the usages and
traits of one."""

MIXED = -1
"""Generation of a provider that changed while it was read; none has it."""


class PlainReads:
    """What a store by the API does not read."""

    def holders(self, consumers: Collection[str]) -> None:
        """Return nothing: placement.allocations reads them when they matter."""

    def usages(self, mine: Mapping[str, str]) -> None:
        """Return None, as holders() does."""

    def change_token(self) -> None:
        """Return None, as the API does not say whether anything was written."""


class ProviderRead:
    """What was read of providers by now: ``rows`` by table and id.

    ``kept`` has the answers of a read that failed, and gets the answers of this one.
    """

    def __init__(
        self, api: ProvidersApi, listed: Ints, kept: dict[tuple[int, str], ProviderRows]
    ) -> None:
        self._api = api
        self._listed = listed
        self._kept = kept
        self._generations: defaultdict[int, set[int]] = defaultdict(set)
        self._gone: set[int] = set()
        self.rows: dict[str, dict[int, Any]] = {
            table: {} for table in ('inventories', 'usages', 'traits', 'aggregates')
        }

    def ask(self, ids: Ints, *tables: str) -> None:
        """Read what is not read yet of these providers, one by one."""
        listed = dict(self._listed[:, :2].tolist())
        for id_ in ids.tolist():
            missing = [table for table in tables if id_ not in self.rows[table]]
            for table in missing if id_ not in self._gone else ():
                try:
                    answer = self._answer(id_, table, listed[id_])
                except NotFound:
                    self._gone.add(id_)
                    break
                self.rows[table][id_] = answer.rows
                self._generations[id_].add(answer.generation)

    def _answer(self, id_: int, table: str, generation: int) -> ProviderRows:
        """Return a kept answer, if it is as new as the listing; usage never is."""
        answer = self._kept.get((id_, table))
        if answer is None or answer.generation != generation:
            answer = self._api.of(id_, table)
            if table != 'usages':
                self._kept[id_, table] = answer
        return answer

    def ask_in_bulk(self, having: Ints, ids: Ints) -> None:
        """Read usage and traits of these providers from candidates for each class,
        while that is cheaper than to ask for the rest one by one.

        ``having`` says which provider has an inventory of which class.
        """
        having = having[np.isin(having[:, 0], ids)]
        while len(having):
            classes, counts = np.unique(having[:, 1], return_counts=True)
            if counts.max() * BULK < len(self._listed):
                break
            class_id = classes[counts.argmax()]
            for id_, said in self._api.summaries(int(class_id)).items():
                self.rows['usages'][id_] = said.usage
                self.rows['traits'][id_] = said.traits
            done = np.array(list(self.rows['usages']), np.int64)
            having = having[having[:, 1] != class_id]
            having = having[~np.isin(having[:, 0], done)]

    def providers(self, before: Ints, whole: Ints) -> Ints:
        """Return the providers that are still there, and none whose parent is not.

        Those that were read as a whole have the generation of the answers, others that
        of the rows ``before``.
        """
        generations = dict(before[:, :2].tolist())
        for id_ in whole.tolist():
            read = self._generations[id_]
            generations[id_] = min(read) if len(read) == 1 else MIXED
        found = self.there()
        found[:, 1] = [generations[id_] for id_ in found[:, 0].tolist()]
        return found

    def there(self) -> Ints:
        """Return the listed providers that are there, and none whose parent is not."""
        found = self._listed[~np.isin(self._listed[:, 0], list(self._gone))]
        while True:
            there = np.isin(found[:, 2:], [*found[:, 0], 0]).all(axis=1)
            if there.all():
                return found
            found = found[there]


def full_or_bare(contents: Contents, ids: Ints) -> Ints:
    """Return the ids without inventory or with a full one: all of it is guessed."""
    rows = contents.inventories[np.isin(contents.inventories[:, 0], ids)]
    capacities = {(p, c): total for p, c, total in rows[:, :3].astype(int).tolist()}
    used = contents.usage[np.isin(contents.usage[:, 0], ids)]
    full = {p for p, c, amount in used.tolist() if capacities.get((p, c)) == amount}
    bare = {*ids.tolist()}.difference(p for p, _ in capacities)
    return np.array(sorted(full | bare), np.int64)
