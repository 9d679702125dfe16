# SPDX-License-Identifier: Apache-2.0
"""Reads what placement's API says of providers, at a share of placement's time.

The API has neither a call for everything nor a snapshot. What is kept of a provider is
at least as new as the generation that is kept with it, so that a later listing shows
every change that came between two answers.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from keystoneauth1.adapter import Adapter

from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.placement.providers import NotFound, ProviderRows, ProvidersApi, Throttle
from novasched.providers.contents import NOTHING, Contents, by_provider, has_same_rows
from novasched.scheduler.columns import Floats, Ints

A = TypeVar('A', Ints, Floats)

SHARE = 0.03

BULK = 50
"""A query of candidates costs placement as much for so many providers as the usages and
traits of one."""

AT_ONCE = 20
"""Changed providers of which all is read at once; of a large cloud, one in BULK."""

MIXED = -1
"""Generation of a provider that changed while it was read; none has it."""


class PlacementApiContents:
    """The contents of placement, read through its API by one thread at a time.

    Satisfies ports.ProviderStore. Requests take at most ``share`` of the time, which
    makes a first load long. Ids are numbers of this process; a uuid or name keeps its
    own. The API has ratios only as clients read them: on MariaDB and MySQL ``room`` may
    be a unit more than placement offers, which a claim may take all the same.

    Reads raise errors.StoreFailed where placement does not answer as it should, and
    after ``close()``. The next one goes on with what was read until then.
    """

    reads_fast = False

    def __init__(
        self,
        adapter: Adapter,
        share: float = SHARE,
        clock: Clock = SYSTEM_CLOCK,
        closed: threading.Event | None = None,
    ) -> None:
        self._closed = closed or threading.Event()
        self._api = ProvidersApi(adapter, Throttle(share, clock, self._closed))
        self._answers: dict[tuple[int, str], ProviderRows] = {}
        self._reads = 0
        self._last_read: dict[int, int] = {}

    def close(self) -> None:
        """End a read in another thread before its next request."""
        self._closed.set()

    def read(self) -> Contents:
        """Return all there is."""
        listed = self._api.providers()
        everything = listed[:, 0]
        return self._read(NOTHING, listed, everything, everything, with_silent=False)

    def read_since(
        self, before: Contents, with_silent: bool, suspects: Collection[int] = ()
    ) -> Contents:
        """Return all there is now.

        Where many providers have changed, the usage of all is read, and the rest of
        some; the others keep their generation, and it is their turn next time. With
        ``with_silent``, turns come to providers that have not changed,
        too: so the aggregates that no provider had before are found, and whatever
        was missed.
        """
        listed = self._api.providers()
        everything = listed[:, 0]
        ids = before.changed(listed, suspects)
        doubtful = ids[np.isin(ids, list(suspects))]
        if not (with_silent or len(ids)) and np.array_equal(listed, before.providers):
            return before
        for id_, table in list(self._answers):
            if id_ in doubtful:
                del self._answers[id_, table]
        new = np.setdiff1d(ids, before.providers[:, 0])
        whole = np.union1d(new, doubtful)
        count = max(AT_ONCE, len(listed) // BULK)
        turns = self._turns(everything if with_silent else ids, ids)[:count]
        whole = np.union1d(whole, np.array(turns, np.int64))
        return self._read(before, listed, whole, np.union1d(ids, whole), with_silent)

    def trees(self, known: Contents, roots: Collection[int]) -> Contents | None:
        """Look at the generations of each tree, and for more of the providers that have
        another one. Aggregates that an old client set change no generation."""
        api = self._api.at_once()
        listed = np.concatenate(
            [api.providers(f'?in_tree={api.uuids.names[root]}') for root in roots]
        )
        before, changed = known.trees(roots), known.changed(listed)
        places = [0, 2, 3]
        if not len(changed) and has_same_rows(
            listed[:, places], before.providers[:, places]
        ):
            return None
        reading = _ProviderRead(api, listed, {})
        reading.ask(changed, 'inventories', 'traits', 'aggregates')
        rows = reading.rows
        fresh = replace(
            NOTHING,
            providers=reading.there(),
            inventories=_put(NOTHING.inventories, changed, rows['inventories']),
            traits=_put(NOTHING.traits, changed, rows['traits']),
            aggregates=_put(NOTHING.aggregates, changed, rows['aggregates']),
            uuids=api.uuids.named(listed[:, 0]),
            class_names=dict(api.classes.names),
            trait_names=dict(api.traits.names),
            aggregate_uuids=dict(api.aggregates.names),
        )
        after = before.updated(fresh, changed)
        return None if before.says_the_same(after) else after

    def change_token(self) -> None:
        """Return None: the API does not say whether anything was written."""

    def _turns(self, ids: Ints, changed: Ints) -> list[int]:
        """Return the ids, changed ones first, in the order of their last read."""
        first = set(changed.tolist())
        return sorted(
            ids.tolist(),
            key=lambda id_: (id_ not in first, self._last_read.get(id_, 0)),
        )

    def _read(
        self, before: Contents, listed: Ints, whole: Ints, ids: Ints, with_silent: bool
    ) -> Contents:
        """Return ``before`` with all that is said now of the providers that are read as
        a whole, and the usage of those with these ids; with
        ``with_silent``, the usage and the aggregates of every provider."""
        api, everything = self._api, listed[:, 0]
        classes, traits = api.class_ids(), api.trait_ids()
        reading = _ProviderRead(api, listed, self._answers)
        reading.ask(whole, 'inventories', 'aggregates')
        inventories = _put(before.inventories, whole, reading.rows['inventories'])
        having = inventories[:, :2].astype(np.int64)
        reading.ask_in_bulk(having, everything if with_silent else ids)
        reading.ask(np.intersect1d(ids, having[:, 0]), 'usages')
        reading.ask(whole, 'traits')
        if with_silent:
            reading.ask(np.intersect1d(everything, before.usage[:, 0]), 'usages')
            aggregates = api.memberships()
        else:
            aggregates = _put(before.aggregates, whole, reading.rows['aggregates'])
        self._answers.clear()
        self._reads += 1
        self._last_read.update(dict.fromkeys(whole.tolist(), self._reads))
        providers = reading.providers(before, whole)
        after = Contents(
            providers=providers,
            inventories=_of(providers, inventories),
            usage=_of(providers, _put(before.usage, ids, reading.rows['usages'])),
            traits=by_provider(
                _of(providers, _put(before.traits, whole, reading.rows['traits']))
            ),
            aggregates=_of(providers, aggregates),
            uuids=api.uuids.named(providers[:, 0]),
            class_names={},
            trait_names={},
            aggregate_uuids=dict(api.aggregates.names),
        )
        used_classes = np.concatenate([after.inventories[:, 1], after.usage[:, 1]])
        return _unless_same(
            before,
            replace(
                after,
                class_names=api.classes.named([*classes, *used_classes]),
                trait_names=api.traits.named([*traits, *after.traits[:, 1]]),
            ),
        )


class _ProviderRead:
    """What was read of providers by now: ``rows`` by table and id.

    ``kept`` are answers of a read that failed, and takes those of this one.
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
            for id_, (usage, traits) in self._api.summaries(int(class_id)).items():
                self.rows['usages'][id_] = usage
                self.rows['traits'][id_] = traits
            done = np.array(list(self.rows['usages']), np.int64)
            having = having[having[:, 1] != class_id]
            having = having[~np.isin(having[:, 0], done)]

    def providers(self, before: Contents, whole: Ints) -> Ints:
        """Return the providers that are still there, and none whose parent is not.

        Those that were read as a whole have the generation of the answers, others that
        which they had before.
        """
        generations = dict(before.providers[:, :2].tolist())
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


def _put(rows: A, ids: Ints, fresh: Mapping[int, A]) -> A:
    """Return the rows without those of the ids, and all that is fresh."""
    kept = rows[~np.isin(rows[:, 0], [*ids.tolist(), *fresh])]
    return np.concatenate([kept, *fresh.values()])


def _of(providers: Ints, rows: A) -> A:
    """Return the rows of the providers that are there."""
    return rows[np.isin(rows[:, 0], providers[:, 0])]


def _unless_same(before: Contents, after: Contents) -> Contents:
    """Return ``after``, with each table of ``before`` that has the same rows in any
    order; ``before``, if all have."""
    same = {}
    for field in fields(Contents):
        mine, theirs = getattr(before, field.name), getattr(after, field.name)
        is_table = isinstance(mine, np.ndarray)
        if has_same_rows(mine, theirs) if is_table else mine == theirs:
            same[field.name] = mine
    return before if len(same) == len(fields(Contents)) else replace(after, **same)
