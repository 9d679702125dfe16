# SPDX-License-Identifier: Apache-2.0
"""The best hosts of a decision, with what each weigher gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novasched.console.pages import shapes, words
from novasched.console.pages.words import View
from novasched.inspection.texts import weights
from novasched.inspection.texts.lines import shown

PARTS = ('raw', 'normalised', 'multiplier')


def view(explained: Mapping[str, Any]) -> View | None:
    """Return a table of hosts and weighers; None if no host was weighed."""
    rows: Sequence[Mapping[str, Any]] = explained['top']
    if not rows:
        return None
    names: list[str] = []
    idle: list[str] = []
    for name in rows[0]['weights']:
        adds = any(row['weights'][name]['adds'] != 0.0 for row in rows)
        (names if adds else idle).append(name)
    roles = weights.roles(explained)
    largest = max(
        (abs(row['weights'][name]['adds'] or 0.0) for row in rows for name in names),
        default=0.0,
    )
    decisive = weights.decisive(explained)
    is_scheduled = explained['result'] == 'scheduled'
    return {
        'weighers': [
            {
                'name': name,
                'short': weights.short(name),
                'times': weights.multiplier_of(name, rows),
                'is_decisive': name in decisive,
            }
            for name in names
        ],
        'rows': [
            {
                'host': words.to_host(row['host']),
                'role': roles.get(row['host'], ''),
                'is_picked': is_scheduled and row['host'] == explained['picked'],
                'total': shown(row['total']),
                'cells': [_cell(row['weights'][name], largest) for name in names],
            }
            for row in rows
        ],
        'no_effect': [weights.short(name) for name in (*idle, *explained['no_effect'])],
        'has_negative': any(
            (row['weights'][name]['adds'] or 0.0) < 0 for row in rows for name in names
        ),
    }


def _cell(weight: Mapping[str, float | None], largest: float) -> View:
    adds = weight['adds']
    length = shapes.share(abs(adds or 0.0), largest)
    return {
        'text': shown(adds),
        'length': length,
        'is_negative': adds is not None and adds < 0,
        'title': ', '.join(f'{name} {shown(weight[name])}' for name in PARTS),
    }
