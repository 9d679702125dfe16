# SPDX-License-Identifier: Apache-2.0
"""A dry run: where new servers would go, or what would change the answer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from novasched.console.pages import funnel, query, scores, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.explain import Explanation
from novasched.inspection.questions.reports import BootPlan
from novasched.inspection.session.orders import PlanOrder, options
from novasched.inspection.texts import plan as plan_text
from novasched.inspection.texts import render
from novasched.inspection.texts.missing import missing_parts
from novasched.inspection.texts.plan import MOST_ALTERNATES

CHANGES = (
    ('disable HOST', 'enable HOST, remove HOST'),
    ('add N like HOST', 'more hosts of a kind, empty'),
    ('trait HOST +T', 'or -T'),
    ('aggregate A +HOST -HOST', 'members'),
    ('property A key=value', 'of an aggregate'),
    ('ratio VCPU=8 A', 'of an aggregate, a host, or all'),
    ('option GROUP.NAME=VALUE', 'filters, limits, multipliers'),
)


def view(
    answer: BootPlan | None, asked: PageQuery, flavors: Sequence[str], problem: str = ''
) -> View:
    """Return the values for the page; without an answer nothing is asked yet, or it
    cannot be planned."""
    return {
        'form': form(asked, flavors),
        'result': result(answer, asked) if answer else None,
        'problem': problem,
    }


def refused(asked: PageQuery, problem: str) -> View:
    """Return the values for the page where it cannot be planned."""
    return view(None, asked, (), problem)


def form(asked: PageQuery, flavors: Sequence[str]) -> View:
    """Return the fields of the form; ``unseen`` are parameters without one."""
    fields = {
        name: {
            'name': name,
            'label': said.label,
            'hint': said.hint,
            'value': '\n'.join(asked.lines(name)) or default or '',
        }
        for name, default, said in options(PlanOrder)
        if said.label
    }
    seen = {*fields, 'like'}
    return {
        'fields': fields,
        'flavors': list(flavors),
        'like': Link(asked.text('like'), query.of_decision(asked.text('like'))),
        'unlike': asked.href(like=None),
        'unseen': [(name, value) for name, value in asked.given if name not in seen],
        'changes': CHANGES,
    }


def result(answer: BootPlan, asked: PageQuery) -> View:
    """Return the answer: hosts, or what would change it."""
    most = max((each.servers for each in answer.hosts), default=0)
    unplaced = next(iter(answer.unplaced), None)
    refused = (unplaced and unplaced.explanation) or Explanation()
    first = next(iter(answer.explanations or ()), None)
    kind = 'scheduled' if answer.all_fit else 'unschedulable'
    return {
        'answer': answer,
        'kind': kind,
        'sign': words.SIGNS[kind],
        'verdict': plan_text.verdict(answer, 'server'),
        'facts': plan_text.facts(answer),
        'hosts': [
            {
                'taken': each,
                'room': plan_text.room(each),
                'share': shapes.share(each.servers, most),
                'alternates': each.alternates[:MOST_ALTERNATES],
            }
            for each in answer.hosts
        ],
        'funnel': funnel.view(refused.stages, asked, False),
        'notes': render.notes(refused),
        'problem': (unplaced and unplaced.error) or '',
        'changes': plan_text.changes(answer),
        'missing': list(missing_parts(cells=answer.cells_left_out)),
        'scores': scores.view(first) if first else None,
        'command': command(asked.order(PlanOrder)),
    }


def command(order: PlanOrder) -> str:
    """Return the command that asks the same."""
    said = ['novasched', 'plan', 'boot']
    for name, default, known in options(order):
        value = getattr(order, name)
        if known.flag and value != default:
            values = value if isinstance(value, tuple) else [value]
            for each in values:
                said += [known.flag] if each is True else [known.flag, str(each)]
    return shlex.join(said)
