# SPDX-License-Identifier: Apache-2.0
"""Traces of requests: spans of OpenTelemetry, sent to a collector.

A request only notes when its stages ended. The thread that makes records makes the
spans, and a thread of OpenTelemetry sends them.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from oslo_config import cfg

from novasched.decisions.record import SCHEDULED, DecisionRecord
from novasched.decisions.recording import RequestObserver, RequestRecorder
from novasched.runtime.log_once import LogOnce
from novasched.scheduler.trace import Decision

if TYPE_CHECKING:  # an extra, which is imported only if the option is set
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.URIOpt(
            'tracing_endpoint',
            schemes=['http', 'https'],
            help="""
Collector that gets a trace of each request, by OTLP over HTTP.

A URL such as ``http://localhost:4318``; ``/v1/traces`` is added unless it has a path.
It needs the extra ``novasched[tracing]``. Unset: there are no traces.
""",
        ),
        cfg.FloatOpt(
            'tracing_share',
            default=1.0,
            min=0.0,
            max=1.0,
            help='Share of the requests that are traced. A request whose message '
            'names the span of its sender is traced if its sender was.',
        ),
    ],
}

SHOWN = (
    *('global_request_id', 'flavor', 'servers', 'hosts', 'candidates'),
    *('result', 'blocker', 'plugin', 'code', 'worker'),
)
"""Fields of the head of a record that are attributes of a span."""
EXPORTER = 'opentelemetry.exporter.otlp.proto.http.trace_exporter'
PATH = '/v1/traces'
MOST_STAGES = 200
"""Spans of one request; of a request for many servers, the first stages are shown."""
EXPORT_S = 5.0
"""Seconds in which the collector must take a batch."""
CLOSE_S = 2.0
"""Seconds that the end of a worker waits for the last batches."""


class StageTime(NamedTuple):
    """A stage of a request; times are of the monotonic clock."""

    name: str
    since_s: float
    until_s: float


@dataclass
class RequestTrace:
    """The stages of one request, until its span is made."""

    parent: Mapping[str, Any]  # see rpc.caller.trace_parent()
    stages: list[StageTime] = field(default_factory=list)
    left_out: int = 0
    root: Span | None = None


class LoggedExporter:
    """Logs once if the collector takes no spans, and once when it does again."""

    def __init__(self, inner: Any, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = endpoint
        self._logged = LogOnce()

    def export(self, spans: Sequence[Any]) -> Any:
        result = self._inner.export(spans)
        if result.name != 'SUCCESS':
            if self._logged.begins():
                LOG.warning('%s takes no traces; they are lost', self._endpoint)
        elif self._logged.ends():
            LOG.info('%s takes traces again', self._endpoint)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class TracedRequests(RequestObserver):
    """Makes a trace of each request that is recorded; ``inner`` hears all, too.

    ``start`` returns the tracer, and what ends it. It is called for the first record,
    so after the fork of a worker. ``parent`` is as rpc.caller.trace_parent().
    """

    def __init__(
        self,
        inner: RequestObserver,
        start: Callable[[], tuple[Tracer, Callable[[], None]]],
        parent: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._inner = inner
        self._start = start
        self._parent = parent
        self._tracer: Tracer | None = None
        self._shutdown: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._logged = LogOnce()

    def staged(
        self, recorder: RequestRecorder, stage: str, since_s: float, took_s: float
    ) -> None:
        self._inner.staged(recorder, stage, since_s, took_s)
        self._add(recorder, StageTime(stage, since_s, since_s + took_s))

    def prefiltered(self, took_s: Mapping[str, float]) -> None:
        self._inner.prefiltered(took_s)

    def decided(
        self,
        recorder: RequestRecorder,
        decision: Decision,
        stages_s: Mapping[str, float],
    ) -> None:
        self._inner.decided(recorder, decision, stages_s)
        since_s = recorder.clock.monotonic() - sum(stages_s.values())
        for name in ('filter', 'score'):
            until_s = since_s + stages_s.get(name, 0.0)
            self._add(recorder, StageTime(name, since_s, until_s))
            since_s = until_s

    def recorded(
        self, recorder: RequestRecorder, record: DecisionRecord, took_s: float
    ) -> None:
        self._inner.recorded(recorder, record, took_s)
        try:
            self._trace(recorder, record)
        except Exception:  # a library's: the record is kept without its trace
            if self._logged.begins():
                LOG.exception('Request %s leaves no trace', recorder.id)

    def close(self) -> None:
        self._inner.close()
        with self._starting:
            shutdown, self._shutdown = self._shutdown, lambda: None
        closing = threading.Thread(target=shutdown, name='tracing', daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _add(self, recorder: RequestRecorder, stage: StageTime) -> None:
        """Note a stage, or make its span if the request has its own."""
        if recorder.observed is None:
            recorder.observed = RequestTrace(self._parent())
        trace: RequestTrace = recorder.observed
        with self._lock:
            if trace.root is None:
                if len(trace.stages) < MOST_STAGES:
                    trace.stages.append(stage)
                else:
                    trace.left_out += 1
                return
        self._add_spans(recorder, trace.root, [stage])

    def _trace(self, recorder: RequestRecorder, record: DecisionRecord) -> None:
        """Make the spans of a request. They end here, so they are sent soon."""
        from opentelemetry.trace import SpanKind, StatusCode

        head, trace = record.head, recorder.observed or RequestTrace({})
        recorder.observed = trace
        shown = {f'novasched.{name}': getattr(head, name) for name in SHOWN}
        root = self._started_tracer().start_span(
            'select_destinations',
            parent_context(trace.parent),
            SpanKind.SERVER,
            {
                **{key: each for key, each in shown.items() if each not in ('', -1)},
                'openstack.request_id': head.request_id,
                'novasched.decision': head.id,
                'novasched.rounds': sum(recorder.rounds.values()),
                'novasched.decided_again': [str(reason) for reason in recorder.rounds],
                'novasched.stages_left_out': trace.left_out,
            },
            start_time=_ns(recorder, recorder.started_s),
        )
        if head.result != SCHEDULED:
            root.set_status(StatusCode.ERROR, head.why or head.result)
        with self._lock:
            trace.root, stages = root, trace.stages
        self._add_spans(recorder, root, stages)
        root.end(_ns(recorder, recorder.ended_s))

    def _add_spans(
        self, recorder: RequestRecorder, root: Span, stages: Sequence[StageTime]
    ) -> None:
        """Make the spans of stages; a stage within another is its child."""
        from opentelemetry.trace import set_span_in_context

        around: list[tuple[Span, float]] = [(root, float('inf'))]
        for stage in sorted(stages, key=lambda stage: (stage.since_s, -stage.until_s)):
            while around[-1][1] < stage.until_s:
                around.pop()
            span = self._started_tracer().start_span(
                stage.name,
                set_span_in_context(around[-1][0]),
                start_time=_ns(recorder, stage.since_s),
            )
            span.end(_ns(recorder, stage.until_s))
            around.append((span, stage.until_s))

    def _started_tracer(self) -> Tracer:
        with self._starting:
            if self._tracer is None:
                self._tracer, self._shutdown = self._start()
            return self._tracer


def _ns(recorder: RequestRecorder, at_s: float) -> int:
    """Return a time of the monotonic clock in nanoseconds since 1970."""
    return int(recorder.at * 1e9) + int((at_s - recorder.started_s) * 1e9)


def parent_context(carrier: Mapping[str, Any]) -> Context:
    """Return the context of the span that sent a message; empty if there is none."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation import tracecontext

    texts = {key: each for key, each in carrier.items() if isinstance(each, str)}
    if 'traceparent' in texts:
        return tracecontext.TraceContextTextMapPropagator().extract(texts, Context())
    try:  # osprofiler makes spans of OpenTelemetry from its uuids in this way
        info = carrier['trace_info']
        trace_id = uuid.UUID(info['base_id']).int
        span_id = uuid.UUID(info['parent_id']).int & 2**64 - 1
    except (KeyError, TypeError, ValueError, AttributeError):
        return Context()
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _has_exporter() -> bool:
    try:
        importlib.import_module(EXPORTER)
    except ImportError:
        return False
    return True


