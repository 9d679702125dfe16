# SPDX-License-Identifier: Apache-2.0
"""Snapshot of the hosts: columns by name, and values that plugins set on hosts."""

from __future__ import annotations

import collections
from collections.abc import Callable, KeysView, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from novasched.scheduler.columns import Categories, Lazy, Rows

INCOMPARABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a comparison raises for objects that have no say on equality."""


class _ShownValue(NamedTuple):
    """A value of a column, and the copy of it that a host shows."""

    value: Any
    copy: Any
    decode: Callable[[Any], Any]

    def is_changed(self) -> bool:
        """Return whether a plugin changed the copy in place.

        What it put there may refuse to be compared, as arrays do; what a column has
        of itself never does.
        """
        if self.copy is self.value:
            return False
        try:
            return bool(
                self.copy != self.value and self.copy != self.decode(self.value)
            )
        except INCOMPARABLE:
            return True


class Snapshot:
    """Columns of equal length, by name; they are never modified.

    ``plugin_attributes`` are the attributes that plugins set on hosts, by row. They
    belong to one request: all snapshots made of this one share them, except by
    for_new_request().
    """

    def __init__(self, columns: dict[str, Any], parent: Snapshot | None = None) -> None:
        self._columns = columns
        own, shown = (
            (_by_row(), _by_row())
            if parent is None
            else (parent.plugin_attributes, parent._shown)
        )
        self.plugin_attributes: collections.defaultdict[int, dict[str, Any]] = own
        self._shown: collections.defaultdict[int, dict[str, _ShownValue]] = shown

    def __len__(self) -> int:
        return len(self._columns['host'])

    @property
    def names(self) -> KeysView[str]:
        return self._columns.keys()

    def column(self, name: str) -> Any:
        column = self._columns[name]
        return column.column() if isinstance(column, Lazy) else column

    def raw(self, name: str) -> Any:
        """Return a column as it is kept: itself, or the Lazy that makes it."""
        return self._columns[name]

    def lazy(self, name: str) -> Lazy:
        """Return a column that is not made before it is read."""
        column = self._columns[name]
        return column if isinstance(column, Lazy) else Lazy(lambda: column)

    def shares_columns(self, other: Snapshot) -> bool:
        """Return whether the other differs in what is set on hosts, at most."""
        return self._columns is other._columns

    def changed_since(self, other: Snapshot) -> set[str]:
        """Return the names of the columns that ``other`` does not share."""
        before = other._columns
        return {n for n, column in self._columns.items() if column is not before[n]}

    def for_new_request(self) -> Snapshot:
        """Return the columns with nothing set on the hosts: for another request."""
        return Snapshot(self._columns)

    def with_columns(self, columns: Mapping[str, Any]) -> Snapshot:
        """Return a snapshot with some columns new; the others are shared."""
        return Snapshot({**self._columns, **columns}, self)

    def materialized(
        self, row: int, name: str, value: Any, decode: Callable[[Any], Any]
    ) -> Any:
        """Return the object that a host shows for a value, the same while it stays."""
        of_host = self._shown[row]
        if name not in of_host or of_host[name].value is not value:
            of_host[name] = _ShownValue(value, decode(value), decode)
        return of_host[name].copy

    def shown_of(self, row: int) -> dict[str, Any]:
        """Return the values that a host has shown, by name of the column."""
        of_host = self._shown.get(row, {})
        return {name: shown.copy for name, shown in of_host.items()}

    def changed_in_place(self, row: int, among: Snapshot) -> dict[str, Any]:
        """Return by name what a host shows otherwise than ``among`` has it."""
        return {
            name: shown.copy
            for name, shown in self._shown.get(row, {}).items()
            if shown.is_changed() and among.column(name).item(row) is shown.value
        }

    def with_materialized(
        self, name: str, copies: Mapping[int, Any], decode: Callable[[Any], Any]
    ) -> Snapshot:
        """Return a snapshot with what hosts show by now, by row.

        A host goes on to show the same object, so that later changes are seen, too.
        """
        values = {row: decode(copy) for row, copy in copies.items()}
        for row, value in values.items():
            self._shown[row][name] = _ShownValue(value, copies[row], decode)
        return self.replace({name: list(values.values())}, np.array(list(values)))

    def replace(self, changes: Mapping[str, Sequence[Any]], rows: Rows) -> Snapshot:
        """Return a snapshot with new values in the given rows of some columns.

        A column of numbers becomes one of objects when a value is none of its kind.
        """
        columns = {}
        for name, new in changes.items():
            column = self.column(name)
            if isinstance(column, Categories):
                column = _replace_categories(column, new, rows)
            else:
                column = _copy_for(column, new)
                for row, value in zip(rows.tolist(), new, strict=True):
                    column[row] = value
            columns[name] = column
        return self.with_columns(columns)


def _by_row() -> collections.defaultdict[int, dict[str, Any]]:
    return collections.defaultdict(dict)


def _replace_categories(
    column: Categories[Any], new: Sequence[Any], rows: Rows
) -> Categories[Any]:
    """Append the new values; a column changed this way lives for one request."""
    values = list(column.values)  # the original may grow meanwhile
    codes = column.codes.copy()
    codes[rows] = len(values) + np.arange(len(new))
    return Categories([*values, *new], codes)


def _copy_for(column: Any, new: Sequence[Any]) -> Any:
    """Return a copy of a column that can take the values."""
    if not isinstance(column, np.ndarray) or column.dtype == object:
        return column.copy()
    return column.astype(
        column.dtype if all(_fits(column.dtype, each) for each in new) else object
    )


def _fits(dtype: np.dtype[Any], value: Any) -> bool:
    """Return whether an array of numbers keeps a value; None is NaN there."""
    try:
        kept = dtype.type(value)
        return bool(kept == value or kept != kept)
    except (TypeError, ValueError, OverflowError):
        return False
