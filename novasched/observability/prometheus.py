# SPDX-License-Identifier: Apache-2.0
"""The metrics of the catalogue, kept by prometheus_client.

It chooses, when it is first imported, whether several processes share their values:
PROMETHEUS_MULTIPROC_DIR must be set by then. So nothing imports this module before
it is known that metrics are wanted.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from novasched.observability.catalogue import (
    ALL,
    CELL_AGE,
    CELL_TIME,
    PREFIX,
    Kind,
    Metric,
)
from novasched.observability.serving import Answer

MOST_EVENTS = 2_000
"""So many are kept before they are put where others see them, if nobody asks."""


class Metrics:
    """The metrics of one worker; threads may share it.

    A value costs a request next to nothing: it is written down, and put together
    with others by ``flush``, which is called before somebody looks.
    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._events: collections.deque[tuple[Metric, tuple[str, ...], float]]
        self._events = collections.deque()
        self._flushing = threading.Lock()
        self.registry = CollectorRegistry()
        self._made = {
            each.name: self._make(each) for each in ALL if each is not CELL_AGE
        }
        self._labelled: dict[tuple[str, ...], Any] = {}

    def _make(self, metric: Metric) -> Any:
        name = metric.called(self._prefix)
        match metric.kind:
            case Kind.COUNTER:
                return Counter(name, metric.doc, metric.labels, registry=self.registry)
            case Kind.GAUGE:
                return Gauge(
                    name,
                    metric.doc,
                    metric.labels,
                    registry=self.registry,
                    multiprocess_mode=metric.across,  # type: ignore[arg-type]
                )
            case Kind.HISTOGRAM:
                return Histogram(
                    name,
                    metric.doc,
                    metric.labels,
                    registry=self.registry,
                    buckets=metric.buckets,
                )

    def _of(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        """Return what keeps the values of these labels; looking it up is cheap."""
        key = metric.name, *labels
        found = self._labelled.get(key)
        if found is None:
            made = self._made[metric.name]
            found = self._labelled[key] = made.labels(*labels) if labels else made
        return found

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter, or to a gauge."""
        self._events.append((metric, labels, by))
        if len(self._events) > MOST_EVENTS:
            self.flush()

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        self._events.append((metric, labels, value))

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._of(metric, labels).set(value)

    def flush(self) -> None:
        """Put all values where other processes see them."""
        with self._flushing:
            found: dict[tuple[int, tuple[str, ...]], list[float]] = {}
            metrics: dict[int, Metric] = {}
            with contextlib.suppress(IndexError):  # there are no more
                while True:
                    metric, labels, value = self._events.popleft()
                    metrics[id(metric)] = metric  # faster than their hash
                    found.setdefault((id(metric), labels), []).append(value)
            for (number, labels), values in found.items():
                metric = metrics[number]
                kept = self._of(metric, labels)
                if metric.kind is Kind.HISTOGRAM:
                    _observe(kept, metric, values)
                else:
                    kept.inc(sum(values))


def _observe(histogram: Any, metric: Metric, values: list[float]) -> None:
    """Put values into a histogram: as its own ``observe`` does for one, but each
    bucket is written once."""
    places = collections.Counter(bisect.bisect_left(metric.buckets, v) for v in values)
    histogram._sum.inc(sum(values))
    for place, count in places.items():
        histogram._buckets[place].inc(count)


class Together:
    """The values of all workers that share a directory, and the ages of cells."""

    def __init__(
        self,
        directory: str,
        clock: Callable[[], float] = time.time,
        prefix: str = PREFIX,
    ) -> None:
        self._prefix = prefix
        self._shared = multiprocess.MultiProcessCollector(  # type: ignore[no-untyped-call]
            None, directory
        )
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Yield what prometheus_client makes text of."""
        for family in self._shared.collect():  # type: ignore[no-untyped-call]
            yield family
            if family.name == CELL_TIME.called(self._prefix):
                yield self._ages(family)

    def _ages(self, times: Family) -> Family:
        name = CELL_AGE.called(self._prefix)
        ages = Family(name, CELL_AGE.doc, 'gauge')
        now = self._clock()
        for sample in times.samples:
            if sample.value > 0:
                age_s = max(0.0, now - sample.value)
                ages.add_sample(name, sample.labels, age_s)
        return ages


def answer(collector: Together, headers: Mapping[str, str]) -> Answer:
    """Return all metrics in the form that a client understands."""
    encode, content_type = choose_encoder(headers.get('Accept', ''))
    registry = CollectorRegistry()
    registry.register(collector)
    return Answer(200, content_type, encode(registry))


def bury(pid: int, directory: str) -> None:
    """Forget the gauges of a process that is gone; what it counted stays."""
    with contextlib.suppress(FileNotFoundError):  # somebody else was faster
        multiprocess.mark_process_dead(pid, directory)  # type: ignore[no-untyped-call]
