# SPDX-License-Identifier: Apache-2.0
"""Limits that computes enforce: numbers by column, a dict where they are read."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from novasched.scheduler.columns import ByRow, Floats, Lazy, Mask, Objects
from novasched.scheduler.hosts import HostTable


class Limits(ByRow):
    """The column of limits after filters set some of them on many hosts.

    ``given`` is the column before. ``numbers`` has a number or another object for each
    limit and row of the snapshot; None and non-finite numbers are no limit. A host's
    dict is made once, when first read, so plugins may write into it. Objects are the
    host's.
    """

    def __init__(
        self,
        given: Lazy,
        numbers: Mapping[str, Floats | Objects] | None = None,
        made: Mapping[int, dict[str, Any]] | None = None,
    ) -> None:
        self._given = given
        self._numbers = numbers or {}
        self._made = dict(made or {})

    def __len__(self) -> int:
        return len(self._given.column())

    def __setitem__(self, row: int, limits: dict[str, Any]) -> None:
        self._made[row] = limits

    def copy(self) -> Limits:
        """Return a column in which hosts may be given other limits."""
        return Limits(self._given, self._numbers, self._made)

    def item(self, row: int) -> dict[str, Any]:
        if row not in self._made:
            given = self._given.column().item(row) or {}
            self._made[row] = {**given, **_finite(self._numbers, row)}
        return self._made[row]

    def with_numbers(self, name: str, numbers: Floats | Objects) -> Limits:
        """Return the column with what is a limit of the numbers as one; others stay."""
        later = numbers
        if name in self._numbers:
            later = np.where(_are_limits(numbers), numbers, self._numbers[name])
        made = {
            row: {**limits, **_finite({name: numbers}, row)}
            for row, limits in self._made.items()
        }
        return Limits(self._given, {**self._numbers, name: later}, made)


def _finite(numbers: Mapping[str, Floats | Objects], row: int) -> dict[str, Any]:
    found = {name: column.item(row) for name, column in numbers.items()}
    return {
        name: copy.deepcopy(value) for name, value in found.items() if _is_limit(value)
    }


def _is_limit(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else value is not None


def _are_limits(values: Floats | Objects) -> Mask:
    if values.dtype == object:
        return np.array([value is not None for value in values.tolist()], bool)
    return np.isfinite(values)


def limited(
    hosts: HostTable, name: str, values: Floats | Objects, where: Mask
) -> HostTable:
    """Return the hosts, some of them with a limit that the compute must enforce.

    ``values`` and ``where`` have one item per host. No dict is made.
    """
    none = None if values.dtype == object else np.nan
    numbers: Any = np.full(len(hosts.snapshot), none, values.dtype)
    numbers[hosts.rows[where]] = values[where]
    limits = hosts.snapshot.raw('limits')
    if not isinstance(limits, Limits):
        limits = Limits(hosts.snapshot.lazy('limits'))
    return hosts.with_columns(limits=limits.with_numbers(name, numbers))
