# SPDX-License-Identifier: Apache-2.0
"""Lists of decisions, and their counts."""

from __future__ import annotations

from novasched.commands.decisions import BY
from novasched.console.pages import query, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.decisions.counting import Count
from novasched.decisions.listing import CountPage, DecisionPage
from novasched.inspection.session.orders import LATEST, DecisionsOrder, options
from novasched.inspection.texts.missing import missing_parts

COUNT = '/decisions/count'
LABELS = {name: said.label for name, _, said in options(DecisionsOrder)}
HINTS = {name: said.hint for name, _, said in options(DecisionsOrder)}
KNOWN = {n: said.choices for n, _, said in options(DecisionsOrder) if said.choices}
MOST_COUNTED = 100
"""Values whose counts a page shows."""
FIRST = ('result', 'flavor', 'plugin', 'host', 'since')


def view(answer: DecisionPage, asked: PageQuery, total: int | None) -> View:
    """Return the values for the list; ``total`` is how many records match, if known."""
    following, number = answer.next, len(answer.decisions)
    first = asked.number('first', 1, 1, LATEST)
    return {
        'extent': _extent(total, first, number, asked) if total and number else '',
        **_criteria(asked),
        'rows': [words.row(each) for each in answer.decisions],
        'missing': list(missing_parts(answer.unanswered)),
        'older': asked.href(before=following, first=first + number)
        if following
        else '',
        'newest': asked.href(before=None, first=None) if asked.text('before') else '',
        'counts': [
            Link(by, query.address(COUNT, [*_kept(asked), ('by', by)])) for by in BY
        ],
    }


def _extent(total: int, first: int, number: int, asked: PageQuery) -> str:
    """Return how many decisions there are, and which of them are shown."""
    text = f'{words.grouped(total)} decision{"" if total == 1 else "s"}'
    if asked.text('before') and not asked.text('first'):
        return text
    return f'{text}, {words.grouped(first)}–{words.grouped(first + number - 1)}'


def counts(answer: CountPage, asked: PageQuery, by: str) -> View:
    """Return the values of the counts."""
    rows = answer.rows[:MOST_COUNTED]
    most = max((each.count for each in rows), default=0)
    missing = list(missing_parts(answer.unanswered))
    if more := len(answer.rows) - len(rows):
        missing.append(f'{words.grouped(more)} more are in the JSON alone.')
    return {
        **_criteria(asked),
        'by': by,
        'rows': [
            {
                'link': _opened(by, each, asked),
                'count': each.count,
                'share': shapes.share(each.count, most),
                'percent': f'{100 * each.share:.1f} %',
                'most_often': each.most_often,
            }
            for each in rows
        ],
        'total': sum(each.count for each in answer.rows),
        'missing': missing,
        'others': [
            Link(each, '' if each == by else asked.href(by=each)) for each in BY
        ],
        'list': query.address('/decisions', _kept(asked)),
    }


def _kept(asked: PageQuery) -> list[tuple[str, str]]:
    return [(name, value) for name, value in asked.given if name in LABELS]


def _opened(by: str, row: Count, asked: PageQuery) -> Link:
    """Return a counted value, and the decisions that it counts."""
    value, most_often = row.value, row.most_often
    changes = dict(_kept(asked))
    if not value:
        return Link(words.NOTHING)
    if by in ('day', 'hour'):
        changes |= _span(by, value)
    elif value.startswith('('):  # it is no plugin, but what else ended them
        changes[words.criterion(most_often)] = most_often
    else:
        changes[by] = value
    return Link(value, query.of_decisions(**changes))


def _span(by: str, value: str) -> dict[str, str]:
    if by == 'day':
        return {'since': f'{value}T00:00:00Z', 'until': f'{value}T23:59:59.999999Z'}
    hour = value.removesuffix(':00Z')
    return {'since': f'{hour}:00:00Z', 'until': f'{hour}:59:59.999999Z'}


def _criteria(asked: PageQuery) -> View:
    """Return the fields of the form, and what is chosen."""
    fields = words.fields(asked, LABELS, HINTS, KNOWN)
    by_name = {each['name']: each for each in fields}
    return {
        'fields': [by_name[name] for name in FIRST],
        'more_fields': [
            each
            for each in fields
            if each['name'] not in FIRST
            and (each['value'] or each['name'] != 'differs')
        ],
        'has_more': any(asked.text(n) for n in LABELS if n not in FIRST),
        'chosen': words.chosen(asked, LABELS, 'before', 'first'),
    }
