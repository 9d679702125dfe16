# SPDX-License-Identifier: Apache-2.0
"""What we decided beside what nova chose, and why they differ. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from novasched.decisions.comparison import Cause, NovaChoice, ServerComparison, Verdict
from novasched.decisions.recording import InstanceDecision, RequestRecorder
from novasched.scheduler.columns import Floats
from novasched.scheduler.hosts import Rows
from novasched.scheduler.trace import Decision, Weighed
from novasched.shadow.choices import UNKNOWN

UNCERTAIN = (Cause.UNKNOWN, Cause.NOVA_FILTERS)
"""Causes that what came between two decisions may explain."""
NO_VALID_HOST = 'No valid host was found.'
"""What faults begin with; nova says more where its filters have rejected hosts."""
NEAR = 1e-9
"""Weights weigh alike if they differ by less than this share of all multipliers."""


@dataclass(frozen=True)
class Taken:
    """A host that nova took for a server of another request, and when, in seconds."""

    host: str
    at_s: float
    request_id: str


def compare(
    recorder: RequestRecorder,
    choices: Mapping[str, NovaChoice],
    others: Iterable[Taken] = (),
    is_late: bool = False,
    most_candidates: int | None = None,
) -> list[ServerComparison]:
    """Compare each server of a request.

    ``others`` are choices for other requests that were made about the same time.
    ``is_late``: nova's claims were seen before we decided. ``most_candidates`` is how
    many placement gives nova.
    """
    taken = {each.host: each.request_id for each in others}
    turns = {turn.index: turn for turn in recorder.turns}
    first = next((t for t in recorder.turns if t.decision is not None), None)
    found: list[ServerComparison] = []
    for index, uuid in enumerate(recorder.instance_uuids or ()):
        nova = choices.get(uuid, UNKNOWN)
        turn = turns.get(index)
        ours = None if recorder.error or turn is None else turn.host
        whole = turn if turn is not None and turn.decision is not None else first
        made = _compared(uuid, ours, nova, whole)
        if made.cause in UNCERTAIN:
            offered = 0 if whole is None else len(whole.offered)
            is_cut = most_candidates is not None and offered > most_candidates
            made = _caused(made, found, taken, is_late, is_cut)
        found.append(made)
    if Counter(c.ours for c in found) == Counter(c.nova.host for c in found):
        found = [_exchanged(each) for each in found]
    return found


def _exchanged(made: ServerComparison) -> ServerComparison:
    """Servers of one request are alike: it does not matter which got which host."""
    if made.verdict in (Verdict.EQUAL, Verdict.UNKNOWN):
        return made
    return replace(made, verdict=Verdict.ALIKE, cause=Cause.CHANCE, detail='')


def _compared(
    uuid: str, ours: str | None, nova: NovaChoice, turn: InstanceDecision | None
) -> ServerComparison:
    def made(verdict: Verdict, cause: str = '', detail: str = '') -> ServerComparison:
        return ServerComparison(uuid, ours, nova, verdict, cause, detail)

    if not nova.is_known:
        return made(Verdict.UNKNOWN)
    if ours == nova.host:
        is_one = turn is None or ours is None or _is_one_node(turn, ours)
        return made(Verdict.EQUAL if is_one else Verdict.UNKNOWN)
    if nova.host is None:
        return made(Verdict.OURS_ONLY, *_failure(nova.fault))
    decision = None if turn is None else turn.decision
    if decision is None:
        return made(Verdict.NOVA_ONLY, Cause.NOT_OFFERED)
    place = _best_place(decision.weighed, nova.host)
    if place is None:
        verdict = Verdict.NOVA_ONLY if ours is None else Verdict.REJECTED
        return made(verdict, *_rejection(decision, nova.host))
    mine = None if ours is None else _best_place(decision.weighed, ours)
    if mine is None:  # our claim or a look after the decision dropped it
        return made(Verdict.NOVA_ONLY, Cause.UNKNOWN)
    return _weighed(made(Verdict.ALIKE, Cause.CHANCE), decision, mine, place)


def _weighed(
    alike: ServerComparison, decision: Decision, ours: int, novas: int
) -> ServerComparison:
    """Compare two survivors, by their places among the hosts that were weighed."""
    weighed = decision.weighed
    our, other = weighed.totals.item(ours), weighed.totals.item(novas)
    if math.isnan(our) or math.isnan(other):
        return replace(alike, verdict=Verdict.UNKNOWN, cause='')
    alike = replace(alike, our_weight=our, nova_weight=other)
    scale = max(1.0, sum(_scale(each.multipliers) for each in weighed.scored))
    if our == other or abs(our - other) <= NEAR * scale:
        return alike
    return replace(
        alike,
        verdict=Verdict.BETTER if our > other else Verdict.WORSE,
        cause=Cause.UNKNOWN,
        weighers=[
            each.name
            for each in weighed.weighings
            if any(
                _is_best(_without(weighed.totals, times * each.scores), novas, scale)
                for times in (1, 2)
            )
        ],
    )


def _scale(multipliers: Floats) -> float:
    """Return the largest multiplier that is finite, without its sign."""
    finite = multipliers[np.isfinite(multipliers)]
    return float(abs(finite).max(initial=0.0))


def _without(totals: Floats, scores: Floats) -> Floats:
    with np.errstate(invalid='ignore'):  # infinite ones leave no number
        return totals - scores


def _is_best(totals: Floats, place: int, scale: float) -> bool:
    return bool(totals.item(place) >= totals.max() - NEAR * scale)


def _failure(fault: str) -> tuple[Cause, str]:
    """Say by its fault why nova found no host for a server."""
    if not fault:
        return Cause.UNKNOWN, ''
    if not fault.startswith(NO_VALID_HOST):
        return Cause.NOVA_ERROR, fault
    rest = fault.removeprefix(NO_VALID_HOST).strip()
    return (Cause.NOVA_FILTERS if rest else Cause.NO_CANDIDATES), ''


def _rejection(decision: Decision, host: str) -> tuple[Cause, str]:
    """Say what kept a host of nova's from our survivors."""
    for step in reversed(decision.steps):  # of several nodes, what came farthest
        if len(_places(step.rejected.host, host)):
            return Cause.FILTER, step.name
    return Cause.NOT_OFFERED, ''


