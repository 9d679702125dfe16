# SPDX-License-Identifier: Apache-2.0
"""A decision record as JSON: docs/reference/record.schema.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.decisions.counting import time_of
from novasched.decisions.record import (
    DIAGNOSED_WITHIN_S,
    VERSION,
    DecisionRecord,
    Head,
)
from novasched.decisions.request_summary import RequestSummary
from novasched.inspection.questions import unchecked
from novasched.inspection.texts import stages
from novasched.scheduler.reasons import Blocker

Explanation = dict[str, Any]
WAITING = 'waiting'
"""The diagnosis of a record that is to get one."""


def explanation(
    record: DecisionRecord,
    index: int | None = None,
    long: bool = False,
    now_s: float | None = None,
) -> Explanation:
    """Return the request of a record, and the decision for one server.

    ``index`` is the server's in the request; None means the server that ended it, or
    the first. ``long`` adds every host and its outcome. ``now_s`` is in seconds since
    1970; None means the time of the decision. Raises errors.OptionError for an unknown
    server.
    """
    head, body = record.head, record.body
    decision = _decision(record, index)
    whole = _whole(record, decision)
    taken = decision or {}
    view = body.get('view') or {}
    enabled = unchecked.EnabledChecks.of_record(
        record.profiles.get(body.get('profile', ''))
    )
    demands = unchecked.unchecked_demands(enabled, record.request or RequestSummary())
    return {
        'v': VERSION,
        **_of_head(head),
        'diagnosis': _diagnosis(head, now_s),
        'kept': 'whole' if 'request' in body else 'head',
        'request': body.get('request'),
        'asked': list(body.get('asked', ())),
        'notes': [*body.get('notes', ()), *unchecked.sentences(enabled, demands)],
        'index': taken.get('index'),
        'attempt': taken.get('attempt'),
        # As text: it has 64 bits, and numbers of JSON often have 53.
        'seed': str(taken['seed']) if 'seed' in taken else None,
        'cut': bool(taken.get('cut')),
        'further': bool(taken.get('further')),
        'picked': taken.get('host'),
        'stages': stages.of_record(record, whole),
        'top': _top(whole) if whole else [],
        'no_effect': list(taken.get('no_effect', ())),
        'margin': _margin(whole) if whole else None,
        'numa': taken.get('numa'),
        'servers': list(body.get('servers', ())),
        'claims': [{**c, 'ms': number(c['ms'])} for c in body.get('claims', ())],
        'claims_total': body.get('claims_total', 0),
        'rounds': dict(body.get('rounds') or {}),
        'stages_ms': _numbers(body.get('stages_ms')),
        'cells_left_out': list(view.get('left_out', ())),
        'cell_ages_s': _numbers(view.get('ages_s')),
        'placement': body.get('placement'),
        'error': body.get('error'),
        'policy': record.profiles.get(body.get('profile', '')),
        'hosts': stages.outcomes(record, whole) if long else None,
        'decisions': [
            {key: each.get(key) for key in ('index', 'attempt', 'host')}
            for each in body.get('decisions', ())
        ],
        'server_name': None,
        'of_host': None,
        'now': None,
        'unanswered': [],
    }


def of_host(record: DecisionRecord, host: str, index: int | None = None) -> Explanation:
    """Return the outcome of one host in a decision.

    ``outcome`` is None if the record does not say. ``reasons`` belong to the stage that
    took the host. Unless ``is_exact``, it is not kept which of them is the host's.
    Raises errors.OptionError for a host that was not known.
    """
    decision = _decision(record, index)
    whole = _whole(record, decision)
    outcomes = stages.outcomes(record, whole)
    lists = record.host_lists.values()
    known = {n for names in lists for n in names} if outcomes is None else {*outcomes}
    if known and host not in known:
        meant = errors.closest(host, known)
        raise errors.OptionError(
            '--host',
            f'there was no host {host} when this was decided',
            f'Did you mean {meant}?' if meant else 'See all with --long',
        )
    outcome = (outcomes or {}).get(host)
    if outcomes is None and record.head.blocker == Blocker.NO_CANDIDATES:
        outcome = stages.PLACEMENT
    made = stages.of_record(record, whole)
    reasons, is_exact = stages.reasons_of(made, outcome, host)
    ranked = _top(whole) if whole else []
    return {
        'host': host,
        'outcome': outcome,
        'reasons': reasons,
        'is_exact': is_exact,
        'rank': next((n for n, r in enumerate(ranked, 1) if r['host'] == host), None),
        'passed': (whole or {}).get('left', 0),
        'claims': [c for c in record.body.get('claims', ()) if c['host'] == host],
        'servers': [
            each['uuid']
            for each in record.body.get('servers', ())
            if each['host'] == host
        ],
        'is_alternate': any(
            host in each.get('alternates', ())  # of a head, the host alone is kept
            for each in record.body.get('servers', ())
        ),
    }


def index_of(servers: Sequence[Mapping[str, Any]], server: str) -> int | None:
    """Return the index of a server in its request, by the beginning of its uuid.

    None if there is only one server, or none begins so.
    """
    uuids = [each['uuid'] or '' for each in servers] if server else []
    found = (n for n, uuid in enumerate(uuids) if uuid.startswith(server))
    return next(found, None) if len(uuids) > 1 else None


def _of_head(head: Head) -> Explanation:
    return {
        'id': head.id,
        'at': time_of(head.at),
        'result': head.result,
        'blocker': head.blocker,
        'plugin': head.plugin,
        'code': head.code,
        'request_id': head.request_id,
        'global_request_id': head.global_request_id,
        'project_id': head.project_id,
        'user_id': head.user_id,
        'flavor': head.flavor,
        'zone': head.zone,
        'known': head.hosts,
        'candidates': None if head.candidates < 0 else head.candidates,
        'servers_total': head.servers,
        'took_ms': round(head.took_us / 1000, 3),
        'worker': head.worker,
    }


def _diagnosis(head: Head, now_s: float | None) -> str:
    """Return how far a placement diagnosis is; '': there is none, and none is made any
    more."""
    age_s = 0.0 if now_s is None else now_s - head.at / 1e6
    is_late = head.diagnosis == WAITING and age_s >= DIAGNOSED_WITHIN_S
    return '' if is_late else head.diagnosis


def _decision(record: DecisionRecord, index: int | None) -> Mapping[str, Any] | None:
    """Return the decision for a server, of those kept: the last one that gave it its
    host, or the last one."""
    total = record.head.servers
    if index is not None and not 0 <= index < total:
        problem = f'the request is for {total} server{"s" * (total != 1)}'
        remedy = f'Give 0 to {total - 1}' if total > 1 else 'Leave it out'
        raise errors.OptionError('--index', problem, remedy)
    made: Sequence[Mapping[str, Any]] = record.body.get('decisions', ())
    if index is None:
        ended = [each for each in made if each['host'] is None]
        if record.head.result != 'scheduled':
            return (ended or made or (None,))[-1]
        index = 0
    of_server = [each for each in made if each['index'] == index]
    servers = record.body.get('servers', ())
    host = servers[index]['host'] if index < len(servers) else None
    given = [each for each in of_server if host and each['host'] == host]
    return (given or of_server or (None,))[-1]


def _whole(
    record: DecisionRecord, decision: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return a decision, if it says how its server ended.

    It does not if it is kept without its steps. Nor does it if it found no host, and
    placement, asked once more, had no candidates left.
    """
    if decision is None or not stages.is_whole(decision):
        return None
    asked_again = record.head.blocker == Blocker.NO_CANDIDATES
    return None if asked_again and decision['host'] is None else decision


