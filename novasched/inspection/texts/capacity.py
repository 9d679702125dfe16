# SPDX-License-Identifier: Apache-2.0
"""Capacity as text, for people."""

from __future__ import annotations

from novasched.inspection.questions.reports import (
    Amounts,
    CapacityReport,
    SlotsRow,
    Stranded,
)
from novasched.inspection.texts.lines import columns, counted

NOTHING = '-'
"""No number; as a group, the hosts that are in no aggregate."""


def as_text(report: CapacityReport, by: str | None, stranded: bool) -> str:
    """Return the slots as a table, and what they are made of."""
    names = ['Flavor', 'Slots', 'Hosts', 'Free', 'Usable']
    if by is not None:
        names.insert(1, by.capitalize())
    if stranded:
        names += ['Stranded', 'Main reason']
    rows = [_cells(each, by, stranded) for each in report.rows]
    lines = columns(names, rows, {'Flavor', (by or '').capitalize(), 'Main reason'})
    lines += [f'{row.flavor}: {row.refused}' for row in report.rows if row.refused]
    return '\n'.join([*lines, _basis(report)])


def _cells(row: SlotsRow, by: str | None, stranded: bool) -> list[str]:
    cells = [row.flavor, str(row.slots), str(row.hosts)]
    if by is not None:
        cells.insert(1, str(row.by or NOTHING))
    for resource, amounts in row.resources.items():
        cells += [f'{amounts.free} {resource}', f'{amounts.usable} {resource}']
        if amounts.stranded is not None:
            cells.append(percent(amounts))
            first = next(iter(amounts.stranded), None)
            cells.append(mostly(first, resource) if first else NOTHING)
    return cells if row.resources else cells + [NOTHING] * (4 if stranded else 2)


def percent(amounts: Amounts) -> str:
    """Return the share that no server could use."""
    return f'{100 * amounts.unusable_share:.0f} %'


def mostly(stranded: Stranded, resource: str) -> str:
    """Return a reason in words: on how many hosts, and how much it strands."""
    hosts = counted(stranded.hosts, 'host')
    return f'{stranded.why}: {hosts}, {stranded.amount:,} {resource}'


def _basis(report: CapacityReport) -> str:
    """Say what was counted, and what was not."""
    text, others = extent(report), ', '.join(not_counted(report).values())
    return f'{text} Not counted: {others}.' if others else text


def not_counted(report: CapacityReport) -> dict[str, str]:
    """Return how many hosts were not counted, in words, by their state."""
    return {state: f'{n:,} {state}' for state, n in report.not_counted.items() if n}


def extent(report: CapacityReport) -> str:
    """Say what was counted."""
    return (
        f'{counted(report.hosts, "host")} of {counted(report.cells, "cell")}, '
        f'read now; placement {report.placement_age_s:.0f} s ago.'
    )
