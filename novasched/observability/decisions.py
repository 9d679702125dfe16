# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of the decision log."""

from __future__ import annotations

from collections.abc import Callable

from novasched.decision_log.record import DecisionRecord
from novasched.observability import catalogue
from novasched.observability.catalogue import Recorder
from novasched.observability.health import PASS, WARN, Check


class DecisionMetrics:
    """Counts what the decision log makes and writes. Satisfies
    decision_log.log.RecordObserver.

    ``problem`` says why records cannot be written now, ``size`` how many bytes the
    store has.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.problem: Callable[[], object | None] = lambda: None
        self.size: Callable[[], int] = lambda: 0

    def recorded(self, record: DecisionRecord, took_s: float) -> None:
        head, count = record.head, self._recorder.count
        self._recorder.observe(catalogue.DECISION_RECORD_SECONDS, took_s)
        if head.result == 'unschedulable':
            labels = head.blocker, head.plugin, head.code
            count(catalogue.UNSCHEDULABLE_REQUESTS, *labels)
        if head.diagnosis and head.diagnosis != 'waiting':
            self.diagnosed('made' if head.diagnosis == 'made' else 'none', 1)
        for decision in record.body.get('decisions', ()):
            for step in decision.get('steps', ()):
                for code, _, hosts, _ in step['reasons']:
                    count(catalogue.HOSTS_REJECTED, step['name'], code, by=hosts)

    def diagnosed(self, result: str, records: int) -> None:
        """So many records got a diagnosis, or will have none."""
        self._recorder.count(catalogue.DIAGNOSES, result, by=records)

    def stored(self, outcome: str, records: int) -> None:
        """So many records were written, reduced or lost."""
        self._recorder.count(catalogue.DECISION_RECORDS, outcome, by=records)

    def check(self, time: str) -> Check:
        """Judge the store; without it requests are served as before."""
        problem = self.problem()
        if problem is None:
            return Check(PASS, time)
        return Check(WARN, time, f'records of decisions wait: {problem}')

    def measure(self) -> None:
        """Set the gauges of the present state."""
        self._recorder.set(catalogue.DECISION_STORE_BYTES, self.size())
