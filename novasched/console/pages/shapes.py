# SPDX-License-Identifier: Apache-2.0
"""Geometry of charts: lengths, steps and squares, as numbers for SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

LEAST_SHOWN = 0.8
"""The share, in percent, that anything above nothing is drawn with."""
COLUMN, GAP, HEIGHT = 10.0, 2.0, 100.0


class Segment(NamedTuple):
    """A part of a bar: where it begins and how long it is, in percent."""

    kind: str
    start: float
    length: float


def share(amount: float, total: float) -> float:
    """Return a share in percent, of which a little is seen, and no more than all."""
    if amount <= 0 or total <= 0:
        return 0.0
    return round(min(100.0, max(LEAST_SHOWN, 100.0 * amount / total)), 2)


def segments(parts: Sequence[tuple[str, float]]) -> list[Segment]:
    """Return the parts of a bar, one after the other; empty ones are left out."""
    total, start, made = sum(max(0.0, amount) for _, amount in parts), 0.0, []
    for kind, amount in parts:
        if amount > 0:
            length = 100.0 * amount / total
            made.append(Segment(kind, round(start, 2), round(length, 2)))
            start += length
    return made


def columns(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> ColumnChart:
    """Return stacked columns, one for each row, whose values are by kind."""
    most = max((sum(row.get(k, 0) for k in kinds) for row in rows), default=0)
    made = [list(_stack(row, kinds, most)) for row in rows]
    return ColumnChart(round(len(rows) * COLUMN - GAP, 1), most, made)


class Block(NamedTuple):
    """A rectangle of a column."""

    kind: str
    x: float
    y: float
    height: float


class ColumnChart(NamedTuple):
    """A chart of stacked columns: its width, the largest sum, and the columns."""

    width: float
    most: int
    stacks: list[list[Block]]

    def at(self, number: int) -> float:
        """Return where a column begins."""
        return number * COLUMN


def _stack(row: Mapping[str, Any], kinds: Sequence[str], most: int) -> Iterator[Block]:
    top = HEIGHT
    for kind in kinds:
        if amount := row.get(kind, 0):
            height = max(1.5, HEIGHT * amount / most)
            top -= height
            yield Block(kind, 0.0, round(max(0.0, top), 2), round(height, 2))


def thresholds(largest: int, steps: int = 4) -> list[int]:
    """Return the least number of each step above none, at most so many steps."""
    if largest <= 0:
        return []
    steps = min(steps, largest)
    return [1 + largest * step // steps for step in range(steps)]


def step_of(number: float, least: Sequence[int]) -> int:
    """Return the step of a number: 0 for none, else how many of the list it reaches."""
    return sum(number >= each for each in least) if number > 0 else 0
