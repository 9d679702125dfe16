# SPDX-License-Identifier: Apache-2.0
"""Series as SVG: a line for each policy over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 30, 34
COLOURS = ('#2b7fc4', '#d9622b', '#2f9e5b', '#9b59d0', '#b8860b', '#d6457a', '#7a8899')
"""Seen on white and on black. Lines differ in dashes, too."""
DASHES = ('', '6 3', '2 2', '8 3 2 3', '1 3', '10 4', '4 4')
HOUR_S, DAY_S = 3600.0, 86400.0
MOST_TICKS = 7
CHARACTER = 6.6  # width of a letter of a legend

Found = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def svg(title: str, found: Found) -> str:
    """Return a chart of values over time in seconds, by policy; it needs no style."""
    last_s = max((times[-1] for times, _ in found.values() if times), default=0.0) or 1
    numbers = [n for _, values in found.values() for n in values]
    ticks = _ticks(min(numbers, default=0.0), max(numbers, default=1.0))
    least, most = ticks[0], ticks[-1]

    def across(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at_s / last_s

    def down(value: float) -> float:
        return (
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - least) / (most - least)
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="11">',
        f'<title>{escape(title)}</title>',
    ]
    for tick in ticks:
        y = f'{down(tick):.1f}'
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" '
            'stroke="currentColor" stroke-opacity=".15"/>'
            f'<text x="{LEFT - 6}" y="{y}" dy=".35em" text-anchor="end" '
            f'fill="currentColor">{tick:g}</text>'
        )
    unit_s, unit = (DAY_S, 'd') if last_s >= 2 * DAY_S else (HOUR_S, 'h')
    for tick in _ticks(0.0, last_s / unit_s):
        if tick * unit_s <= last_s:
            parts.append(
                f'<text x="{across(tick * unit_s):.1f}" y="{HEIGHT - BOTTOM + 16}" '
                f'text-anchor="middle" fill="currentColor">{tick:g} {unit}</text>'
            )
    x = float(LEFT)
    for place, (name, (times, values)) in enumerate(found.items()):
        colour = COLOURS[place % len(COLOURS)]
        dash = DASHES[place % len(DASHES)]
        drawn = ' '.join(
            f'{across(at_s):.1f},{down(value):.1f}'
            for at_s, value in zip(times, values, strict=False)
        )
        line = f'fill="none" stroke="{colour}" stroke-width="2"' + (
            f' stroke-dasharray="{dash}"' if dash else ''
        )
        parts += [
            f'<polyline points="{drawn}" {line}/>',
            f'<line x1="{x:.0f}" x2="{x + 22:.0f}" y1="14" y2="14" {line}/>'
            f'<text x="{x + 28:.0f}" y="18" fill="currentColor">{escape(name)}</text>',
        ]
        x += 44 + CHARACTER * len(name)
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
