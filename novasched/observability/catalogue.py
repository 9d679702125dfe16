# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, kind, labels, and what it means.

After their prefix, names and labels are kube-scheduler's where it has the same thing.
No label names a host, an instance or a project: there would be no end of them.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

PREFIX = 'novasched'


class MetricKind(enum.StrEnum):
    """What Prometheus does with the values."""

    COUNTER = 'counter'
    GAUGE = 'gauge'
    HISTOGRAM = 'histogram'


def _powers(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(float(f'{first * factor**power:.6g}') for power in range(count))


REQUEST_BUCKETS_S = _powers(0.001, 2, 16)
PLUGIN_BUCKETS_S = _powers(0.00001, 4, 10)
CANDIDATE_BUCKETS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)


class Metric(NamedTuple):
    """One metric.

    ``labels`` have their possible values in ``doc``. ``across`` says what becomes of
    the values of several workers: a mode of prometheus_client, for gauges only.
    """

    name: str
    kind: MetricKind
    doc: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    across: str = ''

    def called(self, prefix: str) -> str:
        """Return the name with another prefix."""
        return prefix + self.name.removeprefix(PREFIX)


class MetricRecorder(Protocol):
    """Keeps the metrics of the catalogue."""

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter, or to a gauge."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""


class NullRecorder:
    """Keeps nothing. Satisfies MetricRecorder."""

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None: ...

    def observe(self, metric: Metric, value: float, *labels: str) -> None: ...

    def set(self, metric: Metric, value: float, *labels: str) -> None: ...


ATTEMPTS = Metric(
    'novasched_schedule_attempts_total',
    MetricKind.COUNTER,
    'Requests for destinations, by result: scheduled, unschedulable (there was no '
    'valid host) or error.',
    ('result',),
)
SERVERS_PLACED = Metric(
    'novasched_servers_placed_total',
    MetricKind.COUNTER,
    'Servers that a host was chosen for, in requests that succeeded: a request for '
    'eight servers counts eight. Where the compute refuses a server later, it counts '
    'again when it is asked for again.',
)
ATTEMPT_SECONDS = Metric(
    'novasched_scheduling_attempt_duration_seconds',
    MetricKind.HISTOGRAM,
    'From the start of a request to its answer, by result, as above.',
    ('result',),
    REQUEST_BUCKETS_S,
)
ALGORITHM_SECONDS = Metric(
    'novasched_scheduling_algorithm_duration_seconds',
    MetricKind.HISTOGRAM,
    'All filters and weighers of one decision. A request makes a decision for each '
    'server, and one more for the alternates of several.',
    (),
    REQUEST_BUCKETS_S,
)
STAGE_SECONDS = Metric(
    'novasched_framework_extension_point_duration_seconds',
    MetricKind.HISTOGRAM,
    'A stage of a request, by extension_point: PreFilter (the prefilters), Query '
    '(placement is asked for candidates), Refresh (the cluster view is brought up '
    'to date), Filter and Score (all filters, all weighers of one decision), Claim '
    'and Undo (one claim in placement, and taking it back).',
    ('extension_point',),
    REQUEST_BUCKETS_S,
)
PLUGIN_SECONDS = Metric(
    'novasched_plugin_execution_duration_seconds',
    MetricKind.HISTOGRAM,
    'One prefilter, filter or weigher, by plugin (its class or function) and '
    'extension_point: PreFilter, Filter or Score. One of ten is measured, as '
    'kube-scheduler does.',
    ('plugin', 'extension_point'),
    PLUGIN_BUCKETS_S,
)
UNSCHEDULABLE = Metric(
    'novasched_unschedulable_decisions_total',
    MetricKind.COUNTER,
    'Decisions that left no host, by plugin: the filter that took the last one, or '
    'none if there was no host to begin with.',
    ('plugin',),
)
CANDIDATES = Metric(
    'novasched_candidates',
    MetricKind.HISTOGRAM,
    'Allocation candidates that placement offered for one query.',
    (),
    CANDIDATE_BUCKETS,
)
TRUNCATED = Metric(
    'novasched_candidates_truncated_total',
    MetricKind.COUNTER,
    'Answers of placement that were as long as the limit of the query: there may '
    'have been more candidates.',
)
QUERIES = Metric(
    'novasched_candidate_queries_total',
    MetricKind.COUNTER,
    'Queries for candidates, by result: found, none or failed.',
    ('result',),
)
CLAIMS = Metric(
    'novasched_claims_total',
    MetricKind.COUNTER,
    'Claims in placement, by result: claimed, conflict (HTTP 409: someone else was '
    'faster, or there is no room any more), refused (any other answer), unknown (no '
    'answer) or error.',
    ('result',),
)
CELL_TIME = Metric(
    'novasched_cell_state_timestamp_seconds',
    MetricKind.GAUGE,
    'When what the worker that is furthest behind knows of a cell was asked for, as '
    'seconds since 1970, by cell: its name, or its uuid. 0: the cell is gone or '
    'disabled.',
    ('cell',),
    across='livemin',
)
CELL_AGE = Metric(
    'novasched_cell_state_age_seconds',
    MetricKind.GAUGE,
    'How old that is, by cell. Between requests it grows, to [novasched] '
    'check_interval.',
    ('cell',),
    across='livemin',
)
CELL_LEFT_OUT = Metric(
    'novasched_cell_left_out',
    MetricKind.GAUGE,
    '1 if a worker leaves the cell out of its decisions, because its database is '
    'late or keeps failing, by cell.',
    ('cell',),
    across='livemax',
)
IN_FLIGHT = Metric(
    'novasched_requests_in_flight',
    MetricKind.GAUGE,
    'Requests for destinations that are being worked on now.',
    (),
    across='livesum',
)
THREADS = Metric(
    'novasched_request_threads',
    MetricKind.GAUGE,
    'Requests that can be worked on at a time: executor_thread_pool_size of each '
    'worker. As many in flight as threads means that messages wait.',
    (),
    across='livesum',
)
MESSAGES_WAITING = Metric(
    'novasched_messages_waiting',
    MetricKind.GAUGE,
    'Messages that a worker has taken from its queue, and that no thread is free for.',
    (),
    across='livesum',
)
OLDEST_WAITING = Metric(
    'novasched_oldest_waiting_message_seconds',
    MetricKind.GAUGE,
    'How long the oldest of them has waited; 0 when none waits.',
    (),
    across='livemax',
)
QUEUE_WAIT_SECONDS = Metric(
    'novasched_queue_wait_seconds',
    MetricKind.HISTOGRAM,
    'How long a message waited: since the broker got it, if the broker says when '
    '(RabbitMQ: message_interceptors.incoming.set_header_timestamp), else since a '
    'worker took it from the queue.',
    (),
    REQUEST_BUCKETS_S,
)

ALL = (
    ATTEMPTS,
    SERVERS_PLACED,
    ATTEMPT_SECONDS,
    ALGORITHM_SECONDS,
    STAGE_SECONDS,
    PLUGIN_SECONDS,
    UNSCHEDULABLE,
    CANDIDATES,
    TRUNCATED,
    QUERIES,
    CLAIMS,
    CELL_TIME,
    CELL_AGE,
    CELL_LEFT_OUT,
    IN_FLIGHT,
    THREADS,
    MESSAGES_WAITING,
    OLDEST_WAITING,
    QUEUE_WAIT_SECONDS,
)
