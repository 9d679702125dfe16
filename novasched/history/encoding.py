# SPDX-License-Identifier: Apache-2.0
"""Requests and states as lines of a history. docs/reference/history.md has the form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from novasched.decisions import history
from novasched.decisions.recording import RequestRecorder
from novasched.history.orders import HostOrder, Line, packed, packed_places
from novasched.ports import Candidate, Candidates
from novasched.providers.by_root import CandidatesByRoot
from novasched.runtime.times import TIME, time_of
from novasched.runtime.typed_json import to_json
from novasched.scheduler.columns import (
    ByRow,
    Categories,
    Lazy,
    PerHost,
    column_identity,
)
from novasched.scheduler.hosts import HostTable, Mask, Rows
from novasched.scheduler.snapshot import INCOMPARABLE
from novasched.scheduler.trace import Decision

FORM = 2
"""Version of the lines. A field that is added needs no new one."""
IDENTITIES = ('host', 'nodename', 'uuid', 'cell_uuid')
"""Where one of these columns changes, hosts have come or gone."""
_JSON = json.JSONEncoder(default=history.plain, separators=(',', ':'))


def text_of(lines: Sequence[Line]) -> bytes:
    """Return lines as they are written."""
    return ''.join(f'{_JSON.encode(line)}\n' for line in lines).encode()


# -- requests


def request_line(
    recorder: RequestRecorder, seq: int, profile: str, state: StateEncoder
) -> Line:
    """Return the line of a request that has ended, in a state."""
    uuids, answer = recorder.instance_uuids, recorder.answer or ()
    first = history.first_decision(recorder)
    line = {
        'request': seq,
        'view': state.view,
        'at': round(recorder.at, 6),
        'took': round(recorder.took_s, 6),
        'id': recorder.id,
        'time': time_of(int(recorder.at * 1e6), TIME),
        'request_id': recorder.context.request_id,
        'profile': profile,
        'instance_uuids': None if uuids is None else list(uuids),
        'answer': [
            [[each.service_host, each.nodename] for each in of] for of in answer
        ],
        'rounds': {str(why): times for why, times in recorder.rounds.items() if times},
        'decisions': [],
    }
    if recorder.blocker is not None:
        line['blocker'] = str(recorder.blocker)
    if recorder.error is not None:
        line['error'] = type(recorder.error).__name__
    request = recorder.request if first is None else first.request
    line['spec'] = history.primitive_of(request)
    if first is not None:
        line |= {
            'seed': first.seed,
            'places': state.places,
            'candidates': _candidates(recorder, first),
            'capacity': history.capacity(recorder, first.hosts),
            'decisions': list(_decisions(recorder, first, state.ranked)),
        }
    if recorder.compared:
        line['nova'] = to_json(list(recorder.compared))
    return line


def _decisions(
    recorder: RequestRecorder, first: Decision, order: HostOrder
) -> Iterator[Line]:
    for turn, node in history.last_turns(recorder):
        found, decision = None, turn.decision
        if decision is not None:
            found = _trace(decision, first.hosts.rows, len(order.rows))
            if decision is not first:
                ranked = decision.ranked.rows, decision.totals
                found['changes'] = order.changes(*ranked)
        yield {'index': turn.index, 'host': turn.host, 'node': node, 'trace': found}


def _trace(decision: Decision, offered: Rows, hosts: int) -> Line:
    """Return the hosts that filters rejected, and those that the request excluded, by
    their place among those offered."""
    none, ranked = offered[:0], decision.ranked.rows
    rejected = [
        none if step.passed_all else step.rejected.rows for step in decision.steps
    ]
    excluded = none
    if len(ranked) < len(offered):
        places = np.empty(hosts, np.intp)
        places[offered] = np.arange(len(offered))
        rejected = [places[rows] for rows in rejected]
        is_excluded = np.ones(len(offered), bool)
        is_excluded[np.concatenate([places[ranked], *rejected])] = False
        excluded = np.flatnonzero(is_excluded)
    names = [step.name for step in decision.steps]
    return {
        'rejected': [
            [name, packed_places(of, len(offered))]
            for name, of in zip(names, rejected, strict=True)
        ],
        'excluded': packed_places(excluded, len(offered)),
    }


def _candidates(recorder: RequestRecorder, first: Decision) -> Line:
    """Return the candidates of the hosts: the amounts that most hosts give by
    themselves, and the candidates of all others by row."""
    hosts = first.hosts
    column = hosts.snapshot.column('allocation_candidates')
    answer = recorder.queries[-1].answer if recorder.queries else None
    requests = answer.requests if isinstance(answer, Candidates) else ()
    amounts = None
    if isinstance(requests, CandidatesByRoot) and isinstance(column, PerHost):
        amounts = requests.amounts_of_root
    if amounts is None:
        rows = hosts.rows.tolist()
        amounts = _amounts(column.item(rows[0])) if rows else {}
    else:
        rows = [*column.made]  # a filter may have changed these
    uuids, others = hosts.snapshot.column('uuid'), {}
    for row in rows:
        found = list(column.item(row) or ())
        if found != [own_candidate(uuids.item(row), amounts)]:
            others[row] = found
    return {'amounts': amounts, 'others': others}


def _amounts(found: Sequence[Candidate] | None) -> Mapping[str, int]:
    """Return the amounts that the first of some candidates takes of its provider."""
    allocations = found[0]['allocations'] if found else {}
    return next((each['resources'] for each in allocations.values()), {})


def own_candidate(uuid: str, amounts: Mapping[str, int]) -> Candidate:
    """Return the candidate that takes all from one provider."""
    allocations = {uuid: {'resources': dict(amounts)}}
    return {'allocations': allocations, 'mappings': {'': [uuid]}}


# -- state


class StateEncoder:
    """Encodes what has changed of the hosts since the last request."""

    def __init__(self) -> None:
        self.view = 0
        """Number of the state."""
        self.offered = self.ranked = HostOrder(0)
        """The orders of the candidates and of the ranks."""
        self.places: Any = []
        """The places of the hosts that were offered last."""
        self._decided: tuple[bytes, ...] = ()  # what the orders were made of
        # as they were encoded last
        self._columns: dict[str, Any] = {}
        self._read: dict[str, dict[int, Any]] = {}  # columns of objects, by row

    def lines(self, hosts: HostTable) -> list[Line]:
        """Return the lines that make the state what a request saw."""
        snapshot, lines = hosts.snapshot, []
        columns, objects = {}, {}
        for name in snapshot.names - history.PER_REQUEST:
            column = snapshot.raw(name)
            if column is self._columns.get(name):
                continue
            if not isinstance(column, Lazy | ByRow):
                columns[name] = column
            elif not isinstance(column, Lazy):
                objects[name] = column
            elif column.is_made:
                objects[name] = column.column()
        changed = self._changed(columns)
        self._columns |= columns
        if changed is None:
            self.view += 1
            self._read, changed = {}, {}
            self.offered = self.ranked = HostOrder(len(snapshot))
            self._decided = ()
            lines.append(self._whole())
        for name, column in objects.items():
            self._compare_read(name, column, hosts.rows.tolist(), changed)
        if changed:
            self.view += 1
            lines.append({'rows': self.view, 'changed': changed})
        return lines

    def order_lines(self, decision: Decision) -> list[Line]:
        """Return the line that makes the orders what a decision had."""
        rows, ranks = decision.hosts.rows, decision.ranked.rows
        decided = rows.tobytes(), ranks.tobytes(), decision.totals.tobytes()
        if decided == self._decided:
            return []
        offered = self.offered.changes(rows)
        ranked = self.ranked.changes(ranks, decision.totals)
        self._decided = decided
        self.offered = self.offered.changed(offered)
        self.ranked = self.ranked.changed(ranked)
        self.places = packed_places(self.offered.places(rows), len(self.offered.rows))
        if not offered and not ranked:
            return []
        return [{'order': self.view, 'offered': offered, 'ranked': ranked}]

    def _changed(self, columns: Mapping[str, Any]) -> dict[int, Line] | None:
        """Return the new values by row and column; None if all is to be encoded."""
        found: dict[int, Line] = {}
        for name, column in columns.items():
            before = self._columns.get(name)
            if column_identity(column) is column_identity(before):
                continue
            write = history.WRITERS.get(name, history.unless_nan)
            differs = _differing(before, column, write)
            places = [] if differs is None else np.flatnonzero(differs).tolist()
            if differs is None or (places and name in IDENTITIES):
                return None
            if name == 'aggregates' and len(places) > 1 + len(differs) // 4:
                return None  # each row would name all members
            for place in places:
                value = _value(name, column.item(place))
                found.setdefault(place, {})[name] = value
        return found

    def _compare_read(
        self, name: str, column: Any, rows: Sequence[int], changed: dict[int, Line]
    ) -> None:
        """Note the rows of a column of objects that were read, and are others now."""
        known = self._read.setdefault(name, {})
        for row in rows:
            value = column.item(row)
            if row not in known or not _is_same(known[row], value):
                known[row] = value
                changed.setdefault(row, {})[name] = _value(name, value)

    def _whole(self) -> Line:
        numbers: dict[int, int] = {}
        aggregates: list[Any] = []
        encoded: Line = {}
        for name, column in sorted(self._columns.items()):
            if not isinstance(column, Categories):
                values, write = column.tolist(), history.WRITERS.get(name)
                is_nan = column.dtype.kind == 'f' and np.isnan(column).any()
                if write or is_nan or column.dtype.kind == 'O':
                    values = [*map(write or history.unless_nan, values)]
                encoded[name] = values
                continue
            used, codes = np.unique(column.codes, return_inverse=True)
            values = [column.values[code] for code in used.tolist()]
            if name == 'aggregates':
                for each in (one for group in values for one in group):
                    if id(each) not in numbers:
                        numbers[id(each)] = len(aggregates)
                        aggregates.append(asdict(each))
                values = [[numbers[id(each)] for each in group] for group in values]
            else:
                values = [_value(name, value) for value in values]
            encoded[name] = {'values': values, 'codes': packed(codes)}
        return {'state': self.view, 'aggregates': aggregates, 'columns': encoded}


def _value(name: str, value: Any) -> Any:
    """Return a value of a column as it is written."""
    if name == 'aggregates':
        return [asdict(each) for each in value]
    return history.WRITERS.get(name, history.unless_nan)(value)


def _is_same(before: Any, now: Any) -> bool:
    try:
        return before is now or bool(before == now)
    except INCOMPARABLE:
        return False


def _differing(before: Any, now: Any, write: Callable[[Any], Any]) -> Mask | None:
    """Return the mask of the rows whose value is written otherwise; None if the columns
    cannot be compared."""
    before, now = _array(before), _array(now)
    if before is None or before.dtype != now.dtype or len(before) != len(now):
        return None
    differs: Mask
    if now.dtype.kind != 'O':
        differs = np.not_equal(before, now)
        if now.dtype.kind == 'f':
            differs &= ~(np.isnan(before) & np.isnan(now))
        return differs
    # Pointers tell at once which objects are the same.
    pointers = [np.frombuffer(each.tobytes(), np.intp) for each in (before, now)]
    differs, known = np.not_equal(*pointers), dict[tuple[int, int], bool]()
    for place in np.flatnonzero(differs).tolist():
        old, new = before[place], now[place]
        pair = id(old), id(new)
        if pair not in known:
            same = _is_same(old, new) or _is_same(write(old), write(new))
            known[pair] = not same
        differs[place] = known[pair]
    return differs


def _array(column: Any) -> Any:
    """Return a column of few values as one of objects, any other as it is."""
    if isinstance(column, Categories):
        return column.map(lambda value: value, object)
    return column
