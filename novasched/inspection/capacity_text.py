# SPDX-License-Identifier: Apache-2.0
"""Capacity as text, for people. Made of its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novasched.inspection.text import columns, counted

Report = Mapping[str, Any]
NOTHING = '-'
"""No number; as a group, the hosts that are in no aggregate."""


def as_text(report: Report, by: str | None, stranded: bool) -> str:
    """Return the slots as a table, and what they are made of."""
    names = ['Flavor', 'Slots', 'Hosts', 'Free', 'Usable']
    if by is not None:
        names.insert(1, by.capitalize())
    if stranded:
        names += ['Stranded', 'Main reason']
    rows = [_cells(each, by, stranded) for each in report['rows']]
    lines = columns(names, rows, {'Flavor', (by or '').capitalize(), 'Main reason'})
    for each in report['rows']:
        if refused := each.get('refused'):
            lines.append(f'{each["flavor"]}: {refused}')
    return '\n'.join([*lines, _basis(report)])


def _cells(row: Report, by: str | None, stranded: bool) -> list[str]:
    cells = [row['flavor'], str(row['slots']), str(row['hosts'])]
    if by is not None:
        cells.insert(1, str(row['by'] or NOTHING))
    resource, said = next(iter(row['resources'].items()), ('', None))
    if said is None:
        return cells + [NOTHING] * (4 if stranded else 2)
    cells += [f'{said["free"]} {resource}', f'{said["usable"]} {resource}']
    if stranded:
        free = said['free']
        share = (free - said['usable']) / free if free else 0.0
        cells.append(f'{100 * share:.0f} %')
        first = next(iter(said['stranded']), None)
        cells.append(_mostly(first, resource) if first else NOTHING)
    return cells


def _mostly(stranded: Report, resource: str) -> str:
    hosts = counted(stranded['hosts'], 'host')
    return f'{stranded["why"]}: {hosts}, {stranded["amount"]} {resource}'


def _basis(report: Report) -> str:
    """Say what was counted, and what was not."""
    text = extent(report)
    left_out = [f'{n} {why}' for why, n in report['not_counted'].items() if n]
    return f'{text} Not counted: {", ".join(left_out)}.' if left_out else text


def extent(report: Report) -> str:
    """Say what was counted."""
    age = f'{report["placement_age_s"]:.0f} s ago'
    return (
        f'{counted(report["hosts"], "host")} of {counted(report["cells"], "cell")}, '
        f'read now; placement {age}.'
    )