def _top(decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the best hosts, each with its total and what each weigher gave."""
    return [
        {
            'host': host,
            'total': number(decision['totals'][place]),
            'weights': {
                weigher['name']: _weight(weigher, place)
                for weigher in decision['weighers']
            },
        }
        for place, host in enumerate(decision['top'])
    ]


def _weight(weigher: Mapping[str, Any], place: int) -> dict[str, float | None]:
    normalised, multiplier = weigher['normalised'][place], weigher['multipliers'][place]
    return {
        'raw': number(weigher['raw'][place]),
        'normalised': number(normalised),
        'multiplier': number(multiplier),
        'adds': number(normalised * multiplier),
    }


def _margin(decision: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the lead of the picked host over the best of the others, in all and by
    weigher.

    A lead is negative if the other has more.
    """
    top = {row['host']: row for row in _top(decision)}
    picked = top.pop(decision['host'], None)
    second = next(iter(top.values()), None)
    if picked is None or second is None:
        return None
    return {
        'over': second['host'],
        'by': _difference(picked['total'], second['total']),
        'weighers': {
            name: _difference(weight['adds'], second['weights'][name]['adds'])
            for name, weight in picked['weights'].items()
        },
        'decisive': dict(decision.get('decisive') or {}),
    }


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else number(one - other)


def _numbers(values: Mapping[str, float] | None) -> dict[str, float | None]:
    return {name: number(value) for name, value in (values or {}).items()}


def number(value: float) -> float | None:
    """Return a number with the digits that float32 has; None for one that is infinite
    or no number: JSON has no such."""
    return float(f'{value:.7g}') if math.isfinite(value) else None
