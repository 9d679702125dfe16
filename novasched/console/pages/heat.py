# SPDX-License-Identifier: Apache-2.0
"""The heat map: a square for each host, or for ten, by zone and aggregate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from novasched.console.pages import query, shapes
from novasched.console.pages.words import NOTHING, Link, View
from novasched.inspection.questions.reports import HeatReport, HostGroup
from novasched.inspection.texts.lines import counted
from novasched.inspection.texts.missing import missing_parts

MOST_SINGLE = 2000
"""Hosts above which a square stands for several."""
TOGETHER = 10
PITCH, LARGE_PITCH, BETWEEN = 16, 26, 2
"""From one square to the next, also where there are few, and the space between them."""
FEW = 100
WIDE, HIGH = 10, 10
"""Squares of a block, side by side and on top of each other."""
AWAY = 'away'

Slots = Sequence[tuple[str, int | None]]


class Square(NamedTuple):
    """A square: its place, its step from 0 to 4 or AWAY, a text, and what it opens."""

    x: int
    y: int
    step: int | str
    title: str
    href: str


def view(answer: HeatReport) -> View:
    """Return the map as blocks of squares, its legend, and the same as a table."""
    flavor, groups = answer.flavor, answer.groups
    total = sum(len(each.hosts) for each in groups)
    together = TOGETHER if total > MOST_SINGLE else 1
    bundled = [
        [all_[start : start + together] for start in range(0, len(all_), together)]
        for all_ in (each.hosts for each in groups)
    ]
    largest = max(
        (sum(n or 0 for _, n in bundle) for each in bundled for bundle in each),
        default=0,
    )
    least = shapes.thresholds(largest)
    pitch = LARGE_PITCH if total < FEW else PITCH
    made = [
        _group(group, bundles, least, flavor, pitch)
        for group, bundles in zip(groups, bundled, strict=True)
    ]
    slots = sum(each['slots'] for each in made)
    each_of = 'a host' if together == 1 else f'on {together} hosts'
    return {
        'flavor': flavor,
        'zones': _zones(made, flavor),
        'is_large': pitch == LARGE_PITCH,
        'together': together,
        'side': pitch - BETWEEN,
        'legend': _legend(least, largest),
        'hosts': total,
        'slots': slots,
        'missing': list(missing_parts(cells=answer.cells_left_out)),
        'label': f'Slots of {flavor} on {counted(total, "host")}, by zone and '
        f'aggregate: {slots} in all, at most {largest} {each_of}',
    }


def _zones(groups: Sequence[View], flavor: str) -> list[View]:
    """Return the groups by zone, each in the order in which people count."""
    found: dict[str, list[View]] = {}
    for each in groups:
        found.setdefault(each['zone'], []).append(each)
    return [
        {
            'link': Link(zone, query.of_hosts(zone=zone, flavor=flavor)),
            'hosts': sum(each['hosts'] for each in members),
            'slots': sum(each['slots'] for each in members),
            'groups': sorted(members, key=lambda each: _counting(each['aggregate'])),
        }
        for zone, members in sorted(found.items())
    ]


def _counting(name: str) -> list[tuple[int, int, str]]:
    """Return a key that puts rack-9 before rack-10."""
    parts = re.findall('([0-9]+)|([^0-9]+)', name)
    return [(0, int(digits), '') if digits else (1, 0, text) for digits, text in parts]


def _group(
    group: HostGroup,
    bundles: Sequence[Slots],
    least: Sequence[int],
    flavor: str,
    pitch: int,
) -> View:
    zone, aggregate = group.zone or '', group.aggregate or ''
    where = {'zone': zone, 'aggregate': aggregate, 'flavor': flavor}
    squares = [
        _square(place, bundle, least, flavor, pitch)
        for place, bundle in enumerate(bundles)
    ]
    numbers = [number for bundle in bundles for _, number in bundle]
    size = WIDE * HIGH
    blocks = [squares[start : start + size] for start in range(0, len(squares), size)]
    return {
        'zone': zone or NOTHING,
        'aggregate': aggregate or NOTHING,
        'link': Link(aggregate or 'no aggregate', query.of_hosts(**where)),
        'is_wide': len(squares) > size,
        'hosts': len(numbers),
        'slots': sum(number or 0 for number in numbers),
        'full': sum(number == 0 for number in numbers),
        'away': sum(number is None for number in numbers),
        'most': max((number or 0 for number in numbers), default=0),
        'blocks': [
            {
                'squares': block,
                'width': min(len(block), WIDE) * pitch,
                'height': -(-len(block) // WIDE) * pitch,
            }
            for block in blocks
        ],
    }


def _square(
    place: int,
    bundle: Slots,
    least: Sequence[int],
    flavor: str,
    pitch: int,
) -> Square:
    inside = place % (WIDE * HIGH)
    known = [number for _, number in bundle if number is not None]
    step: int | str = shapes.step_of(sum(known), least) if known else AWAY
    if len(bundle) == 1:
        name, number = bundle[0]
        said = 'disabled or down' if number is None else counted(number, 'slot')
        title, href = f'{name}: {said}', query.of_host(name)
    else:
        title = f'{bundle[0][0]} to {bundle[-1][0]}: {counted(sum(known), "slot")}'
        away = len(bundle) - len(known)
        title += f', {away} disabled or down' if away else ''
        names = ','.join(name for name, _ in bundle)
        href = query.of_hosts(name=names, flavor=flavor)
    x, y = inside % WIDE * pitch, inside // WIDE * pitch
    return Square(x, y, step, title, href)


def _legend(least: Sequence[int], largest: int) -> list[tuple[int | str, str]]:
    """Return each step, and the numbers of slots that it stands for."""
    ends = [*(each - 1 for each in least[1:]), largest]
    steps: list[tuple[int | str, str]] = [(0, 'none')]
    for step, (first, last) in enumerate(zip(least, ends, strict=False), 1):
        steps.append((step, f'{first}' if first == last else f'{first} to {last}'))
    return [*steps, (AWAY, 'disabled or down')]
