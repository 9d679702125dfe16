# SPDX-License-Identifier: Apache-2.0
"""Spans are made of what a request notes, whatever its message says of its sender."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, export
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from novasched.decisions.record import DecisionRecord, Head
from novasched.decisions.recording import RequestObserver
from novasched.objects.context import RequestContext
from novasched.observability import tracing
from novasched.scheduler.outcomes import Outcome
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

RECORD = DecisionRecord(Head('d-1', 0, result='scheduled'))
TRACE, SPAN = '0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'
UUID = '00000000-0000-4000-8000-b7ad6b716920'
WITHOUT_EXTRA = """
import sys
from novasched.app import preflight
from novasched.observability import tracing
from tests.support.clouds.configuration import make_conf
print('opentelemetry' in sys.modules)
sys.modules['opentelemetry'] = None
conf, observer = make_conf(), object()
print(tracing.warning(conf))
conf.set_override('tracing_endpoint', 'http://localhost:4318', 'novasched')
print([each for each in preflight.warnings(conf) if 'tracing' in each])
print(tracing.from_conf(conf, observer, '', dict) is observer)
"""


class Traced:
    """Traced requests whose spans are kept in memory."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.observer = tracing.TracedRequests(RequestObserver(), self._start, dict)

    def _start(self):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))
        return provider.get_tracer('tests'), provider.shutdown

    def request(self):
        log = Recorded().log
        log.observer = self.observer
        return log.recorder(RequestContext(overwrite=False), factories.request(), None)

    @property
    def spans(self):
        """The names of spans that have ended, with the names of their parents."""
        spans = self.exporter.get_finished_spans()
        names = {span.context.span_id: span.name for span in spans}
        return [(s.name, s.parent and names.get(s.parent.span_id)) for s in spans]


@pytest.fixture
def traced():
    return Traced()


def test_stage_within_another_is_its_child(traced):
    request = traced.request()
    clock = request.clock
    with request.stage('wait'):
        clock.advance(1)
        with request.stage('undo'):
            clock.advance(1)
        clock.advance(1)
    with request.stage('query'):
        clock.advance(1)
    traced.observer.recorded(request, RECORD, 0.0)
    assert sorted(traced.spans) == [
        ('query', 'select_destinations'),
        ('select_destinations', None),
        ('undo', 'wait'),
        ('wait', 'select_destinations'),
    ]


def test_stage_after_the_end_joins_the_trace(traced):
    request = traced.request()
    request.ended((), None)
    traced.observer.recorded(request, RECORD, 0.0)
    with request.stage('undo'):
        pass
    assert traced.spans[1] == ('undo', 'select_destinations')


def test_request_of_many_stages_has_the_first(traced):
    request = traced.request()
    for _ in range(tracing.MOST_STAGES + 5):
        with request.stage('claim'):
            request.clock.advance(1)
    request.rounds = {Outcome.HOST_CHANGED: 2, Outcome.BUSY: 1}
    traced.observer.recorded(request, RECORD, 0.0)
    assert len(traced.spans) == tracing.MOST_STAGES + 1
    root = traced.exporter.get_finished_spans()[-1]
    assert root.attributes['novasched.stages_left_out'] == 5
    assert root.attributes['novasched.rounds'] == 3
    reasons = ('host changed', 'provider busy')
    assert root.attributes['novasched.decided_again'] == reasons


def test_failing_library_costs_no_record(caplog):
    observer = tracing.TracedRequests(RequestObserver(), lambda: 1 // 0, dict)
    for _ in range(2):
        observer.recorded(Traced().request(), RECORD, 0.0)
    assert [each.levelname for each in caplog.records] == ['ERROR']
    observer.close()


@cases(
    'carrier, expected',
    ('nothing', {}, None),
    ('W3C', {'traceparent': f'00-{TRACE}-{SPAN}-01'}, (TRACE, SPAN)),
    ('no W3C', {'traceparent': 'hello'}, None),
    ('a number', {'traceparent': 7, 'tracestate': None}, None),
    ('zeros', {'traceparent': f'00-{"0" * 32}-{SPAN}-01'}, None),
    (
        'osprofiler',
        {'trace_info': {'base_id': TRACE, 'parent_id': UUID}},
        (TRACE, '8000b7ad6b716920'),
    ),
    ('no ids', {'trace_info': {'base_id': 5, 'parent_id': None}}, None),
    ('no dict', {'trace_info': 'x'}, None),
)
def test_parent_is_read_whatever_a_message_says(carrier, expected):
    context = tracing.parent_context(carrier)
    found = trace.get_current_span(context).get_span_context()
    ids = (f'{found.trace_id:032x}', f'{found.span_id:016x}')
    assert (ids if found.is_valid else None) == expected


def test_observer_is_the_same_where_tracing_is_off():
    observer = SimpleNamespace()
    assert tracing.from_conf(make_conf(), observer, '', dict) is observer


def test_nothing_is_imported_unasked_and_a_missing_extra_is_said():
    program = [sys.executable, '-c', WITHOUT_EXTRA]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    is_imported, unset, warned, is_off = done.stdout.splitlines()
    assert (is_imported, unset, is_off) == ('False', 'None', 'True')
    assert warned.startswith("['[novasched] tracing_endpoint is set, but OpenTelem")
    assert warned.endswith("Install novasched[tracing], or unset the option.']")
