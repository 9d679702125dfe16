# SPDX-License-Identifier: Apache-2.0
"""Columns as attributes: one declaration serves host tables and host states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from novasched.scheduler import metrics

if TYPE_CHECKING:
    from novasched.scheduler.hosts import HostState, HostTable

A = TypeVar('A')
S = TypeVar('S')


class Column(Generic[A, S]):
    """One column: A is its type on a table, S its type on a host.

    ``decode`` turns the value in the table into what a host shows; what is set on a
    host is that already. ``kept``: it is a copy, made once for each host and request,
    as plugins may change it in place; HostTable.keep() brings that into the table.
    """

    def __init__(
        self, doc: str, decode: Callable[[Any], S] | None = None, *, kept: bool = False
    ) -> None:
        self.__doc__ = doc
        self.decode = decode
        self.kept = kept

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: HostTable, cls: type) -> A: ...
    @overload
    def __get__(self, owner: HostState, cls: type) -> S: ...
    @overload
    def __get__(self, owner: None, cls: type) -> Column[A, S]: ...
    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self
        return owner._get(self)

    def __set__(self, owner: HostState, value: S) -> None:
        owner._set(self.name, value)


def optional_int(value: Any) -> Any:
    """Return a number, a whole one as int; None for NaN."""
    value = optional_float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def optional_float(value: Any) -> Any:
    """Return the value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def metrics_list(value: Any) -> Any:
    """Return a list of the metrics, or what a plugin put there and is none.

    Raises ValueError for a text that is nonsense.
    """
    known = isinstance(value, Iterable | None)
    return list(metrics.reported(value)) if known else value


def own_dict(value: Any) -> Any:
    """Return a copy of a dict."""
    return dict(value) if isinstance(value, Mapping) else value


def own_lists(value: Any) -> Any:
    """Return a copy of a list of lists."""
    return [own_lists(each) for each in value] if isinstance(value, list) else value


def own_list(value: Any) -> Any:
    """Return a copy of a list."""
    return list(value) if isinstance(value, tuple | list) else value