def warning(conf: cfg.ConfigOpts) -> str | None:
    """Return a warning if the option is set and the extra is missing."""
    if not conf.novasched.tracing_endpoint or _has_exporter():
        return None
    return (
        '[novasched] tracing_endpoint is set, but OpenTelemetry is not installed: no '
        'request is traced. Install novasched[tracing], or unset the option.'
    )


def from_conf(
    conf: cfg.ConfigOpts,
    observer: RequestObserver,
    host: str,
    parent: Callable[[], Mapping[str, Any]],
) -> RequestObserver:
    """Return the observer, with traces if the option is set and the extra is there."""
    endpoint, share = conf.novasched.tracing_endpoint, conf.novasched.tracing_share
    if not endpoint or not _has_exporter():
        return observer
    start = functools.partial(_started, endpoint, share, host)
    return TracedRequests(observer, start, parent)


def _started(
    endpoint: str, share: float, host: str
) -> tuple[Tracer, Callable[[], None]]:
    """Return a tracer that sends to a collector, and what sends the rest and ends."""
    from opentelemetry.exporter.otlp.proto.http import trace_exporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider, export, sampling

    has_path = urlsplit(endpoint).path.strip('/')
    url = endpoint if has_path else endpoint.rstrip('/') + PATH
    # A line for each batch: LoggedExporter says it once.
    logging.getLogger('opentelemetry.exporter.otlp').setLevel(logging.CRITICAL)
    exporter = trace_exporter.OTLPSpanExporter(url, timeout=EXPORT_S)
    release = version('novasched')
    provider = TracerProvider(
        sampling.ParentBased(sampling.TraceIdRatioBased(share)),
        Resource.create(
            {
                'service.name': 'novasched-scheduler',
                'service.version': release,
                'service.instance.id': f'{host}:{os.getpid()}',
                'host.name': host,
            }
        ),
        shutdown_on_exit=False,
    )
    logged: Any = LoggedExporter(exporter, url)
    provider.add_span_processor(export.BatchSpanProcessor(logged))
    return provider.get_tracer('novasched', release), provider.shutdown
