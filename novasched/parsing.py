# SPDX-License-Identifier: Apache-2.0
"""Numbers, sets of CPUs and JSON in texts from outside.

Whatever becomes a size or is read by recursion is bounded here, before anything is
made of it. All of it raises ValueError, with the bound in its message.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

MOST_CPUS = 2**16
"""CPUs that a text may name. No guest and no host has as many: the largest that nova
serves have a few thousand."""
MOST_NODES = 2**12
"""NUMA nodes of a guest; each costs a hundred times what a CPU does."""
MOST_BITS = 63
"""Bits of a number, as every database column holds."""


class NestedTooDeep(ValueError):
    """A text has more levels than can be read."""


@contextlib.contextmanager
def bounded_depth() -> Iterator[None]:
    """Raise NestedTooDeep where what is read within has too many levels."""
    try:
        yield
    except RecursionError:
        raise NestedTooDeep('it is nested too deep') from None


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text. Raises ValueError for what is no JSON, and
    NestedTooDeep."""
    with bounded_depth():
        return json.loads(text)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text. Raises ValueError, and NestedTooDeep."""
    with bounded_depth():
        return tomllib.loads(text)


def whole_number(
    text: str, least: int = -(2**MOST_BITS), most: int = 2**MOST_BITS - 1
) -> int:
    """Return the whole number that a text says. Raises ValueError, also for one that
    is out of bounds."""
    number = int(text)
    if not least <= number <= most:
        raise ValueError(f'a number from {least} to {most} is needed')
    return number


def every_cpu(count: int) -> set[int]:
    """Return the numbers of all CPUs of a guest. Raises ValueError."""
    if count > MOST_CPUS:
        raise ValueError(f'there may be {MOST_CPUS} at most')
    return set(range(count))


class NamedCPUs:
    """The CPUs that texts such as ``0-3,8,^2`` name. One is for all texts of one guest:
    each CPU counts as often as it is named, as it costs time as often."""

    def __init__(self) -> None:
        self._left = MOST_CPUS

    def read(
        self, text: str, ends: Callable[[str], tuple[int, int]]
    ) -> tuple[set[int], set[int]]:
        """Return the CPUs that a text names, and those that it names after ``^``.

        ``ends`` reads the first and the last of a part. Raises what it raises, and
        ValueError for more than MOST_CPUS.
        """
        named: set[int] = set()
        excluded: set[int] = set()
        for part in filter(None, (part.strip() for part in text.split(','))):
            first, last = ends(part)
            self._left -= max(0, last - first + 1)
            if self._left < 0:
                raise ValueError(f'more than {MOST_CPUS} CPUs are named')
            numbers = excluded if part.startswith('^') else named
            numbers.update(range(first, last + 1))
        return named, excluded
