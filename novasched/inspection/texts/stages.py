# SPDX-License-Identifier: Apache-2.0
"""The stages of a decision: how many hosts each left, and why. Counts add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novasched.decisions.record import DecisionRecord
from novasched.scheduler.reasons import (
    FIRST_STEP,
    NOT_A_CANDIDATE,
    NOT_NAMED,
    PASSED,
    Blocker,
    Code,
)

PLACEMENT = 'placement'
KNOWN_HOSTS = 'known hosts'
EARLIER_SERVERS = 'earlier servers'
NAMED_HOSTS = 'named hosts'
PASSED_ALL = 'passed'
WAS_NOT_NAMED = 'not named'

Stage = dict[str, Any]
Reasons = list[dict[str, Any]]


def of_record(
    record: DecisionRecord, decision: Mapping[str, Any] | None
) -> list[Stage]:
    """Return the stages of one of the decisions, in order.

    Each has the name of what looked at the hosts, ``in``, ``out``, and reasons, whose
    counts are ``in`` - ``out``. Without a ``decision`` only placement can have taken
    hosts.
    """
    head, diagnosis = record.head, record.body.get('placement')
    if decision is None:
        if head.blocker != Blocker.NO_CANDIDATES:
            return []
        return [_placement(head.hosts, 0, diagnosis)]
    table, steps = decision['candidates'], decision['steps']
    left = steps[0]['in'] if steps else decision['left']
    stages = []
    if not record.body.get('asked'):
        lost = _lost(Code.NOT_NAMED, 'placement was not asked')
        stages.append(_stage(NAMED_HOSTS, decision['hosts'], table, lost))
    else:
        before = _before_earlier(record, decision)
        offered = max(_offered(record), before)
        known = decision['hosts']
        lost = _lost(Code.UNKNOWN_HOST, 'no compute node or service of it is known')
        if unavailable := (record.body.get('view') or {}).get('left_out'):
            lost = _lost(Code.CELL_LEFT_OUT, f'{", ".join(unavailable)} did not answer')
        else:
            known += offered - before
        earlier = _lost(
            Code.NOT_ASKED, 'rejected for an earlier server of the request: see --index'
        )
        stages = [
            _placement(known, offered, diagnosis),
            _stage(KNOWN_HOSTS, offered, before, lost),
            _stage(EARLIER_SERVERS, before, table, earlier),
        ]
    lost = _lost(Code.NOT_NAMED, 'the request names other hosts')
    stages.append(_stage(NAMED_HOSTS, table, left, lost))
    kept = [s for s in stages if s['in'] != s['out'] or s['name'] == PLACEMENT]
    return kept + [_step(step) for step in steps]


def outcomes(
    record: DecisionRecord, decision: Mapping[str, Any] | None
) -> dict[str, str] | None:
    """Return the outcome of each host: the name of the stage that took it, PASSED_ALL
    or WAS_NOT_NAMED. Return None if the record does not say."""
    codes = _codes(record, decision)
    if decision is None or codes is None:
        return None
    first = _first(record, decision)
    before = first and _codes(record, first)
    took = PLACEMENT if record.body.get('asked') else WAS_NOT_NAMED
    found = {}
    for host, code in codes.items():
        name = took
        if code == PASSED:
            name = PASSED_ALL
        elif code == NOT_NAMED:
            name = WAS_NOT_NAMED
        elif code != NOT_A_CANDIDATE:
            step = min(code - FIRST_STEP, len(decision['steps']) - 1)
            name = decision['steps'][step]['name']
        elif before and before.get(host, NOT_A_CANDIDATE) != NOT_A_CANDIDATE:
            name = EARLIER_SERVERS
        found[host] = name
    return found


def _codes(
    record: DecisionRecord, decision: Mapping[str, Any] | None
) -> dict[str, int] | None:
    if decision is None:
        return None
    names = record.host_lists.get(decision['host_list'])
    return (
        None if names is None else dict(zip(names, decision['outcomes'], strict=True))
    )


def is_whole(decision: Mapping[str, Any]) -> bool:
    """Return whether a decision is kept with its steps, and not just its host."""
    return 'steps' in decision


def _first(
    record: DecisionRecord, decision: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the decision for the first server, if ``decision`` is for a later one."""
    return next(
        (
            each
            for each in record.body.get('decisions', ())
            if is_whole(each) and each['index'] == 0 < decision['index']
        ),
        None,
    )


