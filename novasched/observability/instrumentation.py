# SPDX-License-Identifier: Apache-2.0
"""Instrumentation of a scheduler: wraps its components with health and metrics."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from novasched import errors
from novasched.cluster.view import ClusterView
from novasched.observability import catalogue
from novasched.observability.catalogue import Metric, Recorder
from novasched.observability.decisions import DecisionMetrics
from novasched.observability.health import FAIL, PASS, WARN, Check, Health
from novasched.observability.requests import (
    OutageMetrics,
    PickMetrics,
    RequestTracker,
    check_outages,
)
from novasched.observability.settings import Settings
from novasched.outages import Outages
from novasched.placement_copy import SOURCE_NAMES
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import (
    ApiStore,
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimUnknown,
    Placement,
    QueryFailed,
    ServiceRow,
    ServiceStore,
)
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.outcomes import Outcome

CHECKS_MISSED = 3
"""So many times in a row must a cell not have been read, to be called old."""


@contextlib.contextmanager
def news_of(name: str, health: Health) -> Iterator[None]:
    """Take what is done within as news of a component."""
    try:
        yield
    except errors.StoreFailed as problem:
        health.bad(name, str(problem))
        raise
    health.good(name)


class InstrumentedApiStore:
    """The API database: each answer is news. Satisfies ports.ApiStore."""

    def __init__(self, inner: ApiStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def __getattr__(self, method: str) -> Any:
        return news_of('api_db', self._health)(getattr(self._inner, method))


class InstrumentedServiceStore:
    """The services rows: the heartbeats of this program. Satisfies
    ports.ServiceStore."""

    def __init__(self, inner: ServiceStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self._inner.register(host, binary, topic, version)
        self._health.service_id = row.uuid
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        with news_of('heartbeat', self._health):
            found = self._inner.beat(service_id, report_count)
        if not found:
            self._health.bad('heartbeat', 'the services row is gone', FAIL)
        return found


def judge_placement(health: Health, status: int, text: str) -> None:
    """Take an error of placement as news: what it answers with its own mouth, it is
    there to say."""
    if 0 < status < 500 and status not in (401, 403):
        health.good('placement')
    else:
        health.bad('placement', f'HTTP {status}: {text}' if status else text)


class InstrumentedPlacement:
    """Placement, whose claims are counted, and are news of its health. Satisfies
    ports.Placement."""

    def __init__(self, inner: Placement, recorder: Recorder, health: Health) -> None:
        self._inner = inner
        self._recorder = recorder
        self._health = health

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)
        claims = method in ('claim', 'claim_all')
        return functools.partial(self._claim, call) if claims else call

    def _claim(self, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        try:
            outcome = call(*args, **more)
        except errors.NovaschedError:
            self._recorder.count(catalogue.CLAIMS, 'error')
            raise
        for claim in outcome if isinstance(outcome, Sequence) else [outcome]:
            self._take_in(claim)
        return outcome

    def _take_in(self, claim: Claimed | ClaimRefused | ClaimUnknown) -> None:
        match claim:
            case Claimed():
                self._health.good('placement')
                result = Outcome.CLAIMED
            case ClaimUnknown():
                self._health.bad('placement', claim.text)
                result = Outcome.UNKNOWN
            case ClaimRefused():
                judge_placement(self._health, claim.status, claim.text)
                result = claim.outcome
        self._recorder.count(catalogue.CLAIMS, result)


class CopyMetrics:
    """Health and metrics of a copy of placement, by the ``mode`` of the options."""

    def __init__(self, copy: CopyKeeper, mode: str) -> None:
        self._copy = copy
        self._mode = mode
        self._counted = 0, 0
        self._fallbacks: Counter[str] = Counter()

    def check(self, time: str) -> Check:
        """Say where candidates come from, and why. Placement is slow: a copy that was
        there, or that must be there, is missed."""
        if self._mode == 'placement':
            return Check(PASS, time, 'placement is asked for candidates: it is so set')
        problem, copy = self._copy.problem(), self._copy.current(math.inf)
        if copy is not None and not problem:
            text = f'by a copy of placement, read from {SOURCE_NAMES[copy.source]}'
            return Check(PASS, time, text)
        is_missed = self._mode == 'mirror' or self._copy.age_s() is not None
        text = f'falling back to placement for candidates: {problem}'
        return Check(WARN if is_missed else PASS, time, text)

    def measure(self, recorder: Recorder) -> None:
        """Set the gauges, and count what happened since the last time."""
        age_s = self._copy.age_s()
        recorder.set(catalogue.COPY_AGE, -1 if age_s is None else age_s)
        recorder.set(catalogue.COPY_PROVIDERS, len(self._copy))
        counted = self._copy.differences, self._copy.void_picks
        for metric, now, before in zip(
            (catalogue.COPY_DIFFERENCES, catalogue.COPY_VOID_PICKS),
            counted,
            self._counted,
            strict=True,
        ):
            recorder.count(metric, by=now - before)
        fallbacks = self._copy.fallbacks.copy()
        for reason, number in (fallbacks - self._fallbacks).items():
            recorder.count(catalogue.COPY_FALLBACKS, reason, by=number)
        self._counted, self._fallbacks = counted, fallbacks


class Freshness:
    """Compares what a view knows of the cells with the clock."""

    def __init__(
        self, view: ClusterView, clock: Clock, check_interval_s: float
    ) -> None:
        self._view = view
        self._clock = clock
        self._most_s = CHECKS_MISSED * check_interval_s
        self._began_s = clock.monotonic()
        self._shown: set[str] = set()

    def check(self, time: str) -> dict[str, Check]:
        """Judge the database of each cell, and the view as a whole.

        One cell of several that is left out is a warning: the others are served.
        """
        cells, out = self._view.cells.enabled(), self._unavailable()
        if not cells:
            return {}
        bad = Check(
            WARN if len(out) < len(cells) else FAIL,
            time,
            f'the cell is left out: {len(cells) - len(out)} of {len(cells)} answer',
        )
        found = {
            f'cell_db:{cell.uuid}': bad if cell.uuid in out else Check(PASS, time)
            for cell in cells
        }
        ages_s = self._ages_s()
        ages = [ages_s.get(cell.uuid) for cell in cells]
        return {**found, 'cluster_view': self._judge(ages, time)}

    def _unavailable(self) -> set[str]:
        return {cell.uuid for cell in self._view.cells.unavailable()}

    def _ages_s(self) -> dict[str, float]:
        """Return how long ago each cell gave its last answer, by uuid."""
        now_s = self._clock.monotonic()
        return {uuid: now_s - at_s for uuid, at_s in self._view.asked_at().items()}

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

    def measure(self, recorder: Recorder, now: float) -> None:
        """Set the gauges of all cells; ``now`` is in seconds since 1970."""
        ages_s, out = self._ages_s(), self._unavailable()
        enabled = {cell.name or cell.uuid: cell for cell in self._view.cells.enabled()}
        for name, cell in enabled.items():
            if cell.uuid in ages_s:
                recorder.set(catalogue.CELL_TIME, now - ages_s[cell.uuid], name)
            recorder.set(catalogue.CELL_LEFT_OUT, cell.uuid in out, name)
        for gone in self._shown - enabled.keys():
            recorder.set(catalogue.CELL_TIME, 0, gone)
            recorder.set(catalogue.CELL_LEFT_OUT, 0, gone)
        self._shown |= enabled.keys()


class Instrumentation:
    """Wraps each component of a scheduler with what measures it, and knows its
    ``health``. Without ``recorder`` nothing is counted.
    """

    def __init__(
        self,
        recorder: Recorder | None = None,
        clock: Clock = SYSTEM_CLOCK,
        settings: Settings | None = None,
    ) -> None:
        settings = settings or Settings()
        self._clock = clock
        self._check_interval_s = settings.check_interval_s
        self._freshness: Freshness | None = None
        self._copy: CopyMetrics | None = None
        self.recorder = recorder or Recorder()
        self.decision_log = DecisionMetrics(self.recorder)
        self.health = Health(clock, settings.ttl_s)
        self.health.checkers.append(self._check)
        self._outages = Outages()
        self.picks = PickMetrics(self.recorder)
        self.requests = RequestTracker(
            self.recorder, settings.threads, settings.patience_s, clock
        )

    @contextlib.contextmanager
    def _timed(self, metric: Metric, *labels: str) -> Iterator[None]:
        since = self._clock.monotonic()
        try:
            yield
        finally:
            self.recorder.observe(metric, self._clock.monotonic() - since, *labels)

    def refresh(self) -> contextlib.AbstractContextManager[None]:
        """Measure one refresh of the cluster view; requests share it."""
        return self._timed(catalogue.STAGE_SECONDS, 'Refresh')

    def outages(self, patience_s: float) -> Outages:
        """Make the outages of a scheduler, measured."""
        metrics = OutageMetrics(self.recorder)
        self._outages = Outages(
            patience_s,
            on_waiting=metrics.waits,
            on_waited=metrics.waited,
            clock=self._clock,
        )
        return self._outages

    def api(self, inner: ApiStore) -> ApiStore:
        return cast(ApiStore, InstrumentedApiStore(inner, self.health))

    def services(self, inner: ServiceStore) -> ServiceStore:
        return InstrumentedServiceStore(inner, self.health)

    def placement(self, inner: Placement) -> Placement:
        counted = InstrumentedPlacement(inner, self.recorder, self.health)
        return cast(Placement, counted)

    def watch_copy(self, copy: CopyKeeper, mode: str) -> None:
        """Measure a copy of placement, and judge it from now on."""
        self._copy = CopyMetrics(copy, mode)

    def refresh_of_copy(self) -> contextlib.AbstractContextManager[None]:
        """Measure one look at placement."""
        return self._timed(catalogue.COPY_SECONDS)

    def answered(self, answer: Candidates | QueryFailed) -> None:
        """Count an answer to a query; from placement it is news of its health."""
        if isinstance(answer, QueryFailed):
            self.recorder.count(catalogue.QUERIES, 'failed')
            judge_placement(self.health, answer.status, answer.text)
            return
        if answer.copy is None:
            self.health.good('placement')
        found = len(answer.requests)
        self.recorder.count(catalogue.QUERIES, 'found' if found else 'none')
        self.recorder.observe(catalogue.CANDIDATES, found)
        if answer.cut:
            self.recorder.count(catalogue.TRUNCATED)

    def watch(self, view: ClusterView) -> None:
        """Judge from now on how fresh a view is."""
        self._freshness = Freshness(view, self._clock, self._check_interval_s)

    def _check(self) -> dict[str, Check]:
        time = self.health.time()
        found = {} if self._freshness is None else self._freshness.check(time)
        if self._copy is not None:
            found['mirror'] = self._copy.check(time)
        found['outages'] = check_outages(self._outages, time)
        if self.picks.assumed is not None:
            found['picks'] = self.picks.check(time)
        found['decision_store'] = self.decision_log.check(time)
        found |= self.decision_log.check_conflicts(time)
        found |= self.decision_log.check_history(time)
        return {**found, 'requests': self.requests.check(time)}

    def measure(self, now: float) -> None:
        """Set the gauges of the present state; ``now`` is in seconds since 1970."""
        self.requests.measure()
        self.decision_log.measure()
        self.picks.measure()
        if self._copy is not None:
            self._copy.measure(self.recorder)
        if self._freshness is not None:
            self._freshness.measure(self.recorder, now)
