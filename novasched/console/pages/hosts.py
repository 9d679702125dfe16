# SPDX-License-Identifier: Apache-2.0
"""A list of hosts, with what is used of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from novasched.console.pages import query, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.reports import HostsReport, ListedHost
from novasched.inspection.session.orders import STATES, HostsOrder, options
from novasched.inspection.texts import amounts
from novasched.inspection.texts.host import used
from novasched.inspection.texts.lines import Fact
from novasched.inspection.texts.missing import missing_parts

CLASSES = ('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB')
MOST_CLASSES = 4
"""Resource classes with a column of their own."""
LABELS = {name: said.label for name, _, said in options(HostsOrder) if said.label}
HINTS = {name: said.hint for name, _, said in options(HostsOrder)}


def view(answer: HostsReport, asked: PageQuery, flavors: Sequence[str]) -> View:
    """Return the values for the page."""
    classes = _classes(each.used for each in answer.hosts)
    page, pages = answer.page, answer.pages
    missing = list(missing_parts(cells=answer.cells_left_out))
    has_cells = len(answer.cells) > 1 or bool(asked.text('cell'))
    labels = {n: label for n, label in LABELS.items() if has_cells or n != 'cell'}
    if answer.problem:
        missing.append(f'It is not known how much is used. {answer.problem}')
    known = {
        'state': STATES,
        'cell': answer.cells,
        'zone': answer.zones,
        'aggregate': answer.aggregates,
        'flavor': flavors,
    }
    return {
        'fields': words.fields(asked, labels, HINTS, known),
        'has_cells': has_cells,
        'chosen': words.chosen(asked, LABELS, 'page'),
        'flavor': asked.text('flavor'),
        'classes': [amounts.resource(name) for name in classes],
        'rows': [_row(each, classes) for each in answer.hosts],
        'total': answer.total,
        'page': page,
        'pages': pages,
        'earlier': asked.href(page=page - 1) if page > 1 else '',
        'later': asked.href(page=page + 1) if page < pages else '',
        'missing': missing,
    }


def _classes(used: Iterable[Mapping[str, tuple[int, int]]]) -> list[str]:
    found = dict.fromkeys(n for each in used for n, (_, total) in each.items() if total)
    known = [name for name in CLASSES if name in found]
    return [*known, *sorted(set(found) - set(CLASSES))][:MOST_CLASSES]


def _row(row: ListedHost, classes: Sequence[str]) -> View:
    return {
        'host': row.host,
        'state': Fact(row.state, 'state', note=row.reason or ''),
        'cell': row.cell,
        'zone': Link(row.zone, query.of_hosts(zone=row.zone)),
        'aggregates': [name for name in row.aggregates if name != row.zone],
        'used': [
            used(name, *row.used[name]) if name in row.used else Fact('')
            for name in classes
        ],
        'servers': row.servers,
        'slots': row.slots,
    }
