# SPDX-License-Identifier: Apache-2.0
"""Reads what placement's API says of providers, at a share of placement's time.

The API has neither a call for everything nor a snapshot. What is kept of a provider is
at least as new as the generation that is kept with it, so that a later listing shows
every change that came between two answers.
"""

from __future__ import annotations

import operator
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.objects import context as contexts
from novasched.placement.session import NoAnswer, ask
from novasched.providers.contents import Contents
from novasched.scheduler.columns import Floats, Ints

A = TypeVar('A', Ints, Floats)
T = TypeVar('T')

STORE = 'Placement'
VERSION = '1.36'

SHARE = 0.03

LONGEST_PAUSE_S = 300.0
"""Longest pause after a request, as after one that got no answer."""

BULK = 50
"""A query of candidates costs placement as much for so many providers as the usages and
traits of one."""

MIXED = -1
"""Generation of a provider that changed while it was read; none has it."""

NOTHING = Contents(
    providers=np.zeros((0, 4), np.int64),
    inventories=np.zeros((0, 9)),
    usage=np.zeros((0, 3), np.int64),
    traits=np.zeros((0, 2), np.int64),
    aggregates=np.zeros((0, 2), np.int64),
    uuids={},
    class_names={},
    trait_names={},
    aggregate_uuids={},
)

_AMOUNTS = ('total', 'reserved', 'min_unit', 'max_unit', 'step_size')


