# SPDX-License-Identifier: Apache-2.0
"""A dry run: where new servers would go, or what would change the answer."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.console.pages import funnel, query, scores, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.explain import Explanation, explanation_of
from novasched.inspection.texts import render
from novasched.inspection.texts.lines import counted

MOST_ALTERNATES = 3
CHANGES = (
    ('disable HOST', 'enable HOST, remove HOST'),
    ('add N like HOST', 'more hosts of a kind, empty'),
    ('trait HOST +T', 'or -T'),
    ('aggregate A +HOST -HOST', 'members'),
    ('property A key=value', 'of an aggregate'),
    ('ratio VCPU=8 A', 'of an aggregate, a host, or all'),
    ('option GROUP.NAME=VALUE', 'filters, limits, multipliers'),
)


def view(answer: Mapping[str, Any], asked: PageQuery, flavors: Sequence[str]) -> View:
    """Return the values for the page; ``answer`` is empty before anything is asked."""
    return {
        'form': form(asked, flavors),
        'result': result(answer, asked) if answer else None,
        'problem': '',
    }


def refused(asked: PageQuery, problem: str) -> View:
    """Return the values for the page where it cannot be planned."""
    return {'form': form(asked, ()), 'result': None, 'problem': problem}


def form(asked: PageQuery, flavors: Sequence[str]) -> View:
    """Return the values of the form."""
    return {
        'flavors': list(flavors),
        'flavor': asked.text('flavor'),
        'image': asked.text('image'),
        'zone': asked.text('zone'),
        'count': asked.text('count') or '1',
        'hints': '\n'.join(asked.lines('hints')),
        'what_if': '\n'.join(asked.lines('what_if')),
        'like': Link(asked.text('like'), query.of_decision(asked.text('like'))),
        'unlike': asked.href(like=None),
        'changes': CHANGES,
    }


def result(answer: Mapping[str, Any], asked: PageQuery) -> View:
    """Return the answer: hosts, or what would change it."""
    fits = answer['fits'] == answer['asked']
    most = max((each['servers'] for each in answer['hosts']), default=0)
    unplaced: Mapping[str, Any] = next(iter(answer['unplaced']), {})
    explained = unplaced.get('explanation')
    refused = explanation_of(explained) if explained else Explanation()
    first = next(iter(answer.get('explanations') or ()), None)
    return {
        'kind': 'scheduled' if fits else 'unschedulable',
        'sign': words.SIGNS['scheduled' if fits else 'unschedulable'],
        'verdict': _verdict(answer),
        'as_of': answer['as_of'],
        'time': words.time(answer['as_of']),
        'offered': answer['offered'],
        'plan_id': answer['plan_id'],
        'hosts': [
            {
                **each,
                'link': words.to_host(each['host']),
                'share': shapes.share(each['servers'], most),
                'alternates': [
                    words.to_host(name) for name in each['alternates'][:MOST_ALTERNATES]
                ],
            }
            for each in answer['hosts']
        ],
        'funnel': funnel.view(refused.stages, asked, False),
        'notes': render.notes(refused),
        'problem': unplaced.get('error', ''),
        'changes': _changes(answer),
        'not_enough': [
            {
                'change': words.explained_amounts(each['change']),
                'also_missing': words.explained_amounts(each['also_fail'] or ''),
            }
            for each in answer['changes']
            if not each['hosts']
        ],
        'remarks': answer['notes'],
        'missing': list(words.missing(cells_left_out=answer.get('cells_left_out', ()))),
        'scores': scores.view(explanation_of(first)) if first else None,
        'command': command(asked),
    }


def _verdict(answer: Mapping[str, Any]) -> str:
    """Return how many of the servers fit."""
    fits, asked = answer['fits'], answer['asked']
    return f'{fits} of {counted(asked, "server")} fit{"s" * (asked == 1)}'


def _changes(answer: Mapping[str, Any]) -> list[View]:
    """Return the changes after which hosts fit."""
    most = max((each['hosts'] for each in answer['changes']), default=0)
    return [
        {
            'change': words.explained_amounts(each['change']),
            'hosts': each['hosts'],
            'share': shapes.share(each['hosts'], most),
        }
        for each in answer['changes']
        if each['hosts']
    ]


def command(asked: PageQuery) -> str:
    """Return the command that asks the same."""
    order = asked.plan()
    said = [
        ('--like', order.like),
        ('--flavor', order.flavor),
        ('--image', order.image),
        ('--availability-zone', order.zone),
        ('--count', str(order.count) if order.count > 1 else ''),
        *(('--hint', each) for each in order.hints),
        *(('--what-if', each) for each in order.what_if),
    ]
    return shlex.join(
        ['novasched', 'plan', 'boot', *(w for n, v in said if v for w in (n, v))]
    )
