# SPDX-License-Identifier: Apache-2.0
"""The metrics of the catalogue, kept by prometheus_client.

It chooses, when it is first imported, whether several processes share their values:
PROMETHEUS_MULTIPROC_DIR must be set by then. So nothing imports this module before
it is known that metrics are wanted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from novasched.observing.catalogue import ALL, CELL_AGE, CELL_TIME, Kind, Metric
from novasched.observing.serving import Answer


class Metrics:
    """The metrics of one worker; threads may share it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made = {
            each.name: self._make(each) for each in ALL if each is not CELL_AGE
        }
        self._labelled: dict[tuple[str, ...], Any] = {}

    def _make(self, metric: Metric) -> Any:
        match metric.kind:
            case Kind.COUNTER:
                return Counter(
                    metric.name, metric.doc, metric.labels, registry=self.registry
                )
            case Kind.GAUGE:
                return Gauge(
                    metric.name,
                    metric.doc,
                    metric.labels,
                    registry=self.registry,
                    multiprocess_mode=metric.across,  # type: ignore[arg-type]
                )
            case Kind.HISTOGRAM:
                return Histogram(
                    metric.name,
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
        self._of(metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""
        self._of(metric, labels).observe(value)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._of(metric, labels).set(value)


class Together:
    """The values of all workers that share a directory, and the ages of cells."""

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        self._shared = multiprocess.MultiProcessCollector(  # type: ignore[no-untyped-call]
            None, directory
        )
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Yield what prometheus_client makes text of."""
        for family in self._shared.collect():  # type: ignore[no-untyped-call]
            yield family
            if family.name == CELL_TIME.name:
                yield self._ages(family)

    def _ages(self, times: Family) -> Family:
        ages = Family(CELL_AGE.name, CELL_AGE.doc, 'gauge')
        now = self._clock()
        for sample in times.samples:
            if sample.value > 0:
                age_s = max(0.0, now - sample.value)
                ages.add_sample(CELL_AGE.name, sample.labels, age_s)
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
