# SPDX-License-Identifier: Apache-2.0
"""Every host of a decision, and what became of it, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from novasched.console.pages.funnel import HOSTS, outcome_of
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.decisions.decided import PASSED_ALL, reasons_of
from novasched.inspection.questions.explain import Explanation
from novasched.inspection.texts import funnel
from novasched.inspection.texts.render import OUTCOMES
from novasched.scheduler.reasons import Code

PAGE = 100
ORDERS = ('name', 'outcome')


def view(explained: Explanation, asked: PageQuery) -> View | None:
    """Return a page of hosts; None if the record does not name them.

    Raises errors.OptionError.
    """
    outcomes = explained.hosts
    if outcomes is None:
        return None
    names = [stage.name for stage in explained.stages]
    order = list(dict.fromkeys(map(outcome_of, names)))
    stage = asked.choice('stage', [*order, PASSED_ALL])
    after = asked.choice('after', names)
    by = asked.choice('order', ORDERS) or 'name'
    chosen = _chosen(outcomes, order, stage, after)
    if by == 'outcome':
        ranks = {name: rank for rank, name in enumerate([PASSED_ALL, *order[::-1]])}
        chosen.sort(key=lambda host: (ranks.get(outcomes[host], len(ranks)), host))
    pages = max(1, -(-len(chosen) // PAGE))
    page = min(asked.number('page', 1, 1, 10**6), pages)
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    what = f'left after {after}' if after else ''
    if stage:
        what = OUTCOMES.get(stage, f'rejected by {stage}')
    return {
        'total': len(chosen),
        'of': len(outcomes),
        'what': what,
        'rows': [_row(host, outcomes[host], explained) for host in shown],
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


def _chosen(
    outcomes: Mapping[str, str], order: Sequence[str], stage: str, after: str
) -> list[str]:
    """Return the hosts that a stage took, that were left after one, or all."""
    if stage:
        return sorted(host for host, each in outcomes.items() if each == stage)
    if after:
        gone = set(order[: order.index(outcome_of(after)) + 1])
        return sorted(host for host, each in outcomes.items() if each not in gone)
    return sorted(outcomes)


def _groups(
    outcomes: Mapping[str, str],
    order: Sequence[str],
    stage: str,
    after: str,
    asked: PageQuery,
) -> list[View]:
    """Return the choices, each with its number of hosts."""
    counts = Counter(outcomes.values())
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
            for name in (*order, PASSED_ALL)
            if counts[name]
        ),
    ]


def _href(asked: PageQuery, **changes: str | int | None) -> str:
    return f'{asked.href(**changes)}{HOSTS}'


def _row(host: str, outcome: str, explained: Explanation) -> View:
    is_passed = outcome == PASSED_ALL
    role = explained.roles.get(host, '')
    return {
        'host': host,
        'outcome': OUTCOMES.get(outcome, outcome),
        'is_passed': is_passed,
        'why': role if is_passed else _why(host, outcome, explained),
    }


def _why(host: str, outcome: str, explained: Explanation) -> str:
    """Return the reason of a host, or the reasons of which it has one."""
    reasons, is_exact = reasons_of(explained.stages, outcome, host)
    known = [reason for reason in reasons if reason.code != Code.NOT_ASKED]
    if not known:
        return ''
    if is_exact:
        return funnel.of_reason(replace(known[0], example=''), has_count=False)
    names = dict.fromkeys(reason.name for reason in known)
    said = f'one of: {", ".join(names)}' if len(names) > 1 else next(iter(names))
    return said if len(known) == len(reasons) else f'not asked, or {said}'
