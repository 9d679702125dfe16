# SPDX-License-Identifier: Apache-2.0
"""Requests to placement about resource providers, and the rows that answers make."""

from __future__ import annotations

import copy
import hashlib
import math
import operator
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import requests
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.objects import context as contexts
from novasched.parsing import parse_json
from novasched.placement.session import NoAnswer, ask
from novasched.providers.contents import Contents
from novasched.runtime.clock import Clock
from novasched.scheduler.columns import Floats, Ints

T = TypeVar('T')

STORE = 'Placement'
VERSION = '1.36'

CREDIT_S = 50.0

BITS = 52
"""Bits of the number of a name, which must be exact as a float, too.

Two of 100,000 names have the same number with a probability of one in a million.
"""

LONGEST_PAUSE_S = 300.0
"""Longest pause after a request: one that gets no answer may take minutes."""

BULK = 50
"""A query of candidates costs placement as much for so many providers as the usages and
traits of one."""

MIXED = -1
"""Generation of a provider that changed while it was read; none has it."""

_AMOUNTS = ('total', 'reserved', 'min_unit', 'max_unit', 'step_size')


class Throttle:
    """Lets requests take at most a share of the time: entered for each.

    What they did not take in the last CREDIT_S may be made up for. Raises
    errors.StoreFailed once ``closed`` is set, also during a pause.
    """

    def __init__(self, share: float, clock: Clock, closed: threading.Event) -> None:
        self.share = share
        self.clock = clock
        self._closed = closed
        self.began = clock.monotonic()
        """When the last request began."""
        self._next = self.began - CREDIT_S

    def __enter__(self) -> None:
        if self._closed.wait(max(0.0, self._next - self.clock.monotonic())):
            raise errors.StoreFailed(STORE, 'its reader is closed')
        self.began = self.clock.monotonic()

    def __exit__(self, *problem: object) -> None:
        now = self.clock.monotonic()
        taken_s = (now - self.began) / self.share
        since = max(self._next, self.began - CREDIT_S)
        self._next = min(since + taken_s, now + LONGEST_PAUSE_S)


class Numbers:
    """A number for each name, in each process the same. Threads may share it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def of(self, name: object) -> int:
        """Return the number of a name: some bits of its hash. Raises TypeError for what
        is none, and ValueError for one whose number another has."""
        if not isinstance(name, str):
            raise TypeError(f'{name!r} is no name')
        if (number := self._numbers.get(name)) is None:
            digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
            number = (int.from_bytes(digest, 'big') >> (64 - BITS)) or 1
            if self.names.setdefault(number, name) != name:
                raise ValueError(f'{name} has the number of {self.names[number]}')
            self._numbers[name] = number
        return number

    def know(self, names: Mapping[int, str]) -> None:
        """Take names with their numbers from another process."""
        self.names.update(names)

    def named(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the names of some numbers, in the order of these."""
        return {number: self.names[number] for number in sorted(set(map(int, numbers)))}


class NotFound(errors.StoreFailed):
    """Placement does not know what was asked for, such as a deleted provider, or finds
    that it cannot be: 404, or 400."""


class ProviderRows(NamedTuple):
    """What a table of Contents says of a provider, and the generation at that time."""

    generation: int
    rows: Any


class Summary(NamedTuple):
    """What allocation candidates say of a provider: provider, class and capacity of
    each inventory, and rows of Contents."""

    capacities: Ints
    usage: Ints
    traits: Ints


class Listed(NamedTuple):
    """Providers by their ids, as ``Contents.providers`` has them.

    ``newest_at`` is the second in which any of them was written last. No write that the
    answer does not show is before ``as_of``. Both are of placement's clock.
    """

    rows: Ints
    newest_at: float
    as_of: float


def joined(answers: Sequence[Listed]) -> tuple[Ints, Floats, Floats]:
    """Return the rows of all answers, with the times of each row."""
    counts = [len(each.rows) for each in answers]
    return (
        np.concatenate([each.rows for each in answers]),
        np.repeat([each.newest_at for each in answers], counts),
        np.repeat([each.as_of for each in answers], counts),
    )


