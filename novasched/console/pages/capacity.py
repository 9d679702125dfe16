# SPDX-License-Identifier: Apache-2.0
"""Capacity: a table of slots and what is stranded, and a heat map of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from novasched.console.pages import heat, query, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.reports import (
    Amounts,
    CapacityReport,
    HeatReport,
    SlotsRow,
)
from novasched.inspection.session.orders import GROUPINGS
from novasched.inspection.texts import capacity as capacity_text
from novasched.inspection.texts.capacity import NOTHING
from novasched.inspection.texts.missing import missing_parts

MAP = '#map'
MOST_SHOWN = 300
"""Rows of a page: more, with a heat map of 10,000 hosts, are no page that a browser has
at once."""


def mapped(answer: CapacityReport, asked: PageQuery) -> str:
    """Return the flavor whose slots the heat map shows; '': there is none."""
    return asked.text('heat') or next(iter(_typed(answer, asked).values()), '')


def _typed(answer: CapacityReport, asked: PageQuery) -> dict[str, str]:
    """Return flavors that have slots as they were asked for, by their names.

    One that is said in full has a name that no other page knows.
    """
    names = list(dict.fromkeys(each.flavor for each in answer.rows))
    typed = asked.lines('flavors')
    known = typed if len(typed) == len(names) else names
    refused = {each.flavor for each in answer.rows if each.refused is not None}
    return {n: t for n, t in zip(names, known, strict=True) if n not in refused}


def view(
    answer: CapacityReport,
    slots: HeatReport | None,
    asked: PageQuery,
    flavors: Sequence[str],
) -> View:
    """Return the values for the page."""
    by, typed = asked.text('by'), _typed(answer, asked)
    missing = list(missing_parts(cells=answer.cells_left_out))
    rows = answer.rows[:MOST_SHOWN]
    if more := len(answer.rows) - len(rows):
        missing.append(f'{words.grouped(more)} more rows are in the JSON alone.')
    return {
        'form': form(asked, flavors),
        'problem': '',
        'by': by,
        'rows': [_row(each, by, asked, typed) for each in rows],
        'extent': capacity_text.extent(answer),
        'not_counted': [
            Link(text, query.of_hosts(state=state))
            for state, text in capacity_text.not_counted(answer).items()
        ],
        'missing': missing,
        'heat': heat.view(slots) if slots else None,
        'maps': _maps(typed, asked, slots),
    }


def form(asked: PageQuery, flavors: Sequence[str]) -> View:
    """Return the values of the form."""
    return {
        'flavors': '\n'.join(asked.lines('flavors')),
        'known': list(flavors),
        'by': words.options(GROUPINGS, asked.text('by')),
        'what_if': '\n'.join(asked.lines('what_if')),
    }


def refused(asked: PageQuery, problem: str) -> View:
    """Return the values for the page where it cannot be counted."""
    return {'form': form(asked, ()), 'problem': problem, 'missing': (), 'heat': None}


def _maps(
    typed: Mapping[str, str], asked: PageQuery, slots: HeatReport | None
) -> list[Link]:
    """Return the flavors whose map can be shown, and the address of each."""
    shown = slots.flavor if slots else ''
    return [
        Link(name, '' if name == shown else f'{asked.href(heat=name)}{MAP}')
        for name in typed.values()
    ]


def _row(row: SlotsRow, by: str, asked: PageQuery, typed: Mapping[str, str]) -> View:
    place, flavor = row.by or '', typed.get(row.flavor, row.flavor)
    where = {by: place} if by and place else {}
    page = query.of_hosts(**where) if where else ''
    hosts = query.of_hosts(flavor=flavor, **where)
    if place == NOTHING:  # of hosts in no aggregate there is no page
        page = hosts = ''
    elif by == 'host' and place:
        page = hosts = query.of_host(place)
    resource, said = next(iter(row.resources.items()), ('', Amounts(0, 0)))
    return {
        'row': row,
        'flavor': Link(row.flavor, f'{asked.href(heat=flavor)}{MAP}'),
        'place': Link(place, page),
        'hosts': hosts,
        'resource': resource,
        'said': said,
        'percent': capacity_text.percent(said),
        'stranded': [
            capacity_text.mostly(each, resource) for each in said.stranded or ()
        ],
        'usable_share': shapes.share(said.usable, said.free),
    }
