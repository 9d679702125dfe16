# SPDX-License-Identifier: Apache-2.0
"""Columns that are more than an array: of few distinct values, or made late."""

from __future__ import annotations

import abc
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar('S')
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Objects = NDArray[np.object_]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Categories(Generic[S]):
    """A column of few distinct values; host i has ``values[codes[i]]``."""

    values: Sequence[S]
    codes: Rows

    def __getitem__(self, rows: Rows) -> Categories[S]:
        return Categories(self.values, self.codes[rows])

    def item(self, row: int) -> S:
        return self.values[self.codes.item(row)]

    def tolist(self) -> list[S]:
        return [self.values[code] for code in self.codes.tolist()]

    def map(self, fn: Callable[[S], Any], dtype: Any = bool) -> NDArray[Any]:
        """Return ``fn(value)`` per host, calling fn once per distinct value."""
        used = np.zeros(len(self.values), bool)
        used[self.codes] = True
        answers = np.empty(len(self.values), dtype)
        for code in np.flatnonzero(used).tolist():
            answers[code] = fn(self.values[code])
        return answers[self.codes]


def column_identity(column: Any) -> Any:
    """Return the array that is another one whenever the column is."""
    return column.codes if isinstance(column, Categories) else column


def combined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return a column that is the same for two hosts if all of some columns are."""
    groups, *others = columns
    for values in others:
        _, codes = np.unique(values, return_inverse=True)
        _, groups = np.unique(groups, return_inverse=True)
        groups = groups * len(groups) + codes
    return groups


class PerValue(Generic[S]):
    """Answers for each value of a column, kept from request to request.

    ``answer`` is called once for each value that a host has. It returns a number, or an
    array of ``shape``. Answers are kept while lists of values begin alike.
    """

    def __init__(
        self,
        answer: Callable[[S], Any],
        dtype: Any = np.int64,
        shape: tuple[int, ...] = (),
    ) -> None:
        self._answer = answer
        self._none = np.zeros((0, *shape), dtype), np.zeros(0, bool)
        self._kept: tuple[Any, NDArray[Any], Mask] = (None, *self._none)

    def of(self, column: Categories[S]) -> NDArray[Any]:
        """Return the answers for the hosts of a column; shape (hosts, *shape)."""
        values, answers, known = self._kept
        if values is not column.values:
            same = _same_at_first(values or (), column.values)
            answers, known = answers[:same], known[:same]
        used = np.zeros(len(column.values), bool)
        used[column.codes] = True
        used[: len(known)] &= ~known
        new = np.flatnonzero(used)
        if len(new):
            answers, known = _grown(answers, len(used)), _grown(known, len(used))
            for code in new.tolist():
                answers[code] = self._answer(column.values[code])
            known |= used
            self._kept = column.values, answers, known
        return answers[column.codes]


def _same_at_first(values: Sequence[Any], others: Sequence[Any]) -> int:
    """Return how many values two lists begin with that are the same objects."""
    differ = map(operator.is_not, values, others)
    places = itertools.compress(itertools.count(), differ)
    return next(places, min(len(values), len(others)))


def _grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Return a copy with zeros at its end; another thread may read the original."""
    grown = np.zeros((length, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


class Lazy:
    """A column that is made when it is first read, once for all its snapshots.

    ``changes`` are then made to it; each returns a column and leaves its own.
    """

    def __init__(
        self, make: Callable[[], Any], changes: tuple[Callable[[Any], Any], ...] = ()
    ) -> None:
        self._make = make
        self._changes = changes
        self._made: Any = None

    @property
    def is_made(self) -> bool:
        """Whether the column has been read."""
        return self._made is not None

    def column(self) -> Any:
        if self._made is None:
            made = self._make()
            for change in self._changes:
                made = change(made)
            self._made = made
        return self._made

    def then(self, change: Callable[[Any], Any]) -> Lazy:
        """Return the column with one more change, without making it now."""
        if self._made is not None or not self._changes:
            return Lazy(self.column, (change,))
        return Lazy(self._make, (*self._changes, change))


class ByRow(abc.ABC):
    """A column of objects that are made, or changed, one by one."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def item(self, row: int) -> Any:
        """Return the object of the host in a row."""

    def __getitem__(self, rows: Rows) -> Objects:
        found: Objects = np.empty(len(rows), object)
        for position, row in enumerate(rows.tolist()):
            found[position] = self.item(row)
        return found

    def tolist(self) -> list[Any]:
        return [self.item(row) for row in range(len(self))]


class PerHost(ByRow):
    """A column of an object for each host, made when the host is first looked at.

    ``make`` returns the object of a row. Copies share the objects made, not those set.
    """

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self._length = length
        self._make = make
        self._made: dict[int, Any] = {}
        self._given: dict[int, Any] = {}

    def __len__(self) -> int:
        return self._length

    def __setitem__(self, row: int, value: Any) -> None:
        self._given[row] = value

    def copy(self) -> PerHost:
        """Return a column in which hosts may be given other objects."""
        copied = PerHost(self._length, self._make)
        copied._made, copied._given = self._made, self._given.copy()
        return copied

    @property
    def made(self) -> set[int]:
        """The rows whose objects were made or set; they may have been changed."""
        return {*self._made, *self._given}

    def item(self, row: int) -> Any:
        if row in self._given:
            return self._given[row]
        if row not in self._made:
            self._made[row] = self._make(row)
        return self._made[row]


class Instances(ByRow):
    """The column of instances, by uuid, after a few hosts were given others.

    ``given`` is the column before; it is shared and stays as it is. Which of its
    hosts have any of some instances is kept: the next question is often the same.
    """

    def __init__(
        self, given: Objects, changed: Mapping[int, dict[str, Any]] | None = None
    ) -> None:
        self._given = given
        self._changed = dict(changed or {})
        none = np.zeros(len(given), bool)
        self._kept: tuple[frozenset[str], Mask, Mask] = (frozenset(), none, none)

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, rows: Rows) -> Objects:
        found: Objects = self._given[rows]
        changed = np.isin(rows, list(self._changed))
        for position in np.flatnonzero(changed).tolist():
            found[position] = self._changed[rows.item(position)]
        return found

    def __setitem__(self, row: int, instances: dict[str, Any]) -> None:
        self._changed[row] = instances

    def copy(self) -> Instances:
        """Return a column in which hosts may be given other instances."""
        copied = Instances(self._given, self._changed)
        copied._kept = self._kept
        return copied

    def item(self, row: int) -> dict[str, Any]:
        return self._changed[row] if row in self._changed else self._given.item(row)

    def having(self, uuids: frozenset[str], rows: Rows) -> Mask:
        """Return the mask of the rows whose host has any of the instances."""
        kept, asked, having = self._kept
        if kept != uuids:
            asked = having = np.zeros(len(self), bool)
        new = rows[~asked[rows]]
        if len(new):
            asked, having = asked.copy(), having.copy()
            asked[new], having[new] = True, any_of(uuids, self._given[new])
            self._kept = uuids, asked, having
        if self._changed:
            having = having.copy()
            having[list(self._changed)] = any_of(uuids, self._changed.values())
        return having[rows]


def any_of(uuids: frozenset[str], instances: Iterable[Iterable[str]]) -> Mask:
    """Return the mask of the hosts that have any of the instances."""
    return ~np.fromiter(map(uuids.isdisjoint, instances), bool)