def _before_earlier(record: DecisionRecord, decision: Mapping[str, Any]) -> int:
    """Return how many hosts there were for the first server of the request."""
    first = _first(record, decision)
    hosts = int(decision['candidates'])
    return max(hosts, first['candidates']) if first else hosts


def _offered(record: DecisionRecord) -> int:
    """Return how many hosts placement offered, known or not."""
    if record.head.blocker != Blocker.UNKNOWN_HOSTS:
        return record.head.candidates
    return int(record.body['asked'][-1]['candidates'])


def _placement(known: int, offered: int, diagnosis: Mapping[str, Any] | None) -> Stage:
    """Return the stage of placement, with what the diagnosis says of it.

    Hosts that only placement knows count as hosts.
    """
    reasons = [_of_diagnosis(each) for each in (diagnosis or {}).get('reasons', ())]
    judged = sum(each['count'] for each in reasons)
    text = 'placement gives no reasons'
    if diagnosis:
        text = 'offered when placement was read for the diagnosis'
    rest = _lost(Code.NOT_ASKED, text)
    return _stage(PLACEMENT, max(known, offered + judged), offered, rest, reasons)


def _of_diagnosis(reason: Mapping[str, Any]) -> dict[str, Any]:
    said = []
    wanted, largest = reason.get('wanted'), reason.get('largest')
    if wanted is not None and largest is not None:
        what = 'free' if reason['code'] == Code.EXHAUSTED else 'in one piece'
        most = f'at most {largest} {what}' if wanted > largest else 'not in these steps'
        said.append(f'{wanted} wanted, {most}')
    elif largest is not None:
        said.append(f'at most {largest} free')
    if 0 < reason.get('only', 0) < reason['hosts']:
        said.append(f'the only obstacle for {reason["only"]}')
    return {
        'code': reason['code'],
        'what': name_of(reason),
        'text': ', '.join(said),
        'count': reason['hosts'],
        'example': reason['example'],
    }


def name_of(reason: Mapping[str, Any]) -> str:
    """Return the class, trait or aggregates of a reason of a diagnosis, by name."""
    return str(reason.get('named') or reason['what'])


def _step(step: Mapping[str, Any]) -> Stage:
    reasons = [
        {'code': code, 'what': '', 'text': text, 'count': count, 'example': example}
        for code, text, count, example in step['reasons']
    ]
    rest = _lost(Code.NOT_ASKED, '')
    return _stage(step['name'], step['in'], step['out'], rest, reasons)


def _lost(code: Code, text: str) -> dict[str, Any]:
    return {'code': str(code), 'what': '', 'text': text, 'count': 0, 'example': ''}


def _stage(
    name: str,
    start: int,
    end: int,
    rest: dict[str, Any],
    reasons: Sequence[dict[str, Any]] = (),
) -> Stage:
    """Return a stage; hosts without a reason get the reason ``rest``."""
    missing = start - end - sum(each['count'] for each in reasons)
    every = [*reasons, {**rest, 'count': missing}] if missing > 0 else reasons
    return {'name': name, 'in': start, 'out': end, 'reasons': most_first(every)}


def reasons_of(
    made: Iterable[Mapping[str, Any]], outcome: str | None, host: str
) -> tuple[Reasons, bool]:
    """Return the reasons of the stage that took a host, and whether they are its own.

    If there are several, only examples have one of their own. A reason of one host
    alone belongs to its example, and to no other host.
    """
    reasons = [
        r for stage in made if stage['name'] == outcome for r in stage['reasons']
    ]
    own = [each for each in reasons if each['example'] == host]
    others = [each for each in reasons if each['count'] > 1 or not each['example']]
    found = own or others or reasons
    return found, bool(own) or len(found) == 1


def most_first(reasons: Iterable[dict[str, Any]]) -> Reasons:
    """Return reasons, the most frequent first."""
    return sorted(reasons, key=lambda each: (-each['count'], each['code']))
