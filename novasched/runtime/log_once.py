# SPDX-License-Identifier: Apache-2.0
"""Conditions that are logged once, until they change or end."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any


class LogOnce:
    """Remembers which conditions were logged, by key."""

    def __init__(self) -> None:
        self._logged: dict[Any, object] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._logged

    def begins(self, key: Hashable = None, value: object = True) -> bool:
        """Note that a condition holds; return whether it did not, or had another
        value, before."""
        before = self._logged.get(key)
        self._logged[key] = value
        return before != value

    def ends(self, key: Hashable = None) -> bool:
        """Note that a condition holds no longer; return whether it did before."""
        return self._logged.pop(key, None) is not None

    def new(self, keys: Iterable[Any]) -> list[Any]:
        """Note that these conditions hold, and no others; return new ones, sorted."""
        before, self._logged = self._logged, dict.fromkeys(keys, True)
        return sorted(self._logged.keys() - before.keys())
