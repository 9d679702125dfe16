# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of the decision log."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable, Mapping

from novasched.decisions.record import (
    MADE,
    UNSCHEDULABLE,
    DecisionRecord,
)
from novasched.decisions.recording import RequestObserver, RequestRecorder
from novasched.observability import catalogue
from novasched.observability.catalogue import Metric, Recorder
from novasched.observability.health import PASS, WARN, Check, stamp
from novasched.scheduler.outcomes import LOST, Outcome
from novasched.scheduler.trace import Decision

MOST_WAIT_S = 30.0
"""Seconds that a request or a record waits before health warns."""


METRICS = {
    Outcome.ABORTED: catalogue.GROUP_YIELDS,
    Outcome.OVER_CAPACITY: catalogue.CAPACITY_YIELDS,
}
"""Metrics of claims that were undone, by their outcome."""


STAGES = {
    'prefilter': 'PreFilter',
    'query': 'Query',
    'filter': 'Filter',
    'score': 'Score',
    'claim': 'Claim',
    'undo': 'Undo',
}
"""Extension points of metrics, by the stage of a request. ``refresh`` has none: several
requests may wait for one refresh, which the cluster view measures."""
PLUGINS_EVERY = 10
"""One request, and one decision, in so many has its plugins measured: all would cost
too much."""


class DecisionMetrics(RequestObserver):
    """Counts what the decision log records, makes and writes.

    ``problem`` says why records cannot be written now. ``waits_s`` is the longest wait
    of a request for its record, ``unwritten_s`` of a record for its write. ``size`` is
    how many bytes the store has. ``history_problem`` says why the history cannot be
    written.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.problem: Callable[[], object | None] = lambda: None
        self.waits_s: Callable[[], float] = lambda: 0.0
        self.unwritten_s: Callable[[], float] = lambda: 0.0
        self.size: Callable[[], int] = lambda: 0
        self.history_problem: Callable[[], object | None] = lambda: None
        self._lost = Counter[str]()
        self._lost_at: dict[str, int] = {}
        self._requests = itertools.count()
        self._decisions = itertools.count()

    def staged(
        self, recorder: RequestRecorder, stage: str, since_s: float, took_s: float
    ) -> None:
        self._stage(stage, took_s)

    def _stage(self, stage: str, took_s: float) -> None:
        if point := STAGES.get(stage):
            self._recorder.observe(catalogue.STAGE_SECONDS, took_s, point)

    def prefiltered(self, took_s: Mapping[str, float]) -> None:
        if next(self._requests) % PLUGINS_EVERY == 0:
            for name, seconds in took_s.items():
                self._plugin(name, seconds, 'PreFilter')

    def decided(
        self,
        recorder: RequestRecorder,
        decision: Decision,
        stages_s: Mapping[str, float],
    ) -> None:
        if stages_s:
            self._recorder.observe(catalogue.ALGORITHM_SECONDS, sum(stages_s.values()))
            for stage in ('filter', 'score'):
                self._stage(stage, stages_s.get(stage, 0.0))
        if next(self._decisions) % PLUGINS_EVERY == 0:
            scored = {weighing.name for weighing in decision.weighed.scored}
            for name, took_s in decision.took_s.items():
                self._plugin(name, took_s, 'Score' if name in scored else 'Filter')
        if not len(decision.ranked):
            took = [step.name for step in decision.steps if len(step.before)]
            last = took[-1] if took else 'none'
            self._recorder.count(catalogue.UNSCHEDULABLE, last)

    def _plugin(self, name: str, took_s: float, point: str) -> None:
        self._recorder.observe(catalogue.PLUGIN_SECONDS, took_s, name, point)

    def recorded(
        self, recorder: RequestRecorder, record: DecisionRecord, took_s: float
    ) -> None:
        head, count = record.head, self._recorder.count
        self._recorder.observe(catalogue.DECISION_RECORD_SECONDS, took_s)
        if head.result == UNSCHEDULABLE:
            labels = head.blocker, head.plugin, head.code
            count(catalogue.UNSCHEDULABLE_REQUESTS, *labels)
        lost = Counter(claim.outcome for claim in record.body.claims)
        for outcome in LOST:
            if lost[outcome]:
                self._lost[outcome] += lost[outcome]
                self._lost_at[outcome] = at_s = head.at // 1_000_000
                self._recorder.set(catalogue.CLAIM_LOST_TIME, at_s, outcome)
        for outcome, metric in METRICS.items():
            if lost[outcome]:
                count(metric, by=lost[outcome])
        for compared in record.body.shadow or ():
            count(catalogue.COMPARED, compared.verdict)
            if compared.cause:
                count(catalogue.DIFFERENCES, compared.cause)
        for reason, times in recorder.rounds.items():
            count(catalogue.DECIDED_AGAIN, reason, by=times)
        if head.diagnosis == MADE:
            count(catalogue.DIAGNOSES, 'made')
        outlines = recorder.outlines.values()
        for step in itertools.chain.from_iterable(each.steps for each in outlines):
            for found in step.reasons:
                count(catalogue.HOSTS_REJECTED, step.name, found.code, by=found.hosts)

    def counter(self, metric: Metric) -> Callable[[str, int], None]:
        """Return the function that adds a number to a metric, by its label."""
        return lambda label, number: self._recorder.count(metric, label, by=number)

    def check_history(self, time: str) -> dict[str, Check]:
        """Warn if the history cannot be written."""
        if (problem := self.history_problem()) is None:
            return {}
        return {'history': Check(WARN, time, f'it cannot be written: {problem}')}

    def check(self, time: str) -> Check:
        """Judge the store; without it requests are served as before."""
        problem = self.problem()
        waits_s, unwritten_s = self.waits_s(), self.unwritten_s()
        if problem is None and unwritten_s > MOST_WAIT_S:
            problem = f'none was written for {unwritten_s:.0f} s; the disk may stall'
        if problem is None and waits_s > MOST_WAIT_S:
            problem = f'none was made for {waits_s:.0f} s; a plugin may hang'
        if problem is None:
            return Check(PASS, time)
        return Check(WARN, time, f'records of decisions wait: {problem}')

    def check_conflicts(self, time: str) -> dict[str, Check]:
        """Say how many claims were lost to other requests, and since when none was."""
        said = [
            f'{count} {outcome}, last at {_time(self._lost_at[outcome])}'
            for outcome, count in sorted(self._lost.items())
        ]
        return {'conflicts': Check(PASS, time, '; '.join(said))} if said else {}

    def measure(self) -> None:
        """Set the gauges of the present state."""
        self._recorder.set(catalogue.DECISION_STORE_BYTES, self.size())


def _time(at_s: int) -> str:
    return stamp(
        datetime.datetime.fromtimestamp(at_s, datetime.UTC).replace(tzinfo=None)
    )
