# SPDX-License-Identifier: Apache-2.0
"""Metrics of requests and of their stages."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from novasched import errors
from novasched.clock import Clock
from novasched.objects.request_spec import RequestSpec
from novasched.observability import catalogue
from novasched.observability.catalogue import MetricRecorder
from novasched.observability.health import FAIL, PASS, WARN, Check
from novasched.ports import Candidates
from novasched.resources.prefilters import Prefilter
from novasched.resources.requirements import PrefilterContext, Requirements
from novasched.scheduler.trace import Decision

PLUGINS_EVERY = 10
"""One request, and one decision, in so many has its plugins measured: all would cost
too much."""


class RequestTracker:
    """Counts requests, and knows how long each has been under way.

    ``threads`` is how many there can be at once. Satisfies ports.Requests.
    """

    def __init__(
        self,
        recorder: MetricRecorder,
        threads: int,
        patience_s: float,
        clock: Clock,
    ) -> None:
        self._recorder = recorder
        self._threads = threads
        self._patience_s = patience_s
        self._clock = clock
        self._names = itertools.count()
        self._since: dict[int, float] = {}
        self._queued: dict[int, float] = {}
        self._finished = 0
        self._counting = threading.Lock()

    def arrived(self, waited_s: float) -> None:
        self._recorder.observe(catalogue.QUEUE_WAIT_SECONDS, waited_s)

    def queued(self, message: int, waited_s: float) -> None:
        self._queued[message] = self._clock.monotonic() - waited_s

    def taken(self, message: int) -> None:
        self._queued.pop(message, None)

    def placed(self, servers: int) -> None:
        self._recorder.count(catalogue.SERVERS_PLACED, by=servers)

    def finished(self) -> int:
        return self._finished

    def measure(self) -> None:
        """Set the gauges of the present state."""
        now, queued = self._clock.monotonic(), list(self._queued.values())
        oldest_s = max((now - since for since in queued), default=0.0)
        self._recorder.set(catalogue.THREADS, self._threads)
        self._recorder.set(catalogue.MESSAGES_WAITING, len(queued))
        self._recorder.set(catalogue.OLDEST_WAITING, oldest_s)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        name, since = next(self._names), self._clock.monotonic()
        self._since[name] = since
        self._recorder.count(catalogue.IN_FLIGHT)
        result = 'error'
        try:
            yield
            result = 'scheduled'
        except errors.NoValidHost:
            result = 'unschedulable'
            raise
        finally:
            del self._since[name]
            with self._counting:
                self._finished += 1
            took_s = self._clock.monotonic() - since
            self._recorder.count(catalogue.IN_FLIGHT, by=-1)
            self._recorder.count(catalogue.ATTEMPTS, result)
            self._recorder.observe(catalogue.ATTEMPT_SECONDS, took_s, result)

    def under_way(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - since for since in list(self._since.values())]

    def check(self, time: str) -> Check:
        """Judge whether requests get through; one without a waiting caller is
        a warning, and when they hold all threads nothing does."""
        late = sum(1 for since_s in self.under_way() if since_s > self._patience_s)
        if not late:
            return Check(PASS, time)
        output = (
            f'{late} of {self._threads} threads have worked on a request for over '
            f'{self._patience_s:.0f} s'
        )
        return Check(FAIL if late >= self._threads else WARN, time, output)


class StageTimer:
    """Measures stages, prefilters, filters and weighers."""

    def __init__(self, recorder: MetricRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._requests = itertools.count()
        self._decisions = itertools.count()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        since = self._clock.monotonic()
        try:
            yield
        finally:
            took_s = self._clock.monotonic() - since
            self._recorder.observe(catalogue.STAGE_SECONDS, took_s, name)

    def prefilters(self, prefilters: Sequence[Prefilter]) -> Iterable[Prefilter]:
        """Return the prefilters, measured while they are gone through."""
        each = [self._prefilter(prefilter) for prefilter in prefilters]
        return _Measured(self, each, prefilters)

    def sampled(self) -> bool:
        """Say whether the plugins of the next request are measured."""
        return next(self._requests) % PLUGINS_EVERY == 0

    def _prefilter(self, prefilter: Prefilter) -> Prefilter:
        name = getattr(prefilter, '__name__', type(prefilter).__name__)

        @functools.wraps(prefilter)
        def measured(
            request: RequestSpec, facts: PrefilterContext
        ) -> Requirements | None:
            since = self._clock.monotonic()
            found = prefilter(request, facts)
            took_s = self._clock.monotonic() - since
            self._recorder.observe(catalogue.PLUGIN_SECONDS, took_s, name, 'PreFilter')
            return found

        return measured

    def cut(self, answer: Candidates) -> None:
        """Take in an answer of placement that a limit cut."""
        self._recorder.count(catalogue.TRUNCATED)

    def decided(self, decision: Decision) -> None:
        """Take in a decision."""
        weighers = {weighing.name for weighing in decision.weighed.weighings}
        scored_s = sum(decision.took_s.get(name, 0.0) for name in weighers)
        all_s = sum(decision.took_s.values())
        if decision.took_s:
            observe = self._recorder.observe
            observe(catalogue.ALGORITHM_SECONDS, all_s)
            observe(catalogue.STAGE_SECONDS, all_s - scored_s, 'Filter')
            observe(catalogue.STAGE_SECONDS, scored_s, 'Score')
        if next(self._decisions) % PLUGINS_EVERY == 0:
            self._plugins(decision.took_s, weighers)
        if not len(decision.ranked):
            took = [step.name for step in decision.steps if len(step.before)]
            self._recorder.count(catalogue.UNSCHEDULABLE, took[-1] if took else 'none')

    def _plugins(self, took_s: Mapping[str, float], weighers: set[str]) -> None:
        for name, seconds in took_s.items():
            point = 'Score' if name in weighers else 'Filter'
            self._recorder.observe(catalogue.PLUGIN_SECONDS, seconds, name, point)


@dataclass(frozen=True)
class _Measured:
    """Prefilters; going through them is a stage. Some are measured one by one."""

    stages: StageTimer
    watched: Sequence[Prefilter]
    plain: Sequence[Prefilter]

    def __iter__(self) -> Iterator[Prefilter]:
        with self.stages('PreFilter'):
            yield from self.watched if self.stages.sampled() else self.plain
