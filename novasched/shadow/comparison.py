# SPDX-License-Identifier: Apache-2.0
"""What we decided beside what nova chose, and why they differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from novasched.decisions.comparison import Cause, Comparison, NovaChoice, Verdict
from novasched.decisions.recording import InstanceDecision, RequestRecorder
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.trace import Decision
from novasched.shadow.choices import UNKNOWN

NEAR = 1e-9
"""Weights that differ by less, of the sum of their multipliers, weigh alike."""


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
    late: bool = False,
) -> list[Comparison]:
    """Compare each server of a request. ``others`` are choices for other requests that
    were made about the same time; ``late``: nova's claims were seen before we decided.
    """
    taken = {each.host: each.request_id for each in others}
    turns = {turn.index: turn for turn in recorder.turns}
    first = next((t for t in recorder.turns if t.decision is not None), None)
    found = []
    for index, uuid in enumerate(recorder.instance_uuids or ()):
        nova = choices.get(uuid, UNKNOWN)
        turn = turns.get(index)
        ours = None if recorder.error or turn is None else turn.host
        whole = turn if turn is not None and turn.decision is not None else first
        made = _compared(uuid, ours, nova, whole)
        if made.cause == Cause.UNKNOWN:
            made = _by_time(made, taken, late)
        found.append(made)
    return found


def _compared(
    uuid: str, ours: str | None, nova: NovaChoice, turn: InstanceDecision | None
) -> Comparison:
    def made(
        verdict: Verdict, cause: str = '', detail: str = '', *weights: float
    ) -> Comparison:
        return Comparison(uuid, ours, nova, verdict, cause, detail, *weights)

    if not nova.is_known:
        return made(Verdict.UNKNOWN)
    if ours == nova.host:
        return made(Verdict.EQUAL)
    if nova.host is None:
        return made(Verdict.OURS_ONLY, Cause.UNKNOWN)
    decision = None if turn is None else turn.decision
    if decision is None:
        return made(Verdict.NOVA_ONLY, Cause.NOT_OFFERED)
    place = _place(decision.weighed.hosts, nova.host)
    if place is None:
        verdict = Verdict.NOVA_ONLY if ours is None else Verdict.REJECTED
        return made(verdict, *_rejection(decision, nova.host))
    mine = None if ours is None else _place(decision.weighed.hosts, ours)
    if mine is None:  # our claim or a look after the decision dropped it
        return made(Verdict.NOVA_ONLY, Cause.UNKNOWN)
    return made(*_weighed(decision, mine, place))


def _weighed(
    decision: Decision, ours: int, novas: int
) -> tuple[Verdict, Cause, str, float, float]:
    """Compare two survivors, by their places among the hosts that were weighed."""
    weighed = decision.weighed
    our, other = weighed.totals.item(ours), weighed.totals.item(novas)
    scale = sum(float(np.abs(each.multipliers).max()) for each in weighed.weighings)
    if abs(our - other) <= NEAR * max(scale, 1.0):
        return Verdict.ALIKE, Cause.CHANCE, '', our, other
    verdict = Verdict.BETTER if our > other else Verdict.WORSE
    names = [
        each.name
        for each in weighed.weighings
        if (each.score(ours) - each.score(novas)) * (our - other) > 0
    ]
    return verdict, Cause.UNKNOWN, ', '.join(names), our, other


def _rejection(decision: Decision, host: str) -> tuple[Cause, str]:
    """Say what kept a host of nova's from our survivors."""
    for step in decision.steps:
        if _place(step.rejected, host) is not None:
            return Cause.FILTER, step.name
    return Cause.NOT_OFFERED, ''


def _by_time(made: Comparison, taken: Mapping[str, str], late: bool) -> Comparison:
    """Explain a difference by what happened between the two decisions, if anything."""
    for host in (made.ours, made.nova.host):
        if host is not None and host in taken:
            return replace(made, cause=Cause.OTHER_REQUEST, detail=taken[host])
    return replace(made, cause=Cause.LATE) if late else made


def _place(hosts: HostTable, name: str) -> int | None:
    """Return the place of a host in a table; None if it is not there."""
    places = np.flatnonzero(hosts.host == name)
    return int(places[0]) if len(places) else None
