# SPDX-License-Identifier: Apache-2.0
"""The health of what the console reads, and free slots of chosen flavors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novasched.console.pages.words import View

SIGNS = {'pass': ('scheduled', '✓'), 'warn': ('unschedulable', '–')}
NAMES = {'api_database': 'API database', 'decisions': 'decision log'}
"""Names of checks that are not shown as they are."""
WELL = {'policy': 'Enabled filters check all that flavors and aggregates ask for.'}
SAID = {
    'pass': 'All that the console reads answers.',
    'warn': 'Something is not as it should be.',
    'fail': 'The console cannot read what it needs.',
}


def view(answer: Mapping[str, Any]) -> View:
    """Return the values for the page."""
    return {
        'status': _status(answer['status']),
        'said': SAID.get(answer['status'], ''),
        'checks': [
            {
                'name': NAMES.get(name, name),
                'status': _status(each['status']),
                'output': each.get('output') or WELL.get(name, 'It answers.'),
                'at': each.get('time') or '',
            }
            for name, each in answer['checks'].items()
        ],
        'free_slots': [
            {
                'flavor': flavor,
                'zone': zone,
                'slots': number,
            }
            for flavor, zone, number in answer['free_slots']
        ],
    }


def _status(name: str) -> View:
    kind, sign = SIGNS.get(name, ('error', '!'))
    return {'kind': kind, 'sign': sign, 'word': name}
