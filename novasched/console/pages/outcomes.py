# SPDX-License-Identifier: Apache-2.0
"""Every host of a decision, and what became of it, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.console.pages import words
from novasched.console.pages.funnel import HOSTS
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.texts import funnel, stages, weights
from novasched.scheduler.reasons import Code

PAGE = 100
ORDERS = ('name', 'outcome')
SAID = {
    stages.PASSED_ALL: 'passed',
    stages.PLACEMENT: 'not offered by placement',
    stages.WAS_NOT_NAMED: 'not named by the request',
    stages.EARLIER_SERVERS: 'rejected for an earlier server',
}


def view(explained: Mapping[str, Any], asked: PageQuery) -> View | None:
    """Return a page of hosts; None if the record does not name them.

    Raises errors.OptionError.
    """
    outcomes: Mapping[str, str] | None = explained['hosts']
    if outcomes is None:
        return None
    order = _order(explained['stages'])
    stage = asked.choice('stage', [*order, stages.PASSED_ALL])
    after = asked.choice('after', [each['name'] for each in explained['stages']])
    by = asked.choice('order', ORDERS) or 'name'
    chosen = _chosen(outcomes, order, stage, after)
    if by == 'outcome':
        rank = {
            name: place for place, name in enumerate([stages.PASSED_ALL, *order[::-1]])
        }
        chosen.sort(key=lambda host: (rank.get(outcomes[host], len(rank)), host))
    pages = max(1, -(-len(chosen) // PAGE))
    page = min(asked.number('page', 1, 1, 10**6), pages)
    roles = weights.roles(explained)
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    return {
        'total': len(chosen),
        'of': len(outcomes),
        'what': _what(stage, after),
        'rows': [_row(h, outcomes[h], explained, roles) for h in shown],
        'groups': _groups(outcomes, order, stage, after, asked),
        'orders': [
            Link(each, '' if each == by else _href(asked, order=each, page=None))
            for each in ORDERS
        ],
        'page': page,
        'pages': pages,
        'earlier': _href(asked, page=page - 1) if page > 1 else '',
        'later': _href(asked, page=page + 1) if page < pages else '',
    }


def _order(made: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the outcomes of hosts that did not pass, in the order of the stages."""
    names = [
        stages.WAS_NOT_NAMED if each['name'] == stages.NAMED_HOSTS else each['name']
        for each in made
    ]
    return list(dict.fromkeys(names))


def _chosen(
    outcomes: Mapping[str, str], order: Sequence[str], stage: str, after: str
) -> list[str]:
    """Return the hosts that a stage took, that were left after one, or all."""
    if stage:
        return sorted(host for host, each in outcomes.items() if each == stage)
    if after:
        name = stages.WAS_NOT_NAMED if after == stages.NAMED_HOSTS else after
        gone = set(order[: order.index(name) + 1])
        return sorted(host for host, each in outcomes.items() if each not in gone)
    return sorted(outcomes)


def _what(stage: str, after: str) -> str:
    if stage:
        return SAID.get(stage, f'rejected by {stage}')
    return f'left after {after}' if after else ''


def _groups(
    outcomes: Mapping[str, str],
    order: Sequence[str],
    stage: str,
    after: str,
    asked: PageQuery,
) -> list[View]:
    """Return the choices, each with its number of hosts."""
    counts = Counter(outcomes.values())
    names = [name for name in (*order, stages.PASSED_ALL) if counts[name]]
    every = {
        'text': 'all',
        'count': len(outcomes),
        'href': _href(asked, stage=None, after=None, page=None),
        'is_chosen': not stage and not after,
    }
    return [
        every,
        *(
            {
                'text': name,
                'count': counts[name],
                'href': _href(asked, stage=name, after=None, page=None),
                'is_chosen': name == stage,
            }
            for name in names
        ),
    ]


def _href(asked: PageQuery, **changes: str | int | None) -> str:
    return f'{asked.href(**changes)}{HOSTS}'


def _row(
    host: str, outcome: str, explained: Mapping[str, Any], roles: Mapping[str, str]
) -> View:
    passed = outcome == stages.PASSED_ALL
    return {
        'host': words.to_host(host),
        'outcome': SAID.get(outcome, outcome),
        'is_passed': passed,
        'why': roles.get(host, '') if passed else _why(host, outcome, explained),
    }


def _why(host: str, outcome: str, explained: Mapping[str, Any]) -> str:
    """Return the reason of a host, or the reasons of which it has one."""
    reasons, is_exact = stages.reasons_of(explained['stages'], outcome, host)
    known = [each for each in reasons if each['code'] != Code.NOT_ASKED]
    if not known:
        return ''
    if is_exact:
        return funnel.of_reason({**known[0], 'example': ''}, has_count=False)
    codes = dict.fromkeys(f'{each["code"]} {each["what"]}'.strip() for each in known)
    said = f'one of: {", ".join(codes)}' if len(codes) > 1 else next(iter(codes))
    return said if len(known) == len(reasons) else f'not asked, or {said}'
