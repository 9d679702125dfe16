# SPDX-License-Identifier: Apache-2.0
"""The best hosts of a decision, with what each weigher gave them."""

from __future__ import annotations

from dataclasses import asdict

from novasched.console.pages import shapes
from novasched.console.pages.words import View
from novasched.decisions.decided import Weight
from novasched.inspection.questions.explain import Explanation
from novasched.inspection.texts import weights
from novasched.inspection.texts.lines import shown


def view(explained: Explanation) -> View | None:
    """Return a table of hosts and weighers; None if no host was weighed."""
    rows = explained.top
    if not rows:
        return None
    names: list[str] = []
    idle: list[str] = []
    for name in rows[0].weights:
        adds = any(row.weights[name].adds != 0.0 for row in rows)
        (names if adds else idle).append(name)
    given = [row.weights[name].adds or 0.0 for row in rows for name in names]
    largest = max(map(abs, given), default=0.0)
    return {
        'weighers': [
            {
                'name': name,
                'short': weights.short(name),
                'times': weights.multiplier_of(name, rows),
                'is_decisive': name in explained.decisive,
            }
            for name in names
        ],
        'rows': [
            {
                'host': row.host,
                'role': explained.roles.get(row.host, ''),
                'is_picked': explained.is_scheduled and row.host == explained.picked,
                'total': shown(row.total),
                'cells': [_cell(row.weights[name], largest) for name in names],
            }
            for row in rows
        ],
        'no_effect': [weights.short(name) for name in (*idle, *explained.no_effect)],
        'has_negative': any(number < 0 for number in given),
    }


def _cell(weight: Weight, largest: float) -> View:
    parts = asdict(weight)
    adds = parts.pop('adds')
    return {
        'text': shown(adds),
        'length': shapes.share(abs(adds or 0.0), largest),
        'is_negative': adds is not None and adds < 0,
        'title': ', '.join(f'{name} {shown(part)}' for name, part in parts.items()),
    }
