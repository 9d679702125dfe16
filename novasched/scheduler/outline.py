# SPDX-License-Identifier: Apache-2.0
"""Outline of a decision: what is kept of it when its tables are gone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Floats, Objects, Rows
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.outline_parts import (
    ReasonCount,
    StepOutline,
    WeigherOutline,
)
from novasched.scheduler.reasons import (
    FIRST_STEP,
    LAST_STEP,
    NOT_A_CANDIDATE,
    NOT_NAMED,
    PASSED,
    Code,
    Reason,
)
from novasched.scheduler.trace import Decision, Step, Weighing

BEST = 10
"""Hosts whose weights are kept."""
MOST_REASONS = 8
"""Reasons of one filter that are kept; the others are kept as one sum."""
ASKED_OF_FAILURE = 1000
ASKED_OF_SUCCESS = 8
"""Hosts for which a filter is asked why, where each could have another reason."""

Ask = Callable[[BaseHostFilter, HostState, RequestSpec], Reason]
Outcomes = NDArray[np.uint8]


def why(filter_: BaseHostFilter, host: HostState, request: RequestSpec) -> Reason:
    """Ask a filter why it rejected a host; a plugin may answer or raise anything."""
    try:
        reason = filter_.why(host, request)
        code, text = getattr(reason, 'code', None), str(reason)
    except Exception as problem:  # noqa: BLE001 a plugin may raise anything
        return Reason(Code.REJECTED, f'fails to say why: {type(problem).__name__}')
    return Reason(code if isinstance(code, Code) else Code.REJECTED, text)


@dataclass(frozen=True)
class Outline:
    """A decision without its tables.

    ``outcomes`` has one byte for each known host, in the order of the snapshot.
    ``top`` are names, the best first, with their ``totals``; ``weighers`` are those
    whose weights differ, ``no_effect`` the others. ``decisive`` are the weighers
    without which another host, named, would have the highest total.
    """

    hosts: int
    candidates: int
    left: int
    steps: Sequence[StepOutline]
    outcomes: bytes
    top: list[str]
    totals: list[float]
    weighers: Sequence[WeigherOutline]
    no_effect: list[str]
    decisive: Mapping[str, str]

    @property
    def blocking(self) -> StepOutline | None:
        """The filter that took the last host; None if hosts were left, or none came."""
        last = self.steps[-1] if self.steps and not self.left else None
        return last if last is not None and last.before else None


def summarize(decision: Decision, ask: Ask = why) -> Outline:
    """Make the record of a decision; filters are asked for their reasons now."""
    outcomes = _outcomes(decision)
    most = ASKED_OF_SUCCESS if len(decision.ranked) else ASKED_OF_FAILURE
    scores = _Scores(decision)
    return Outline(
        hosts=len(outcomes),
        candidates=len(decision.hosts),
        left=len(decision.ranked),
        steps=tuple(
            StepOutline(
                step.name,
                len(step.before),
                len(step.after),
                tuple(_reasons(step, outcomes, number, decision.request, most, ask)),
            )
            for number, step in enumerate(decision.steps)
        ),
        outcomes=outcomes.tobytes(),
        top=scores.names,
        totals=decision.totals[:BEST].tolist(),
        weighers=scores.of_weighers(),
        no_effect=scores.no_effect,
        decisive=scores.decisive(),
    )


def _outcomes(decision: Decision) -> Outcomes:
    """Return the outcome of each host; a step overwrites the one before it."""
    outcomes = np.full(len(decision.hosts.snapshot), NOT_A_CANDIDATE, np.uint8)
    outcomes[decision.hosts.rows] = NOT_NAMED
    for number, step in enumerate(decision.steps):
        if not step.passed_all:
            outcomes[step.before.rows] = min(FIRST_STEP + number, LAST_STEP)
    outcomes[decision.ranked.rows] = PASSED
    return outcomes


def _reasons(
    step: Step,
    outcomes: Outcomes,
    number: int,
    request: RequestSpec,
    most: int,
    ask: Ask,
) -> list[ReasonCount]:
    """Return the reasons of a filter, the most frequent first.

    A filter with a single code is asked once. If columns decide the reason, it is asked
    once for each combination of them. Otherwise it is asked about ``most`` hosts. The
    counts add up to the rejected hosts; plugins may have given a host twice.
    """
    if step.passed_all:
        return []
    before = step.before.rows
    if number < LAST_STEP - FIRST_STEP:
        rows = before[outcomes[before] == FIRST_STEP + number]
    else:
        rows = step.rejected.rows
    if not len(rows):
        return []
    hosts, counts = _to_ask(step, rows, request, most)
    numbers: Counter[Code] = Counter()
    nearest: dict[Code, tuple[float, str, str]] = {}
    for state, number_of in zip(hosts.states(), counts, strict=True):
        reason = ask(step.filter, state, request)
        numbers[reason.code] += number_of
        share = reason.share
        if reason.code not in nearest or share > nearest[reason.code][0]:
            nearest[reason.code] = share, reason.text, state.host
    found = [
        ReasonCount(str(code), text, numbers[code], host)
        for code, (_, text, host) in nearest.items()
        if code != Code.NOT_ASKED
    ]
    kept = sorted(found, key=lambda each: (-each.hosts, each.code))[:MOST_REASONS]
    if rest := len(rows) - sum(each.hosts for each in kept):
        kept.append(ReasonCount(str(Code.NOT_ASKED), '', rest, ''))
    return kept


def _to_ask(
    step: Step, rows: Rows, request: RequestSpec, most: int
) -> tuple[HostTable, list[int]]:
    """Return hosts to ask a filter about, and for how many each of them stands."""
    hosts = HostTable(step.before.snapshot, rows)
    if len(step.filter.codes) == 1:
        return hosts[np.zeros(1, np.intp)], [len(rows)]
    groups = step.filter.reason_groups(hosts, request)
    if groups is not None:
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        return hosts[first[:ASKED_OF_FAILURE]], counts[:ASKED_OF_FAILURE].tolist()
    return hosts[np.arange(min(most, len(rows)))], [1] * min(most, len(rows))


class _Scores:
    """The scores of the best hosts of a decision.

    Weighers score in an order of their own, where ``_places`` are the ranked hosts.
    """

    def __init__(self, decision: Decision) -> None:
        self._weighed = decision.weighed
        self._ranked = decision.ranked
        order = (
            np.arange(len(self._ranked)) if decision.order is None else decision.order
        )
        places = self._weighed.places
        self._places: Rows = order if places is None else places[order]
        self._first = int(self._places[0]) if len(self._places) else 0
        best = np.arange(min(BEST, len(decision.ranked)))
        self.names: list[str] = decision.ranked[best].host.tolist()
        self._effective = [
            each for each in self._weighed.scored if each.bounds[0] != each.bounds[1]
        ]
        self.no_effect = [
            each.name
            for each in self._weighed.scored
            if each.bounds[0] == each.bounds[1]
        ]

    def of_weighers(self) -> list[WeigherOutline]:
        """Return the weights of the best hosts by each weigher with an effect."""
        best = self._places[:BEST]
        return [
            WeigherOutline(
                each.name,
                each.raw[best].tolist(),
                each.normalized[best].tolist(),
                each.multipliers[best].tolist(),
            )
            for each in self._effective
        ]

    def decisive(self) -> dict[str, str]:
        """Return the weighers without which another host would have won, and it.

        There are none where the first host is not the best: chance has picked it.
        """
        sums = self._weighed.sums
        if len(sums) < 2 or np.isnan(sums).any() or sums[self._first] < sums.max():
            return {}
        found = {}
        with np.errstate(over='ignore', invalid='ignore'):
            for each in self._effective:
                best = self._best(sums - each.scores)
                if best != self._first and self._ahead(best, each) > 0:
                    (rank,) = np.flatnonzero(self._places == best)
                    found[each.name] = self._ranked.state(int(rank)).host
        return found

    def _best(self, totals: Floats) -> int:
        """Return the place of the highest total; of equal ones, the first in the order
        of the hosts, as decide() does."""
        best, places = int(totals.argmax()), self._weighed.places
        if places is None or np.count_nonzero(totals == totals[best]) == 1:
            return best
        return int(places[totals[places].argmax()])

    def _ahead(self, place: int, without: Weighing) -> float:
        """Return by how much a host is ahead of the first one without a weigher.

        Summed up as totals are: what is left after a subtraction is not exact.
        """
        total = total_of_first = 0.0
        for each in self._effective:
            if each is not without:
                total += each.scores.item(place)
                total_of_first += each.scores.item(self._first)
        return total - total_of_first


def host_names(hosts: Objects, nodes: Objects) -> list[str]:
    """Return a name for each host; nodes that share a host get their own name, too."""
    names: list[str] = hosts.tolist()
    times = Counter(names)
    if len(times) == len(names):
        return names
    return [
        name if times[name] == 1 else f'{name}/{node}'
        for name, node in zip(names, nodes.tolist(), strict=True)
    ]
