# SPDX-License-Identifier: Apache-2.0
"""Words and signs that all pages share: results, times, amounts, rows of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from novasched.console.pages import query
from novasched.console.pages.query import PageQuery
from novasched.decisions.listing import ListedDecision, ShownDecision
from novasched.inspection.texts import advice, amounts, top
from novasched.inspection.texts.lines import SHOWN_OF_UUID, Fact
from novasched.runtime.times import TIME, time_of
from novasched.scheduler.reasons import Code

RESULTS = tuple(top.RESULTS)
SIGNS = {'scheduled': '✓', 'unschedulable': '✕', 'error': '!'}
STATES = {'enabled': '✓', 'disabled': '–', 'down': '!'}
NOTHING = '–'
MOST_NAMED = 3

View = dict[str, Any]


class Link(NamedTuple):
    """A text and what it opens; '': nothing."""

    text: str
    href: str = ''


class Option(NamedTuple):
    """A value to choose, and whether it is the one that is chosen."""

    value: str
    is_chosen: bool


def result(name: str) -> View:
    """Return a result as it is shown: its kind, sign and word."""
    kind = name if name in top.RESULTS else 'error'
    return {'kind': kind, 'sign': SIGNS[kind], 'word': top.word(name)}


def clock(at: str) -> str:
    """Return the time of day of a time in ISO 8601."""
    return at[11:19]


def time(at: str) -> str:
    """Return the day and time of a time in ISO 8601."""
    return f'{at[:10]} {at[11:19]}'


def grouped(value: int) -> str:
    """Return a count, its digits in groups of three."""
    return f'{value:,}'


def criterion(name: str) -> str:
    """Return criteria for the decisions of which an overview counts a word."""
    if name in advice.BLOCKERS:
        return 'blocker'
    return 'code' if name in set(Code) else 'plugin'


def blamed(name: str, **others: str) -> Link:
    """Return a filter or reason, and the decisions that it ended."""
    return Link(name, query.of_decisions(**{criterion(name): name}, **others))


def row(head: ListedDecision | ShownDecision) -> View:
    """Return a row of a list of decisions."""
    plugin = head.plugin if head.plugin != head.why else ''
    return {
        'id': head.id,
        'href': query.of_decision(head.id),
        'at': time_of(head.at, TIME),
        'result': result(head.result),
        'flavor': head.flavor,
        'zone': head.zone,
        'server': Fact(head.server[:SHOWN_OF_UUID], 'server', value=head.server),
        'others': head.servers - 1,
        'hosts': head.picked[:MOST_NAMED],
        'more_hosts': max(0, len(head.picked) - MOST_NAMED),
        'why': head.why,
        'plugin': plugin if head.why else '',
        'took': amounts.duration(head.took_us / 1000),
        'worker': head.worker.rpartition(':')[0] or head.worker,
    }


def options(known: Sequence[str], chosen: str) -> list[Option]:
    """Return values to choose; one that is chosen is there, known or not."""
    listed = [*known, *([chosen] if chosen and chosen not in known else [])]
    return [Option(each, each == chosen) for each in listed]


def fields(
    asked: PageQuery,
    labels: Mapping[str, str],
    hints: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
) -> list[View]:
    """Return the fields of a form; of those that are ``known``, values to choose."""
    return [
        {
            'name': name,
            'label': label,
            'value': asked.text(name),
            'hint': hints.get(name, ''),
            'options': options(known[name], asked.text(name))
            if name in known
            else None,
        }
        for name, label in labels.items()
    ]


def chosen(asked: PageQuery, labels: Mapping[str, str], *places: str) -> list[View]:
    """Return the conditions that are given, each with the address without it.

    That address is of the first page: it leaves out the ``places``.
    """
    return [
        {
            'label': labels[name],
            'value': value,
            'without': asked.href(**dict.fromkeys((name, *places))),
        }
        for name, value in asked.given
        if name in labels
    ]
