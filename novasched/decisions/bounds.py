# SPDX-License-Identifier: Apache-2.0
"""The most bytes of a body, and what goes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from novasched.decisions.record import encode, pack

Body = Mapping[str, Any]

MOST_BYTES = 64 << 10
SHORT, SHORT_NAME = 16, 64
"""Characters of each text of a request, and of each name, where texts have to go."""


def truncated(body: Body) -> Body:
    """Return a body of MOST_BYTES encoded at most.

    First the decisions between the first and the last go, then alternates, then texts.
    Should that not do, the servers alone are left: only the head will be kept. So they
    are of a body that cannot be encoded.
    """
    try:
        if len(pack(body)) <= MOST_BYTES:
            return body
    except (ValueError, TypeError, OverflowError):
        return _without_all_else(body)
    for lessen in _IN_THIS_ORDER:
        if len(encode(body)) <= MOST_BYTES:
            return body
        body = lessen(body)
    return body


def _without_middle_decisions(body: Body) -> Body:
    decisions = body['decisions']
    return {**body, 'decisions': [*decisions[:1], *decisions[1:][-1:]]}


def _without_alternates(body: Body) -> Body:
    servers = [{**each, 'alternates': []} for each in body['servers']]
    return {**body, 'servers': servers}


def _without_texts(body: Body) -> Body:
    return {
        **body,
        'request': _shortened(body['request']),
        'asked': [
            {name: '' if name in ('query', 'text') else value for name, value in each}
            for each in map(dict.items, body['asked'])
        ],
        'notes': [],
        'claims': [{**each, 'text': ''} for each in body['claims']],
        'decisions': [
            {**each, 'steps': [_without_words(step) for step in each['steps']]}
            if 'steps' in each
            else each
            for each in body['decisions']
        ],
    }


def _without_words(step: Mapping[str, Any]) -> dict[str, Any]:
    reasons = [[code, '', count, host] for code, _, count, host in step['reasons']]
    return {**step, 'reasons': reasons}


def _without_all_else(body: Body) -> Body:
    return {'servers': body['servers']}


_IN_THIS_ORDER: tuple[Callable[[Body], Body], ...] = (
    _without_middle_decisions,
    _without_alternates,
    _without_texts,
    _without_all_else,
)


def _shortened(value: Any) -> Any:
    """Return a value with its texts cut; of names that are the same then, one stays."""
    if isinstance(value, str):
        return value[:SHORT]
    if isinstance(value, Mapping):
        return {name[:SHORT_NAME]: _shortened(value[name]) for name in value}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    return value