class ProvidersApi:
    """Requests to placement, and the rows of Contents that their answers make."""

    def __init__(self, adapter: Adapter, throttle: Throttle) -> None:
        self._adapter = adapter
        self._throttle: AbstractContextManager[None] = throttle
        self.uuids = Numbers()
        self.classes = Numbers()
        self.traits = Numbers()
        self.aggregates = Numbers()
        self._parsers = {
            'inventories': self._inventories,
            'usages': self._usages,
            'traits': self._traits,
            'aggregates': self._aggregates,
        }

    def at_once(self) -> Self:
        """Return the same, without a throttle: threads may share it."""
        made = copy.copy(self)
        made._throttle = nullcontext()
        return made

    def providers(self, query: str = '') -> Ints:
        """Return the providers, by their ids."""
        return self.listed(query).rows

    def listed(self, query: str = '') -> Listed:
        """Return the providers, and when they were written."""
        return self._listed(
            f'/resource_providers{query}', lambda said: said['resource_providers']
        )

    def tree(self, id_: int) -> Listed:
        return self.listed(f'?in_tree={self.uuids.names[id_]}')

    def provider(self, id_: int) -> Listed:
        """Return one provider, or none that is gone: at a third of what its tree
        costs."""
        url = f'/resource_providers/{self.uuids.names[id_]}'
        try:
            return self._listed(url, lambda said: [said])
        except NotFound:
            return Listed(_ints([], 4), math.inf, 0.0)

    def _listed(self, url: str, providers: Callable[[Any], Any]) -> Listed:
        answer = self._ask(url)
        rows = self._parsed(
            url, answer, lambda said: _ints(map(self._provider, providers(said)), 4)
        )
        written = http.seconds(answer.headers.get('Last-Modified'))
        now = http.seconds(answer.headers.get('Date')) or 0.0
        began = math.floor(now - answer.elapsed.total_seconds())
        return Listed(
            rows[np.argsort(rows[:, 0])],
            math.inf if written is None else written,
            max(began, written or 0.0),
        )

    def roots_that_meet(self, terms: str) -> set[int]:
        """Return the ids of roots that are listed by a query string."""
        try:
            listed = self.providers(f'?{terms}' if terms else '')
        except NotFound:  # placement does not know a trait
            return set()
        return {*listed[listed[:, 0] == listed[:, 2], 0].tolist()}

    def members(self, aggregate_id: int) -> Ints:
        """Return the providers of an aggregate: rows of ``Contents.aggregates``."""
        uuid = self.aggregates.names[aggregate_id]
        try:
            found = self.providers(f'?member_of=in:{uuid}')[:, 0]
        except NotFound:  # it is no uuid
            found = np.zeros(0, np.int64)
        return np.stack([found, np.full_like(found, aggregate_id)], axis=1)

    def class_ids(self) -> set[int]:
        return self._get(
            '/resource_classes',
            lambda said: {
                self.classes.of(each['name']) for each in said['resource_classes']
            },
        )

    def trait_ids(self) -> set[int]:
        return self._get(
            '/traits', lambda said: set(map(self.traits.of, _list(said['traits'])))
        )

    def of(self, id_: int, table: str) -> ProviderRows:
        """Return the rows of a provider in a table; raises NotFound."""

        def parse(said: Any) -> ProviderRows:
            generation = operator.index(said['resource_provider_generation'])
            return ProviderRows(generation, self._parsers[table](id_, said[table]))

        url = f'/resource_providers/{self.uuids.names[id_]}/{table}'
        return self._get(url, parse)

    def summaries(self, class_id: int) -> dict[int, Summary]:
        """Return the summaries of all providers of the trees where one unit of a class
        is free, by their ids."""

        def parse(said: Any) -> dict[int, Summary]:
            found = {}
            for uuid, each in said['provider_summaries'].items():
                id_, resources = self.uuids.of(uuid), each['resources'].items()
                used = {name: amounts['used'] for name, amounts in resources}
                capacities = [
                    (id_, self.classes.of(name), amounts['capacity'])
                    for name, amounts in resources
                ]
                found[id_] = Summary(
                    _ints(capacities, 3),
                    self._usages(id_, used),
                    self._traits(id_, each['traits']),
                )
            return found

        name = self.classes.names[class_id]
        return self._get(f'/allocation_candidates?resources={name}:1', parse)

    def _get(self, url: str, parse: Callable[[Any], T]) -> T:
        return self._parsed(url, self._ask(url), parse)

    def _ask(self, url: str) -> requests.Response:
        with self._throttle:
            answer = ask(
                self._adapter, contexts.admin(), 'GET', url, VERSION, is_quiet=True
            )
        if isinstance(answer, NoAnswer):
            raise errors.StoreUnreachable(STORE, answer.text)
        if answer.status_code != 200:
            is_unknown = answer.status_code in (400, 404)
            kind = NotFound if is_unknown else errors.StoreFailed
            text = http.error_words(http.excerpt(answer))
            raise kind(STORE, f'GET {url}: got {answer.status_code}: {text}')
        return answer

    @staticmethod
    def _parsed(url: str, answer: requests.Response, parse: Callable[[Any], T]) -> T:
        try:
            return parse(parse_json(answer.content))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as problem:
            raise errors.StoreFailed(
                STORE, f'GET {url}: malformed answer: {problem!r}'
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


def _list(said: Any) -> list[Any]:
    if not isinstance(said, list):
        raise TypeError(f'{said!r} is no list')
    return said


def _ints(rows: Iterable[tuple[Any, ...]], width: int) -> Ints:
    """Return rows as an array; raises TypeError for what are no integers."""
    found = [tuple(map(operator.index, row)) for row in rows]
    return np.array(found, np.int64).reshape(-1, width)


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