def _caused(
    made: ServerComparison,
    earlier: Iterable[ServerComparison],
    taken: Mapping[str, str],
    is_late: bool,
    is_cut: bool,
) -> ServerComparison:
    """Explain a difference by what came between the two decisions, if anything."""
    if any(each.ours != each.nova.host for each in earlier):
        return replace(made, cause=Cause.SAME_REQUEST)
    if is_cut and made.verdict in (Verdict.BETTER, Verdict.OURS_ONLY):
        return replace(made, cause=Cause.TRUNCATED)
    for host in (made.ours, made.nova.host):
        if host is not None and host in taken:
            return replace(made, cause=Cause.OTHER_REQUEST, detail=taken[host])
    return replace(made, cause=Cause.LATE) if is_late else made


def _is_one_node(turn: InstanceDecision, host: str) -> bool:
    """Return whether a host has one node among those that placement offered."""
    if turn.decision is None:
        return True
    hosts = turn.decision.hosts.snapshot.column('host')[turn.offered]
    return len(_places(hosts, host)) <= 1


def _best_place(weighed: Weighed, host: str) -> int | None:
    """Return the place of a host, by the heaviest of its nodes; None if it is not
    there."""
    places = _places(weighed.hosts.host, host)
    if not len(places):
        return None
    return int(places[weighed.totals[places].argmax()])


def _places(hosts: Any, name: str) -> Rows:
    return np.flatnonzero(hosts == name)