class PlacementApiContents:
    """The contents of placement, read through its API by one thread at a time.

    Satisfies ports.ProviderStore. Requests take at most ``share`` of the time, which
    makes a first load long. Ids are numbers of this process; a uuid or name keeps its
    own. The API has ratios only as clients read them: on MariaDB and MySQL ``room`` may
    be a unit more than placement offers, which a claim may take all the same.

    Reads raise errors.StoreFailed where placement does not answer as it should, and
    after ``close()``. The next one goes on with what was read until then.
    """

    is_quick = False

    def __init__(
        self,
        adapter: Adapter,
        share: float = SHARE,
        clock: Clock = SYSTEM_CLOCK,
        closed: threading.Event | None = None,
    ) -> None:
        self._closed = closed or threading.Event()
        self._api = _Api(adapter, _Throttle(share, clock, self._closed))
        self._answers: dict[tuple[int, str], _Answer] = {}

    def close(self) -> None:
        """End a read in another thread before its next request."""
        self._closed.set()

    def read(self) -> Contents:
        """Return all there is."""
        listed = self._api.providers()
        return self._read(NOTHING, listed, listed[:, 0], thorough=False)

    def read_since(
        self, before: Contents, thorough: bool, suspects: Collection[int] = ()
    ) -> Contents:
        """Return all there is now; ``before`` itself, if nothing has changed.

        What was freed, and aggregates that an old client set, change no generation:
        they are found if ``thorough``, but for an aggregate that no provider had
        before: that is found by ``read()``. Providers that are ``suspects``, by id, are
        read again whatever their generation is.
        """
        listed = self._api.providers()
        doubtful = np.intersect1d(np.array(list(suspects), np.int64), listed[:, 0])
        ids = np.union1d(before.changed(listed), doubtful)
        if not (thorough or len(ids)) and np.array_equal(listed, before.providers):
            return before
        for id_, table in list(self._answers):
            if id_ in doubtful:
                del self._answers[id_, table]
        return self._read(before, listed, ids, thorough)

    def mark(self) -> None:
        """Return None: the API does not say whether anything was written."""

    def _read(
        self, before: Contents, listed: Ints, ids: Ints, thorough: bool
    ) -> Contents:
        """Return ``before`` with what is said now of the providers of these ids, and if
        ``thorough`` of the usage and aggregates of all."""
        api, everything = self._api, listed[:, 0]
        classes, traits = api.class_ids(), api.trait_ids()
        reading = _Reading(api, listed, self._answers)
        reading.ask(ids, 'inventories', 'aggregates')
        inventories = _put(before.inventories, ids, reading.rows['inventories'])
        having = inventories[:, :2].astype(np.int64)
        reading.ask_in_bulk(having, everything if thorough else ids)
        reading.ask(np.intersect1d(ids, having[:, 0]), 'usages')
        reading.ask(ids, 'traits')
        if thorough:
            reading.ask(np.intersect1d(everything, before.usage[:, 0]), 'usages')
            aggregates = api.memberships()
        else:
            aggregates = _put(before.aggregates, ids, reading.rows['aggregates'])
        self._answers.clear()
        providers = reading.providers(ids)
        after = Contents(
            providers=providers,
            inventories=_of(providers, inventories),
            usage=_of(providers, _put(before.usage, ids, reading.rows['usages'])),
            traits=_of(providers, _put(before.traits, ids, reading.rows['traits'])),
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


class _Throttle:
    """Lets requests take at most a share of the time: entered for each.

    Raises errors.StoreFailed once ``closed`` is set, also during a pause.
    """

    def __init__(self, share: float, clock: Clock, closed: threading.Event) -> None:
        self._pauses = 1 / share - 1
        self._clock = clock
        self._closed = closed
        self._began = self._next = clock.monotonic()

    def __enter__(self) -> None:
        if self._closed.wait(max(0.0, self._next - self._clock.monotonic())):
            raise errors.StoreFailed(STORE, 'its reader is closed')
        self._began = self._clock.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        now = self._clock.monotonic()
        pause_s = (now - self._began) * self._pauses
        self._next = now + min(pause_s, LONGEST_PAUSE_S)


class _Numbers:
    """A number for each name, from 1; a name keeps its own."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def of(self, name: object) -> int:
        """Return the number of a name; raises TypeError for what is none."""
        if not isinstance(name, str):
            raise TypeError(f'{name!r} is no name')
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        self.names[number] = name
        return number

    def named(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the names of some numbers, in the order of these."""
        return {number: self.names[number] for number in sorted(set(map(int, numbers)))}


class _NotFound(errors.StoreFailed):
    """Placement does not know what was asked for, such as a deleted provider."""


class _Answer(NamedTuple):
    """Rows of a table of Contents about one provider, and its generation then."""

    generation: int
    rows: Any


class _Api:
    """Requests to placement, and the rows of Contents that their answers make."""

    def __init__(self, adapter: Adapter, throttle: _Throttle) -> None:
        self._adapter = adapter
        self._throttle = throttle
        self.uuids = _Numbers()
        self.classes = _Numbers()
        self.traits = _Numbers()
        self.aggregates = _Numbers()
        self._parsers = {
            'inventories': self._inventories,
            'usages': self._usages,
            'traits': self._traits,
            'aggregates': self._aggregates,
        }

    def providers(self, query: str = '') -> Ints:
        """Return the providers, by their ids."""

        def parse(said: Any) -> Ints:
            rows = [self._provider(each) for each in said['resource_providers']]
            found = _ints(rows, 4)
            return found[np.argsort(found[:, 0])]

        return self._get(f'/resource_providers{query}', parse)

    def memberships(self) -> Ints:
        """Return the providers of all known aggregates."""
        found = [NOTHING.aggregates]
        for number, uuid in self.aggregates.names.items():
            members = self.providers(f'?member_of=in:{uuid}')[:, 0]
            found.append(np.stack([members, np.full_like(members, number)], axis=1))
        return np.concatenate(found)

    def class_ids(self) -> set[int]:
        """Return the ids of all resource classes."""
        return self._get(
            '/resource_classes',
            lambda said: {
                self.classes.of(each['name']) for each in said['resource_classes']
            },
        )

    def trait_ids(self) -> set[int]:
        """Return the ids of all traits."""
        return self._get(
            '/traits', lambda said: set(map(self.traits.of, _list(said['traits'])))
        )

    def of(self, id_: int, table: str) -> _Answer:
        """Return the rows of a provider in a table; raises _NotFound."""

        def parse(said: Any) -> _Answer:
            generation = operator.index(said['resource_provider_generation'])
            return _Answer(generation, self._parsers[table](id_, said[table]))

        url = f'/resource_providers/{self.uuids.names[id_]}/{table}'
        return self._get(url, parse)

    def summaries(self, class_id: int) -> dict[int, tuple[Ints, Ints]]:
        """Return usage and traits of all providers of the trees where one unit of a
        class is free, by their ids."""

        def parse(said: Any) -> dict[int, tuple[Ints, Ints]]:
            found = {}
            for uuid, each in said['provider_summaries'].items():
                id_, resources = self.uuids.of(uuid), each['resources'].items()
                used = {name: amounts['used'] for name, amounts in resources}
                found[id_] = self._usages(id_, used), self._traits(id_, each['traits'])
            return found

        name = self.classes.names[class_id]
        return self._get(f'/allocation_candidates?resources={name}:1', parse)

    def _get(self, url: str, parse: Callable[[Any], T]) -> T:
        with self._throttle:
            answer = ask(self._adapter, contexts.admin(), 'GET', url, VERSION)
        if isinstance(answer, NoAnswer):
            raise errors.StoreFailed(STORE, f'GET {url}: {answer.text}')
        if answer.status_code != 200:
            kind = _NotFound if answer.status_code == 404 else errors.StoreFailed
            text = http.excerpt(answer)
            raise kind(STORE, f'GET {url}: got {answer.status_code}: {text}')
        try:
            return parse(http.parse_json(answer.content))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as problem:
            raise errors.StoreFailed(
                STORE, f'GET {url}: the answer makes no sense: {problem!r}'
            ) from problem

    def _provider(self, said: Any) -> tuple[int, ...]:
        uuid, parent = said['uuid'], said['parent_provider_uuid']
        return (
            self.uuids.of(uuid),
            operator.index(said['generation']),
            self.uuids.of(said['root_provider_uuid'] or uuid),
            self.uuids.of(parent) if parent else 0,
        )

    def _inventories(self, id_: int, said: Any) -> Floats:
        rows = []
        for name, each in said.items():
            amounts = (operator.index(each[amount]) for amount in _AMOUNTS)
            ratio = float(each['allocation_ratio'])
            rows.append((id_, self.classes.of(name), *amounts, ratio, ratio))
        return np.array(rows, np.float64).reshape(-1, 9)

    def _usages(self, id_: int, said: Any) -> Ints:
        rows = ((id_, self.classes.of(name), used) for name, used in said.items())
        return _ints([row for row in rows if row[2]], 3)

    def _traits(self, id_: int, said: Any) -> Ints:
        return _ints(
            [(id_, trait) for trait in set(map(self.traits.of, _list(said)))], 2
        )

    def _aggregates(self, id_: int, said: Any) -> Ints:
        return _ints([(id_, uuid) for uuid in map(self.aggregates.of, _list(said))], 2)


class _Reading:
    """What was read of providers by now: ``rows`` by table and id.

    ``kept`` are answers of a read that failed, and takes those of this one.
    """

    def __init__(
        self, api: _Api, listed: Ints, kept: dict[tuple[int, str], _Answer]
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
                except _NotFound:
                    self._gone.add(id_)
                    break
                self.rows[table][id_] = answer.rows
                self._generations[id_].add(answer.generation)

    def _answer(self, id_: int, table: str, generation: int) -> _Answer:
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

    def providers(self, ids: Ints) -> Ints:
        """Return the providers that are still there, these with the generation that was
        read, and none whose parent is not there."""
        found = self._listed[~np.isin(self._listed[:, 0], list(self._gone))].copy()
        for row in np.flatnonzero(np.isin(found[:, 0], ids)).tolist():
            generations = self._generations[int(found[row, 0])]
            found[row, 1] = generations.pop() if len(generations) == 1 else MIXED
        while True:
            there = np.isin(found[:, 2:], [*found[:, 0], 0]).all(axis=1)
            if there.all():
                return found
            found = found[there]


def _list(said: Any) -> list[Any]:
    if not isinstance(said, list):
        raise TypeError(f'{said!r} is no list')
    return said


def _ints(rows: Iterable[tuple[Any, ...]], width: int) -> Ints:
    """Return rows as an array; raises TypeError for what are no integers."""
    found = [tuple(map(operator.index, row)) for row in rows]
    return np.array(found, np.int64).reshape(-1, width)


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
        if _has_same_rows(mine, theirs):
            same[field.name] = mine
    return before if len(same) == len(fields(Contents)) else replace(after, **same)


def _has_same_rows(some: Any, others: Any) -> bool:
    if not isinstance(some, np.ndarray):
        return bool(some == others)
    mine, theirs = some[np.lexsort(some.T)], others[np.lexsort(others.T)]
    return np.array_equal(mine, theirs)
