# SPDX-License-Identifier: Apache-2.0
"""Requests to placement about resource providers, and the rows that answers make."""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.clock import Clock
from novasched.objects import context as contexts
from novasched.parsing import parse_json
from novasched.placement.session import NoAnswer, ask
from novasched.scheduler.columns import Floats, Ints

T = TypeVar('T')

STORE = 'Placement'
VERSION = '1.36'

LONGEST_PAUSE_S = 300.0
"""Longest pause after a request: one that gets no answer may take minutes."""

_AMOUNTS = ('total', 'reserved', 'min_unit', 'max_unit', 'step_size')


class Throttle:
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


class Numbers:
    """A number for each name, from 1; a name keeps its own. Threads may share it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self.names: dict[int, str] = {}

    def of(self, name: object) -> int:
        """Return the number of a name; raises TypeError for what is none."""
        if not isinstance(name, str):
            raise TypeError(f'{name!r} is no name')
        if (number := self._numbers.get(name)) is None:
            with self._lock:
                number = self._numbers.setdefault(name, len(self._numbers) + 1)
                self.names[number] = name
        return number

    def named(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the names of some numbers, in the order of these."""
        return {number: self.names[number] for number in sorted(set(map(int, numbers)))}


class NotFound(errors.StoreFailed):
    """Placement does not know what was asked for, such as a deleted provider."""


class ProviderRows(NamedTuple):
    """What a table of Contents says of a provider, and the generation at that time."""

    generation: int
    rows: Any


class Trees(NamedTuple):
    """What allocation candidates say of providers: rows of Contents, and the capacity
    of each inventory."""

    providers: Ints
    capacities: Ints
    usage: Ints
    traits: Ints


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

        def parse(said: Any) -> Ints:
            rows = [self._provider(each) for each in said['resource_providers']]
            found = _ints(rows, 4)
            return found[np.argsort(found[:, 0])]

        return self._get(f'/resource_providers{query}', parse)

    def memberships(self) -> Ints:
        """Return the providers of all known aggregates."""
        found: list[Ints] = [np.zeros((0, 2), np.int64)]
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

    def of(self, id_: int, table: str) -> ProviderRows:
        """Return the rows of a provider in a table; raises NotFound."""

        def parse(said: Any) -> ProviderRows:
            generation = operator.index(said['resource_provider_generation'])
            return ProviderRows(generation, self._parsers[table](id_, said[table]))

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

    def trees(self, name: str) -> Trees:
        """Return all trees where one unit of a class is free, by one request."""

        def parse(said: Any) -> Trees:
            found: list[list[tuple[Any, ...]]] = [[], [], [], []]
            for uuid, each in said['provider_summaries'].items():
                id_, parent = self.uuids.of(uuid), each['parent_provider_uuid']
                root = self.uuids.of(each['root_provider_uuid'])
                found[0].append((id_, 0, root, self.uuids.of(parent) if parent else 0))
                for name, amounts in each['resources'].items():
                    number = self.classes.of(name)
                    found[1].append((id_, number, amounts['capacity']))
                    found[2].append((id_, number, amounts['used']))
                found[3] += [(id_, self.traits.of(each)) for each in each['traits']]
            return Trees(*map(_ints, found, (4, 3, 3, 2)))

        return self._get(f'/allocation_candidates?resources={name}:1', parse)

    def _get(self, url: str, parse: Callable[[Any], T]) -> T:
        with self._throttle:
            answer = ask(self._adapter, contexts.admin(), 'GET', url, VERSION)
        if isinstance(answer, NoAnswer):
            raise errors.StoreUnreachable(STORE, answer.text)
        if answer.status_code != 200:
            kind = NotFound if answer.status_code == 404 else errors.StoreFailed
            text = http.error_words(http.excerpt(answer))
            raise kind(STORE, f'GET {url}: got {answer.status_code}: {text}')
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
