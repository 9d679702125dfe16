# SPDX-License-Identifier: Apache-2.0
"""Reads what placement's API says of providers, at a share of placement's time.

The API has neither a call for everything nor a snapshot. What is kept of a provider is
at least as new as the generation kept with it. So a later listing shows every change
between two answers.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from keystoneauth1.adapter import Adapter

from novasched.placement_copy.readers.api_requests import (
    BULK,
    NotFound,
    PlainReads,
    ProviderRead,
    ProviderRows,
    ProvidersApi,
    Summary,
    Throttle,
    full_or_bare,
    joined,
)
from novasched.providers.contents import NOTHING, Contents
from novasched.providers.generation_cache import GenerationCache
from novasched.providers.hints import NO_HINTS, CloudHints, NodeSize
from novasched.providers.rows import by_provider, has_same_rows, put
from novasched.providers.table import SHARES
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor
from novasched.scheduler.columns import Floats, Ints

A = TypeVar('A', Ints, Floats)

SHARE, FIRST_SHARE = 0.02, 0.5
"""Of the time of one CPU of placement, what reading may take; of a first load."""

CLASSES = ('MEMORY_MB', 'VCPU', 'PCPU', 'DISK_GB')
"""Every compute has memory, so that one query for it shows most trees; the others are
for those whose memory is used up."""

AT_ONCE = 20
"""Changed providers of which all is read at once; of a large cloud, one in BULK."""

MORE_CLASSES = 8
"""Other classes that are asked for candidates in a first load."""

UNCHANGED_AT_ONCE = 2
"""Other providers of which all is read with each look for silent changes."""

FILLED_AT_ONCE, FILLED = 20, 200
"""Of how many providers what is guessed is read at once; of a large cloud, one in so
many."""

TREES_AT_ONCE = 4
"""Requests about trees of picks that are sent side by side."""

TREE = 125
"""To list so many providers costs placement as much as to read one tree."""

AGGREGATES_AT_ONCE = 2
"""Aggregates whose members are read again at once, in turns."""

NO_SUMMARY = Summary(NOTHING.usage, NOTHING.usage, NOTHING.traits)


class ApiReader(PlainReads):
    """Reads placement through its API, by one thread at a time.

    The first load takes capacities and usage from allocation candidates. Units,
    reserved amounts and ratios are guessed until read in turns; claims verify them. On
    MariaDB and MySQL ``room`` may be a unit too large. A read may fail with
    errors.StoreFailed; the next resumes.
    """

    reads_fast = False
    behind_s = 0.0

    def __init__(
        self,
        adapter: Adapter,
        share: float = SHARE,  # most of the time that requests may take
        clock: Clock = SYSTEM_CLOCK,
        closed: threading.Event | None = None,
    ) -> None:
        self._closed = closed or threading.Event()
        self._share = share
        self._throttle = Throttle(share, clock, self._closed)
        self._api = ProvidersApi(adapter, self._throttle)
        self._answers: dict[tuple[int, str], ProviderRows] = {}
        self._reads = 0
        self._last_read: dict[int, int] = {}
        self._first_share = max(FIRST_SHARE, share)
        self._listed_at = clock.monotonic()
        self._as_of, self._newest_at, self._was_newest_at = 0.0, math.inf, math.inf
        self._next = {'aggregates': 0, 'usages': 0}
        self._asking = BulkheadExecutor('placement-trees', TREES_AT_ONCE)

    def close(self) -> None:
        """End a read in another thread before its next request."""
        self._closed.set()
        self._asking.close()

    def read(self, hints: CloudHints = NO_HINTS) -> Contents:
        """Return all there is. After a load that failed, the next takes no more of the
        time than looks do."""
        self._throttle.share, self._first_share = self._first_share, self._share
        try:
            found = self._read_first(hints)
        finally:
            self._throttle.share = self._share
        self._first_share = max(FIRST_SHARE, self._share)
        return found

    def _listed(self) -> Ints:
        """List all providers; what is read is newer, but for answers that were kept."""
        called_at = self._throttle.clock.monotonic()
        listed = self._api.listed()
        self._was_newest_at, self._newest_at = self._newest_at, listed.newest_at
        self._as_of = self._as_of if self._answers else listed.as_of
        self._listed_at = self._throttle.began
        self.behind_s = called_at - self._listed_at
        return listed.rows

    def read_for_s(self) -> float:
        """Return for how long what was read last has been read."""
        return self._throttle.clock.monotonic() - self._listed_at

    def _read_first(self, hints: CloudHints) -> Contents:
        api = self._api
        listed = self._listed()
        everything = listed[:, 0]
        classes, traits = api.class_ids(), api.trait_ids()
        try:
            sharing = api.providers(f'?required={SHARES}')[:, 0]
        except NotFound:
            sharing = everything[:0]
        shown = self._shown(everything, classes)
        missing = np.setdiff1d(everything, _ids(shown))
        few = missing[: max(AT_ONCE, len(listed) // BULK)]
        sizes = {api.uuids.of(uuid): size for uuid, size in hints.sizes().items()}
        # Nodes with free memory are missing where placement cuts its answers.
        odd = [i for i in missing.tolist() if i in sizes and sizes[i].has_memory]
        whole = np.union1d(np.union1d(few, _ids(odd)), np.intersect1d(sharing, missing))
        reading = ProviderRead(api, listed, self._answers)
        reading.ask(whole, 'inventories', 'usages', 'traits', 'aggregates')
        reading.ask(np.intersect1d(sharing, everything), 'aggregates')
        shown = {id_: each for id_, each in shown.items() if id_ not in whole}
        parts = [NO_SUMMARY, *shown.values()]
        capacities, usage, of_traits = map(np.concatenate, zip(*parts, strict=True))
        rows = reading.rows
        full = self._full(np.setdiff1d(missing, whole), sizes)
        capacities = np.concatenate([capacities, full])
        usage = np.concatenate([usage, full])
        inventories = np.concatenate(
            [self._guessed(capacities, sizes), *rows['inventories'].values()]
        )
        providers = reading.providers(listed, whole)
        aggregates, members = self._with_members(NOTHING.aggregates, frozenset(), hints)
        self._answers.clear()
        return self._contents(
            classes,
            traits,
            providers=providers,
            inventories=by_provider(inventories),
            usage=np.concatenate([usage, *rows['usages'].values()]),
            traits=np.concatenate([of_traits, *rows['traits'].values()]),
            aggregates=aggregates,
            members=members,
            guessed=np.setdiff1d(everything, whole),
            read_at=self._times(everything),
        )

    def _shown(self, everything: Ints, classes: Iterable[int]) -> dict[int, Summary]:
        """Return the summaries of candidates by the id of the provider: of one class
        after the other, until few providers are missing."""
        api, found = self._api, dict[int, Summary]()
        first = [api.classes.of(name) for name in CLASSES]
        others = [each for each in sorted(classes) if each not in first][:MORE_CLASSES]
        for class_id in [*first, *others]:
            if class_id in classes:
                missing = len(np.setdiff1d(everything, _ids(found)))
                if missing <= max(AT_ONCE, len(everything) // BULK):
                    break
                found |= api.summaries(class_id)
        return {id_: each for id_, each in found.items() if id_ in everything}

    def _times(self, ids: Ints) -> Ints:
        """Return rows of ``Contents.read_at`` for what this read shows as a whole."""
        return np.stack([ids, np.full_like(ids, self._as_of)], axis=1)

    def _full(self, ids: Ints, sizes: Mapping[int, NodeSize]) -> Ints:
        """Return provider, class and amount of nodes of which nothing is free."""
        rows = [
            (id_, self._api.classes.of(name), amount)
            for id_ in ids.tolist()
            if id_ in sizes
            for name, amount in sizes[id_].max_units().items()
        ]
        return np.array(rows, np.int64).reshape(-1, 3)

    def _guessed(self, capacities: Ints, sizes: Mapping[int, NodeSize]) -> Floats:
        """Return inventories of these capacities; see Contents."""
        units = {id_: size.max_units() for id_, size in sizes.items()}
        classes = self._api.classes.names
        most = [
            units.get(id_, {}).get(classes[number], capacity)
            for id_, number, capacity in capacities.tolist()
        ]
        one, none = np.ones(len(most)), np.zeros(len(most))
        columns = [*capacities.T, none, one, np.array(most), one, one, one]
        return np.stack(columns, axis=1).astype(np.float64)

    def _wanted(self, hints: CloudHints) -> set[str]:
        """Return the aggregates of which all members are to be known."""
        return {*hints.aggregates(), *self._api.aggregates.names.values()}

    def _with_members(
        self, rows: Ints, known: frozenset[str], hints: CloudHints, again: int = 0
    ) -> tuple[Ints, frozenset[str]]:
        """Return rows of aggregates with members of new ones, and the known uuids.

        The members of ``again`` known aggregates are read once more, in turns.
        """
        numbers, wanted = self._api.aggregates, self._wanted(hints)
        ids = [numbers.of(uuid) for uuid in sorted(wanted - known)]
        ids += self._in_turn('aggregates', sorted(map(numbers.of, known)), again)
        for id_ in ids:
            rows = np.concatenate([rows[rows[:, 1] != id_], self._api.members(id_)])
        return rows, known | wanted

    def _in_turn(self, kind: str, ids: list[int], count: int) -> list[int]:
        """Return so many of the ids, others each time."""
        at = self._next[kind] % max(1, len(ids))
        self._next[kind] = at + count
        return [*ids[at:], *ids[:at]][:count]

    def read_since(
        self,
        before: Contents,
        include_unversioned: bool,
        recheck: Collection[int] = (),
        hints: CloudHints = NO_HINTS,
    ) -> Contents:
        """Return all there is now.

        If many providers have changed, the usage of all is read, and the rest of some.
        The others keep their old generation until their turn comes. With
        ``include_unversioned``, turns come to unchanged providers and to aggregates,
        too, so that missed changes are found.
        """
        listed = self._listed()
        everything = listed[:, 0]
        ids = before.changed(listed, recheck)
        doubtful = ids[np.isin(ids, list(recheck))]
        is_same = not len(ids) and np.array_equal(listed, before.providers)
        # Something was written all the same: a generation has come again.
        is_hidden = is_same and self._newest_at > self._was_newest_at
        include_unversioned = include_unversioned or is_hidden
        is_whole = not before.guessed and before.knows(self._wanted(hints))
        if is_same and is_whole and not include_unversioned:
            return before
        for id_, table in list(self._answers):
            if id_ in doubtful:
                del self._answers[id_, table]
        new = np.setdiff1d(ids, before.providers[:, 0])
        count = max(AT_ONCE, len(listed) // BULK)
        if len(new) > 2 * count:
            return self.read(hints)
        whole = np.union1d(new, _ids(self._turns(ids, doubtful)[:count]))
        if include_unversioned:
            others = self._turns(np.setdiff1d(everything, ids))
            others = others[: count if is_hidden else UNCHANGED_AT_ONCE]
            whole = np.union1d(whole, _ids(others))
        return self._read(
            before, listed, whole, np.union1d(ids, whole), include_unversioned, hints
        )

    def know(self, contents: Contents) -> None:
        """Take the names of contents that another process has read."""
        self._api.uuids.know(contents.uuids)
        self._api.classes.know(contents.class_names)
        self._api.traits.know(contents.trait_names)
        self._api.aggregates.know(contents.aggregate_uuids)

    def read_tree(self, uuid: str) -> Contents:
        api = self._api.at_once()
        listed = api.providers(f'?in_tree={uuid}')
        reading = ProviderRead(api, listed, {})
        reading.ask(listed[:, 0], *reading.rows)
        found = {table: list(each.values()) for table, each in reading.rows.items()}
        return replace(
            NOTHING,
            providers=reading.there(),
            inventories=np.concatenate([NOTHING.inventories, *found['inventories']]),
            usage=np.concatenate([NOTHING.usage, *found['usages']]),
            traits=np.concatenate([NOTHING.traits, *found['traits']]),
            aggregates=np.concatenate([NOTHING.aggregates, *found['aggregates']]),
            **self._names(api.uuids.named(listed[:, 0])),
        )

    def trees(
        self,
        known: Contents,
        roots: Collection[int],
        with_aggregates: bool = True,
        terms: str | None = None,
        generations: GenerationCache | None = None,
    ) -> Contents | None:
        """Read trees whose generations have changed, but not by own claims alone.

        A claim itself verifies amounts. Aggregates that an old client set change no
        generation. For many providers that are trees of their own, placement lists the
        ones that meet the ``terms``. If it lists all of them, nothing else is read.
        """
        api, before = self._api.at_once(), known.trees(roots)
        _, sizes = np.unique(before.providers[:, 2], return_counts=True)
        are_alone = len(sizes) == len(roots) and (sizes == 1).all()
        generations = generations or GenerationCache({})
        may_list = are_alone and len(roots) > max(2, len(known.providers) // TREE)
        if may_list and terms is not None and api.roots_that_meet(terms) >= {*roots}:
            return None
        # What came below a provider of its own decides of no candidate of it.
        ask = api.provider if are_alone else api.tree
        looks = [
            self._asking.submit_shared((are_alone, id_), functools.partial(ask, id_))
            for id_ in map(int, roots)
        ]
        listed, written_at, as_of = joined([look.result() for look in looks])
        changed = generations.changed(before, listed, written_at)
        places = [0, 2, 3]
        if not len(changed) and has_same_rows(
            listed[:, places], before.providers[:, places]
        ):
            generations.mark_unchanged(listed, written_at, as_of)
            return None
        # What has its generation still is read for the requests after this one, too.
        with_aggregates = with_aggregates or not before.changed(listed).size
        after = self._changed_trees(before, listed, changed, with_aggregates)
        if not before.says_the_same(after):
            return after
        if with_aggregates:
            generations.mark_unchanged(listed, written_at, as_of)
        return None

    def _changed_trees(
        self, before: Contents, listed: Ints, changed: Ints, with_aggregates: bool
    ) -> Contents:
        """Return trees with what decides of candidates, read of changed providers."""
        reading = ProviderRead(self._api.at_once(), listed, {})
        tables = ['traits', *(['aggregates'] if with_aggregates else ())]
        waiting = [
            self._asking.submit(functools.partial(reading.ask, _ids([id_]), *tables))
            for id_ in changed.tolist()
        ]
        for each in waiting:
            each.result()
        new = np.setdiff1d(changed, before.providers[:, 0])
        reading.ask(new, 'inventories', 'aggregates')
        providers = reading.there()
        tables_now = {
            table: by_provider(
                _of(providers, put(getattr(before, table), _ids(read), read))
            )
            for table, read in reading.rows.items()
            if table != 'usages'
        }
        names = self._names(self._api.uuids.named(providers[:, 0]))
        return replace(before, providers=providers, **tables_now, **names)

    def _turns(self, ids: Ints, first: Collection[int] = ()) -> list[int]:
        """Return the ids, these first, in the order of their last read."""
        return sorted(
            ids.tolist(),
            key=lambda id_: (id_ not in first, self._last_read.get(id_, 0)),
        )

    def _names(self, uuids: Mapping[int, str]) -> dict[str, Any]:
        """Return all names, with these of providers; see Contents."""
        return {
            'uuids': uuids,
            'class_names': dict(self._api.classes.names),
            'trait_names': dict(self._api.traits.names),
            'aggregate_uuids': dict(self._api.aggregates.names),
        }

    def _read(
        self,
        before: Contents,
        listed: Ints,
        whole: Ints,
        ids: Ints,
        include_unversioned: bool,
        hints: CloudHints,
    ) -> Contents:
        """Return ``before`` brought up to date.

        Providers in ``whole`` are read as a whole, some guessed ones in part, and usage
        of ``ids``. With ``include_unversioned``, usage of every provider and members of
        some aggregates are read, too.
        """
        api, everything = self._api, listed[:, 0]
        reading = ProviderRead(api, listed, self._answers)
        guessed = np.intersect1d(everything, _ids(before.guessed))
        guessed = np.setdiff1d(guessed, whole)
        filled = guessed[: max(FILLED_AT_ONCE, len(listed) // FILLED)]
        bare = full_or_bare(before, filled)
        whole, filled = np.union1d(whole, bare), np.setdiff1d(filled, bare)
        ids = np.union1d(ids, bare)
        reading.ask(whole, 'inventories', 'aggregates')
        reading.ask(filled, 'inventories')
        inventories = put(
            before.inventories, np.union1d(whole, filled), reading.rows['inventories']
        )
        having = inventories[:, :2].astype(np.int64)
        reading.ask_in_bulk(having, everything if include_unversioned else ids)
        reading.ask(np.intersect1d(ids, having[:, 0]), 'usages')
        reading.ask(whole, 'traits')
        if include_unversioned:
            used = np.intersect1d(everything, before.usage[:, 0])
            left = np.setdiff1d(used, _ids(reading.rows['usages'])).tolist()
            reading.ask(_ids(self._in_turn('usages', left, AT_ONCE)), 'usages')
        aggregates, members = self._with_members(
            put(before.aggregates, whole, reading.rows['aggregates']),
            before.members or frozenset(),
            hints,
            AGGREGATES_AT_ONCE if include_unversioned else 0,
        )
        self._answers.clear()
        self._reads += 1
        self._last_read.update(dict.fromkeys(whole.tolist(), self._reads))
        are_known = not (include_unversioned or len(whole))
        after = self._contents(
            before.class_names if are_known else api.class_ids(),
            before.trait_names if are_known else api.trait_ids(),
            providers=reading.providers(before.providers, whole),
            inventories=inventories,
            usage=put(before.usage, ids, reading.rows['usages']),
            traits=put(before.traits, whole, reading.rows['traits']),
            aggregates=aggregates,
            members=members,
            guessed=np.setdiff1d(guessed, np.union1d(whole, filled)),
            read_at=put(before.read_at, whole, {-1: self._times(whole)}),
        )
        return after.like(before)

    def _contents(
        self,
        classes: Iterable[int],
        traits_known: Iterable[int],
        *,
        providers: Ints,
        inventories: Floats,
        usage: Ints,
        traits: Ints,
        aggregates: Ints,
        members: frozenset[str],
        guessed: Ints,
        read_at: Ints,
    ) -> Contents:
        """Return these rows, of the providers that are there, with the names of
        all classes and traits that there are, or that are in use."""
        api = self._api
        inventories, usage = _of(providers, inventories), _of(providers, usage)
        traits = by_provider(_of(providers, traits))
        return Contents(
            providers=providers,
            inventories=inventories,
            usage=usage,
            traits=traits,
            aggregates=_of(providers, aggregates),
            uuids=api.uuids.named(providers[:, 0]),
            class_names=api.classes.named([*classes, *inventories[:, 1], *usage[:, 1]]),
            trait_names=api.traits.named([*traits_known, *traits[:, 1]]),
            aggregate_uuids=dict(api.aggregates.names),
            members=members,
            guessed=frozenset(np.intersect1d(guessed, providers[:, 0]).tolist()),
            read_at=by_provider(_of(providers, read_at)),
        )


def _ids(ids: Collection[int]) -> Ints:
    return np.array(list(ids), np.int64)


def _of(providers: Ints, rows: A) -> A:
    """Return the rows of the providers that are there."""
    return rows[np.isin(rows[:, 0], providers[:, 0])]
