# SPDX-License-Identifier: Apache-2.0
"""Charts of series: a line for each policy over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 30, 34
COLOURS = ('#2b7fc4', '#d9622b', '#2f9e5b', '#9b59d0', '#b8860b', '#d6457a', '#7a8899')
"""Seen on white and on black. Lines differ in dashes, too."""
DASHES = ('none', '6 3', '2 2', '8 3 2 3', '1 3', '10 4', '4 4')
HOUR_S, DAY_S = 3600.0, 86400.0
MOST_TICKS = 7
CHARACTER = 6.6  # width of a letter of a legend

Found = Mapping[str, tuple[Sequence[float], Sequence[float]]]


class ChartLine(NamedTuple):
    """A line: its points, what its stroke is, and where its name stands."""

    name: str
    points: str
    colour: str
    dash: str
    x: int


class Chart(NamedTuple):
    """A chart in coordinates of a picture of WIDTH and HEIGHT."""

    title: str
    values: Sequence[tuple[float, str]]  # heights and texts of the lines across
    times: Sequence[tuple[float, str]]  # places and texts below
    lines: Sequence[ChartLine]


def chart(title: str, found: Found) -> Chart:
    """Return a chart of values over time in seconds, by policy."""
    last_s = max((times[-1] for times, _ in found.values() if times), default=0.0) or 1
    numbers = [n for _, values in found.values() for n in values]
    ticks = _ticks(min(numbers, default=0.0), max(numbers, default=1.0))
    least, most = ticks[0], ticks[-1]

    def across(at_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / last_s, 1)

    def down(value: float) -> float:
        share = (value - least) / (most - least)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)

    unit_s, unit = (DAY_S, 'd') if last_s >= 2 * DAY_S else (HOUR_S, 'h')
    lines, x = [], LEFT
    for place, (name, (times, values)) in enumerate(found.items()):
        points = ' '.join(
            f'{across(at_s)},{down(value)}'
            for at_s, value in zip(times, values, strict=False)
        )
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        lines.append(ChartLine(name, points, colour, dash, x))
        x += 44 + round(CHARACTER * len(name))
    return Chart(
        title,
        [(down(tick), f'{tick:g}') for tick in ticks],
        [
            (across(tick * unit_s), f'{tick:g} {unit}')
            for tick in _ticks(0.0, last_s / unit_s)
            if tick * unit_s <= last_s
        ],
        lines,
    )


def svg(drawn: Chart) -> str:
    """Return a chart as a file of its own."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<title>{escape(drawn.title)}</title>',
    ]
    for y, text in drawn.values:
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>',
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>',
        ]
    for x, text in drawn.times:
        parts.append(
            f'<text x="{x}" y="{HEIGHT - 18}" text-anchor="middle">{text}</text>'
        )
    for line in drawn.lines:
        stroke = (
            f'fill="none" stroke="{line.colour}" stroke-width="2" '
            f'stroke-dasharray="{line.dash}"'
        )
        parts += [
            f'<polyline points="{line.points}" {stroke}/>',
            f'<line x1="{line.x}" x2="{line.x + 22}" y1="14" y2="14" {stroke}/>',
            f'<text x="{line.x + 28}" y="18">{escape(line.name)}</text>',
        ]
    return '\n'.join([*parts, '</svg>', ''])


def _ticks(least: float, most: float) -> list[float]:
    """Return round numbers around what is drawn, evenly spaced; at least two."""
    span = (most - least) or abs(most) or 1.0
    step = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    step = next(
        step * times
        for times in (1, 2, 5, 10, 20)
        if span / (step * times) <= MOST_TICKS - 1
    )
    first, last = math.floor(least / step), math.ceil(most / step)
    return [round(n * step, 10) for n in range(first, max(last, first + 1) + 1)]
