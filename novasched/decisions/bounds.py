# SPDX-License-Identifier: Apache-2.0
"""The most bytes of a body, and what goes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from novasched.decisions.body import HostDecision, RecordBody, WholeDecision
from novasched.decisions.record import encode, pack
from novasched.decisions.request_summary import RequestSummary
from novasched.runtime.typed_json import of_json, to_json

MOST_BYTES = 64 << 10
SHORT, SHORT_NAME = 16, 64
"""Characters of each text of a request, and of each name, where texts have to go."""


def truncated(body: RecordBody) -> RecordBody:
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


def _without_middle_decisions(body: RecordBody) -> RecordBody:
    return replace(body, decisions=[*body.decisions[:1], *body.decisions[1:][-1:]])


def _without_alternates(body: RecordBody) -> RecordBody:
    return replace(body, servers=[replace(s, alternates=()) for s in body.servers])


def _without_texts(body: RecordBody) -> RecordBody:
    return replace(
        body,
        request=of_json(RequestSummary, _shortened(to_json(body.request))),
        asked=[replace(q, query='', text=q.text and '') for q in body.asked],
        notes=(),
        claims=[replace(claim, text='') for claim in body.claims],
        decisions=[_without_words(made) for made in body.decisions],
    )


def _without_words(made: HostDecision) -> HostDecision:
    if not isinstance(made, WholeDecision):
        return made
    steps = [
        replace(step, reasons=[reason._replace(text='') for reason in step.reasons])
        for step in made.steps
    ]
    return replace(made, steps=steps)


def _without_all_else(body: RecordBody) -> RecordBody:
    return RecordBody(servers=body.servers)


_IN_THIS_ORDER: tuple[Callable[[RecordBody], RecordBody], ...] = (
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
