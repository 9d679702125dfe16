# SPDX-License-Identifier: Apache-2.0
"""How a column is declared: under one name on tables and on hosts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from novasched.scheduler import metrics

if TYPE_CHECKING:
    from novasched.scheduler.hosts import HostState, HostTable

A = TypeVar('A')
S = TypeVar('S')


class Column(Generic[A, S]):
    """One column: A is its type on a table, S its type on a host.

    ``decode`` turns the value kept in the table into what a host shows; it
    returns what is set on a host as it is.
    """

    def __init__(self, doc: str, decode: Callable[[Any], S] | None = None) -> None:
        self.__doc__ = doc
        self.decode = decode

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


def optional_int(value: float) -> int | None:
    """Return a number; None for NaN."""
    return None if math.isnan(value) else int(value)


def optional_float(value: float) -> float | None:
    """Return the value; None for NaN."""
    return None if math.isnan(value) else value


def metrics_list(value: Any) -> Any:
    """Return the metrics in a JSON text; raises ValueError for nonsense."""
    return list(metrics.parse(value)) if isinstance(value, str | None) else value
