# SPDX-License-Identifier: Apache-2.0
"""The metrics of the catalogue, kept by prometheus_client.

It chooses, when it is first imported, whether several processes share their values:
PROMETHEUS_MULTIPROC_DIR must be set by then. So nothing imports this module before
it is known that metrics are wanted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from novasched.observability.catalogue import (
    ALL,
    CELL_AGE,
    CELL_TIME,
    PREFIX,
    Metric,
    Recorder,
)
from novasched.observability.serving import Response
from novasched.runtime.clock import SYSTEM_CLOCK

KINDS: Mapping[str, Any] = {'counter': Counter, 'gauge': Gauge, 'histogram': Histogram}


class Metrics(Recorder):
    """Recorder of one worker, which threads may share.

    Every value is at once where other processes see it, also when this one is killed.
    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self.registry = CollectorRegistry()
        self._made = {
            each.name: self._make(each, each.called(prefix))
            for each in ALL
            if each is not CELL_AGE
        }
        self._labelled: dict[tuple[str, ...], Any] = {}
        for metric in ALL:
            for label in metric.values:
                self._of(metric, (label,))

    def _make(self, metric: Metric, name: str) -> Any:
        more: dict[str, Any] = {'registry': self.registry}
        if metric.buckets:
            more['buckets'] = metric.buckets
        if metric.across:
            more['multiprocess_mode'] = metric.across
        return KINDS[metric.kind](name, metric.doc, metric.labels, **more)

    def _of(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        """Return the recorder of these labels; looking it up is cheap."""
        key = metric.name, *labels
        found = self._labelled.get(key)
        if found is None:
            made = self._made[metric.name]
            found = self._labelled[key] = made.labels(*labels) if labels else made
        return found

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        self._of(metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        self._of(metric, labels).observe(value)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        self._of(metric, labels).set(value)


class SharedMetrics:
    """The metrics of all workers that share a directory, and the ages of cells."""

    def __init__(self, directory: str, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix
        self._shared = multiprocess.MultiProcessCollector(  # type: ignore[no-untyped-call]
            None, directory
        )

    def of_worker(self) -> Metrics:
        """Make the metrics of the process that calls this."""
        return Metrics(self._prefix)

    def forget(self, pid: int) -> None:
        """Forget the gauges of a process that is gone; what it counted stays."""
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            multiprocess.mark_process_dead(pid, self._directory)  # type: ignore[no-untyped-call]

    def show(self, headers: Mapping[str, str]) -> Response:
        """Return all metrics in the form that a client understands."""
        encode, content_type = choose_encoder(headers.get('Accept', ''))
        registry = CollectorRegistry()
        registry.register(self)
        return Response(200, content_type, encode(registry))

    def collect(self) -> Iterator[Family]:
        """Yield what prometheus_client makes text of."""
        for family in self._shared.collect():  # type: ignore[no-untyped-call]
            yield family
            if family.name == CELL_TIME.called(self._prefix):
                yield self._ages(family)

    def _ages(self, times: Family) -> Family:
        ages = Family(CELL_AGE.called(self._prefix), CELL_AGE.doc, 'gauge')
        now = SYSTEM_CLOCK.time()
        for sample in times.samples:
            if sample.value > 0:
                age_s = max(0.0, now - sample.value)
                ages.add_sample(ages.name, sample.labels, age_s)
        return ages
