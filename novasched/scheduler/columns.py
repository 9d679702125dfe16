# SPDX-License-Identifier: Apache-2.0
"""Columns that are more than an array: of few distinct values, or made late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
