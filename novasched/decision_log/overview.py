# SPDX-License-Identifier: Apache-2.0
"""The last seconds of a decision log, for those who watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novasched.decision_log.reading import DecisionReader
from novasched.decision_log.record import DecisionRecord


def of(reader: DecisionReader, window_s: float) -> dict[str, Any]:
    """Return the overview of a log, with what only the bodies of its newest records
    have: their servers, what stood against each, and what was known of the cells."""
    found = reader.overview(window_s)
    records = {each['id']: reader.read(each['id']) for each in found['newest']}
    bodies = [record.body for record in records.values() if record is not None]
    return {
        **found,
        'newest': [_row(each, records[each['id']]) for each in found['newest']],
        'query_ms': sorted(
            body['stages_ms']['query']
            for body in bodies
            if 'query' in body.get('stages_ms', {})
        ),
        'view': next((body['view'] for body in bodies if 'view' in body), {}),
    }


def _row(head: Mapping[str, Any], record: DecisionRecord | None) -> dict[str, Any]:
    body = {} if record is None else record.body
    servers = [each['uuid'] for each in body.get('servers', ())]
    return {
        **head,
        'server': servers[0] if servers else '',
        'rejected': _rejected(body, head['plugin'], head['code']),
    }


def _rejected(body: Mapping[str, Any], plugin: str, code: str) -> int:
    """Return how many hosts the most frequent reason stands for; 0: it is not known."""
    steps = [
        step for each in body.get('decisions', ()) for step in each.get('steps', ())
    ]
    reasons = [
        reason
        for step in reversed(steps)
        if step['name'] == plugin
        for reason in step['reasons']
    ]
    of_placement = (body.get('placement') or {}).get('reasons', ())
    counts = [
        *(count for known, _, count, *_ in reasons if known == code),
        *(each['hosts'] for each in of_placement if each['code'] == code),
    ]
    return counts[0] if counts else 0
