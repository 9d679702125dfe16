# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured of requests, at the doors that they pass."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.observing import catalogue
from novasched.observing.catalogue import Metric
from novasched.observing.health import FAIL, PASS, WARN, Check, Health
from novasched.ports import (
    Candidate,
    Candidates,
    Claimed,
    Placement,
    QueryFailed,
    Refused,
    Unknown,
)
from novasched.resources.prefilters import Prefilter, run
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.scheduler.trace import Decision

PLUGINS_EVERY = 10
"""One request, and one decision, in so many has its plugins measured: all would cost
too much."""

LIMIT = re.compile(r'(?:^|&)limit=(\d+)')


class Numbers(Protocol):
    """Keeps the metrics of the catalogue."""

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter, or to a gauge."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""


class NoNumbers:
    """Keeps nothing. Satisfies Numbers."""

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None: ...

    def observe(self, metric: Metric, value: float, *labels: str) -> None: ...

    def set(self, metric: Metric, value: float, *labels: str) -> None: ...


class WatchedRequests:
    """Counts requests, and knows how long each has been under way.

    ``threads`` is how many there can be at once. Satisfies ports.Requests.
    """

    def __init__(
        self,
        numbers: Numbers,
        threads: int,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._numbers = numbers
        self._threads = threads
        self._patience_s = patience_s
        self._clock = clock
        self._names = itertools.count()
        self._since: dict[int, float] = {}

    def arrived(self, waited_s: float) -> None:
        self._numbers.observe(catalogue.QUEUE_WAIT_SECONDS, waited_s)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        name, since = next(self._names), self._clock()
        self._since[name] = since
        self._numbers.count(catalogue.IN_FLIGHT)
        result = 'error'
        try:
            yield
            result = 'scheduled'
        except errors.NoValidHost:
            result = 'unschedulable'
            raise
        finally:
            del self._since[name]
            took_s = self._clock() - since
            self._numbers.count(catalogue.IN_FLIGHT, by=-1)
            self._numbers.count(catalogue.ATTEMPTS, result)
            self._numbers.observe(catalogue.ATTEMPT_SECONDS, took_s, result)

    def look(self, time: str) -> Check:
        """Judge whether requests get through; one that nobody waits for any more is
        a warning, and when they hold all threads nothing does."""
        before = self._clock() - self._patience_s
        late = sum(1 for since in list(self._since.values()) if since < before)
        if not late:
            return Check(PASS, time)
        output = (
            f'{late} of {self._threads} threads have worked on a request for over '
            f'{self._patience_s:.0f} s'
        )
        return Check(FAIL if late >= self._threads else WARN, time, output)


class Stages:
    """Measures stages, prefilters, filters and weighers."""

    def __init__(
        self, numbers: Numbers, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._numbers = numbers
        self._clock = clock
        self._requests = itertools.count()
        self._decisions = itertools.count()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        since = self._clock()
        try:
            yield
        finally:
            took_s = self._clock() - since
            self._numbers.observe(catalogue.STAGE_SECONDS, took_s, name)

    def refresh(self, refresh: Callable[[], None]) -> Callable[[], None]:
        """Return a refresh of the cluster view that is measured."""

        def measured() -> None:
            with self('Refresh'):
                refresh()

        return measured

    def prefilters(self, prefilters: Sequence[Prefilter]) -> tuple[Prefilter, ...]:
        """Return one prefilter that is all of them, measured."""
        each = [self._prefilter(prefilter) for prefilter in prefilters]

        def measured(request: RequestSpec, facts: Facts) -> Requirements:
            sampled = next(self._requests) % PLUGINS_EVERY == 0
            with self('PreFilter'):
                return run(each if sampled else prefilters, request, facts)

        return (measured,)

    def _prefilter(self, prefilter: Prefilter) -> Prefilter:
        name = getattr(prefilter, '__name__', type(prefilter).__name__)

        def measured(request: RequestSpec, facts: Facts) -> Requirements | None:
            since = self._clock()
            found = prefilter(request, facts)
            took_s = self._clock() - since
            self._numbers.observe(catalogue.PLUGIN_SECONDS, took_s, name, 'PreFilter')
            return found

        return measured

    def decided(self, decision: Decision) -> None:
        """Take in a decision."""
        weighers = {weighing.name for weighing in decision.weighed.weighings}
        scored_s = sum(decision.took_s.get(name, 0.0) for name in weighers)
        all_s = sum(decision.took_s.values())
        if decision.took_s:
            observe = self._numbers.observe
            observe(catalogue.ALGORITHM_SECONDS, all_s)
            observe(catalogue.STAGE_SECONDS, all_s - scored_s, 'Filter')
            observe(catalogue.STAGE_SECONDS, scored_s, 'Score')
        if next(self._decisions) % PLUGINS_EVERY == 0:
            self._plugins(decision.took_s, weighers)
        if not len(decision.ranked):
            took = [step.name for step in decision.steps if len(step.before)]
            self._numbers.count(catalogue.UNSCHEDULABLE, took[-1] if took else 'none')

    def _plugins(self, took_s: Mapping[str, float], weighers: set[str]) -> None:
        for name, seconds in took_s.items():
            point = 'Score' if name in weighers else 'Filter'
            self._numbers.observe(catalogue.PLUGIN_SECONDS, seconds, name, point)


class WatchedPlacement:
    """Placement, counted; what it answers says how it is. Satisfies ports.Placement."""

    def __init__(
        self, inner: Placement, numbers: Numbers, stages: Stages, health: Health
    ) -> None:
        self._inner = inner
        self._numbers = numbers
        self._stages = stages
        self._health = health

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        with self._stages('Query'):
            answer = self._inner.candidates(context, query)
        if isinstance(answer, QueryFailed):
            self._numbers.count(catalogue.QUERIES, 'failed')
            self._judge(answer.status, answer.text)
            return answer
        self._health.good('placement')
        found = len(answer.requests)
        self._numbers.count(catalogue.QUERIES, 'found' if found else 'none')
        self._numbers.observe(catalogue.CANDIDATES, found)
        limit = LIMIT.search(query)
        if limit and found >= int(limit[1]):
            self._numbers.count(catalogue.TRUNCATED)
        return answer

    def _judge(self, status: int, text: str) -> None:
        """What placement answers with its own mouth, it is there to say."""
        if 0 < status < 500 and status not in (401, 403):
            self._health.good('placement')
        else:
            self._health.bad('placement', f'HTTP {status}: {text}' if status else text)

    def claim(
        self,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Claimed | Refused | Unknown:
        result = 'error'
        try:
            with self._stages('Claim'):
                outcome = self._inner.claim(
                    context, consumer_uuid, candidate, version, project_id, user_id
                )
            result = self._result(outcome)
            return outcome
        finally:
            self._numbers.count(catalogue.CLAIMS, result)

    def _result(self, outcome: Claimed | Refused | Unknown) -> str:
        match outcome:
            case Claimed():
                self._health.good('placement')
                return 'claimed'
            case Unknown():
                self._health.bad('placement', outcome.text)
                return 'unknown'
        self._judge(outcome.status, outcome.text)
        return 'conflict' if outcome.status == 409 else 'refused'

    def undo(self, context: RequestContext, claim: Claimed | Unknown) -> None:
        with self._stages('Undo'):
            self._inner.undo(context, claim)
