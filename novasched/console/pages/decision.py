# SPDX-License-Identifier: Apache-2.0
"""A decision: its funnel, weights, hosts, claims and request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from novasched.console.pages import (
    funnel,
    outcomes,
    query,
    scores,
    shapes,
    words,
)
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import View
from novasched.decisions.body import RecordedQuery
from novasched.inspection.questions.explain import HEAD, WHOLE, Explanation
from novasched.inspection.texts import causes, render, shadow, weights
from novasched.inspection.texts.lines import Style, counted
from novasched.inspection.texts.missing import missing_parts


def view(explained: Explanation, asked: PageQuery) -> View:
    """Return the values for the page: the explanation, and what is drawn of it."""
    is_scheduled = explained.is_scheduled
    index = explained.index
    # People count servers from one.
    said = explained if index is None else replace(explained, index=index + 1)
    title = render.result_of(said)[0]
    return {
        'answer': explained,
        'result': words.result(explained.result),
        'facts': render.about(explained, Style()),
        'claims': render.claims(explained),
        'title': title.capitalize() if title.isupper() else _heading(title),
        'blocked': '' if is_scheduled else _sentence(causes.blocked(said)),
        'remedies': [] if is_scheduled else causes.remedies(explained),
        'won_by': weights.gap_text(explained) if is_scheduled else '',
        'decisive': [
            (weights.decided_by(weigher), host)
            for weigher, host in explained.decisive.items()
        ],
        'tries': weights.tries_of(explained),
        'servers': _servers(explained, asked),
        'plan': query.address('/plan', [('like', explained.id)])
        if explained.kept == WHOLE
        else '',
        'missing': [
            *render.unavailable_cells(explained),
            *missing_parts(explained.unanswered),
        ],
        'head_only': f'{_sentence(render.HEAD_ONLY)}.'
        if explained.kept == HEAD
        else '',
        'compared': shadow.compared(explained.shadow or ()),
        'funnel': funnel.view(explained.stages, asked, explained.hosts is not None),
        'notes': render.notes(explained),
        'scores': scores.view(explained),
        'outcomes': outcomes.view(explained, asked),
        'took': _took(explained),
        'request': list(render.demands(explained.request, Style(is_long=True)))
        if explained.request
        else [],
        'queries': [(each.query, _answered(each)) for each in explained.asked],
        'policy': _policy(explained.policy or {}),
    }


def _sentence(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def _heading(text: str) -> str:
    """Return a heading whose first word alone was in capitals."""
    first, _, rest = text.partition(' ')
    return f'{first.capitalize()} {rest}'


def _servers(explained: Explanation, asked: PageQuery) -> list[View]:
    """Return the servers of the request, and the page of each."""
    several = explained.servers_total > 1
    return [
        {
            'server': server,
            'number': index + 1,
            'href': asked.href(index=index, stage=None, after=None, page=None),
            'is_shown': several and index == explained.index,
        }
        for index, server in enumerate(explained.servers)
    ]


def _took(explained: Explanation) -> View | None:
    """Return how long each stage took, as a bar in parts."""
    took = render.timings(explained)
    if not sum(took.values()):
        return None
    parts = shapes.segments(list(took.items()))
    kinds = {name: place % 6 for place, name in enumerate(took)}
    rows = [
        {'name': name, 'ms': f'{ms:.1f}', 'kind': kinds[name]}
        for name, ms in took.items()
    ]
    said = ', '.join(f'{each["name"]} {each["ms"]}' for each in rows)
    return {
        'label': f'Milliseconds by stage: {said}',
        'rows': rows,
        'parts': [part._replace(kind=str(kinds[part.kind])) for part in parts],
    }


def _answered(asked: RecordedQuery) -> str:
    """Return the answer to a query to placement, in words."""
    said = [
        f'HTTP {asked.status}' if asked.status else 'no answer',
        counted(asked.candidates, 'candidate'),
        f'{asked.limit} at most' if asked.limit else '',
        'cut' if asked.cut else '',
        'answered by the copy of placement' if asked.copied else '',
        f'not by the copy: {asked.fallback}' if asked.fallback else '',
        asked.text or '',
    ]
    return ', '.join(filter(None, said))


def _policy(policy: Mapping[str, Any]) -> View | None:
    """Return the operator's choices at the time: short ones, lists, and options."""
    if not policy:
        return None
    short, lists, options = [], [], []
    for name, value in policy.items():
        if name == 'options':
            options = [f'{key} = {each}' for key, each in value.items()]
        elif isinstance(value, Mapping):
            lists.append((name, [f'{key} {_number(n)}' for key, n in value.items()]))
        elif isinstance(value, list | tuple):
            lists.append((name, [str(each) for each in value]))
        else:
            short.append((name, str(value)))
    return {'short': short, 'lists': lists, 'options': options}


def _number(value: Any) -> str:
    """Return a multiplier as it is shown."""
    if not isinstance(value, int | float):
        return str(value)
    return f'×{value:,.6f}'.rstrip('0').rstrip('.')
