# SPDX-License-Identifier: Apache-2.0
"""Instrumentation of a scheduler: wraps its components with health and metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from novasched.candidate_query import QueryPolicy
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.cells import Cells
from novasched.cluster.view import ClusterView
from novasched.observability import catalogue
from novasched.observability.catalogue import MetricRecorder, NullRecorder
from novasched.observability.health import FAIL, PASS, WARN, Check, Checker, Health
from novasched.observability.ports import (
    InstrumentedApiStore,
    InstrumentedPlacement,
    InstrumentedServiceStore,
)
from novasched.observability.requests import RequestTracker, StageTimer
from novasched.observability.settings import Settings
from novasched.ports import ApiStore, Placement, ServiceStore
from novasched.scheduler.trace import Decision

CHECKS_MISSED = 3
"""So many times in a row must a cell not have been read, to be called old."""


class Freshness:
    """Compares what the view knows with the clock.

    ``asked_at`` has the time of the last answer of each cell, by uuid.
    """

    def __init__(
        self,
        cells: Cells,
        asked_at: Callable[[], dict[str, float]],
        clock: Clock,
        health: Health,
        check_interval_s: float,
    ) -> None:
        self._cells = cells
        self._asked_at = asked_at
        self._clock = clock
        self._health = health
        self._most_s = CHECKS_MISSED * check_interval_s
        self._began_s = clock.monotonic()
        self._shown: set[str] = set()

    def check(self) -> dict[str, Check]:
        """Judge the database of each cell, and the view as a whole.

        One cell of several that is left out is a warning: the others are served.
        """
        enabled, time = self._cells.enabled(), self._health.time()
        if not enabled:
            return {}
        out = {cell.uuid for cell in self._cells.unavailable()}
        bad = Check(
            WARN if len(out) < len(enabled) else FAIL,
            time,
            f'the cell is left out: {len(enabled) - len(out)} of {len(enabled)} answer',
        )
        found = {
            f'cell_db:{cell.uuid}': bad if cell.uuid in out else Check(PASS, time)
            for cell in enabled
        }
        ages_s = self._ages_s()
        ages = [ages_s.get(cell.uuid) for cell in enabled]
        return {**found, 'cluster_view': self._judge(ages, time)}

    def _ages_s(self) -> dict[str, float]:
        now_s = self._clock.monotonic()
        return {uuid: now_s - at_s for uuid, at_s in self._asked_at().items()}

    def _judge(self, ages_s: list[float | None], time: str) -> Check:
        """A cell that was not read yet is as old as the view, which may be new."""
        view_s = self._clock.monotonic() - self._began_s
        old = sum((view_s if s is None else s) > self._most_s for s in ages_s)
        if old:
            most = f'{self._most_s:.0f} s'
            output = f'{old} of {len(ages_s)} cells were not read for over {most}'
            return Check(WARN if old < len(ages_s) else FAIL, time, output)
        if unread := ages_s.count(None):
            output = f'{unread} of {len(ages_s)} cells were not read yet'
            return Check(WARN, time, output)
        return Check(PASS, time)

    def measure(self, recorder: MetricRecorder, now: float) -> None:
        """Set the gauges of all cells; ``now`` is in seconds since 1970."""
        ages_s = self._ages_s()
        out = {cell.uuid for cell in self._cells.unavailable()}
        enabled = {cell.name or cell.uuid: cell for cell in self._cells.enabled()}
        for name, cell in enabled.items():
            if cell.uuid in ages_s:
                recorder.set(catalogue.CELL_TIME, now - ages_s[cell.uuid], name)
            recorder.set(catalogue.CELL_LEFT_OUT, cell.uuid in out, name)
        for gone in self._shown - enabled.keys():
            recorder.set(catalogue.CELL_TIME, 0, gone)
            recorder.set(catalogue.CELL_LEFT_OUT, 0, gone)
        self._shown |= enabled.keys()


class Instrumentation:
    """Wraps each component with what measures it. ``checkers`` are to be asked for the
    health. Without ``recorder`` nothing is counted.
    """

    def __init__(
        self,
        recorder: MetricRecorder | None = None,
        health: Health | None = None,
        clock: Clock = SYSTEM_CLOCK,
        settings: Settings | None = None,
    ) -> None:
        settings = settings or Settings()
        self._recorder = recorder = recorder or NullRecorder()
        self._health = health = health or Health(clock)
        self._clock = clock
        self._check_interval_s = settings.check_interval_s
        self._stages = StageTimer(recorder, clock)
        self._freshness: Freshness | None = None
        self.requests = requests = RequestTracker(
            recorder, settings.threads, settings.patience_s, clock
        )
        self.checkers: list[Checker] = [
            lambda: {'requests': requests.check(health.time())}
        ]

    def api(self, inner: ApiStore) -> ApiStore:
        return InstrumentedApiStore(inner, self._health)

    def services(self, inner: ServiceStore) -> ServiceStore:
        return InstrumentedServiceStore(inner, self._health)

    def placement(self, inner: Placement) -> Placement:
        return InstrumentedPlacement(inner, self._recorder, self._stages, self._health)

    def query_policy(self, query_policy: QueryPolicy) -> QueryPolicy:
        """Measure the prefilters, and count the answers that a limit cut."""
        measured = self._stages.prefilters(tuple(query_policy.prefilters))
        on_cut = self._stages.cut
        return replace(query_policy, prefilters=measured, on_cut=on_cut)

    def decisions(
        self, on_decision: Callable[[Decision], None]
    ) -> Callable[[Decision], None]:
        """Return what takes in a decision, and hands it on."""

        def both(decision: Decision) -> None:
            self._stages.decided(decision)
            on_decision(decision)

        return both

    def refresh(self) -> contextlib.AbstractContextManager[None]:
        """Measure a refresh of the view, which is done within."""
        return self._stages('Refresh')

    def watch(self, view: ClusterView) -> None:
        """Judge from now on how fresh a view is."""
        self._freshness = Freshness(
            view.cells, view.asked_at, self._clock, self._health, self._check_interval_s
        )
        self.checkers.append(self._freshness.check)

    def measure(self, now: float) -> None:
        """Set the gauges of the present state; in seconds since 1970."""
        self.requests.measure()
        if self._freshness is not None:
            self._freshness.measure(self._recorder, now)
