# SPDX-License-Identifier: Apache-2.0
"""A composed scheduler sends a trace of each request to a collector."""

import contextlib
import itertools
import logging
import time
import uuid
from pathlib import Path

import pytest

from novasched import errors
from novasched.decisions import files, task_thread
from novasched.decisions.reading import DecisionFiles
from novasched.objects.context import RequestContext
from novasched.observability import tracing
from novasched.observability.tracing import CLOSE_S
from tests.functional.conftest import Host, new_uuids
from tests.live.servers.process import free_port
from tests.support.servers.collectors import Collector, attributes
from tests.support.suite.waiting import eventually

HOSTS = [Host('h1'), Host('h2', cell='cell2')]
TRACE, SPAN = uuid.uuid4(), uuid.uuid4()
LAST_HALF = SPAN.hex[16:]
SLACK_MS = 0.01
LONG_S = 60.0
"""A busy machine may need long until all is sent, where nothing hangs."""
BUSY_S = 6.0
"""So much longer than it may wait a stop may take on a busy machine."""
REQUESTS = 5


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """The end of a scheduler waits until its records and spans are there."""
    monkeypatch.setattr(task_thread, 'DRAIN_S', LONG_S)
    monkeypatch.setattr(tracing, 'CLOSE_S', LONG_S)


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector
        collector.is_open.set()


@pytest.fixture
def traced(cloud, collector):
    """Make a cloud whose schedulers send traces to the collector."""

    def make(url=None, hosts=HOSTS, **options):
        options = {'tracing_endpoint': url or collector.url, **options}
        return cloud(hosts, novasched=options)

    return make


def ask(made, scheduler, count=1, **request):
    with contextlib.suppress(errors.NoValidHost):
        made.ask(scheduler, new_uuids(count), **request)


def took_ms(span):
    return (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6


def record_of(made, root):
    reader = DecisionFiles(Path(files.from_conf(made.conf).path))
    return reader.read(attributes(root)['novasched.decision'])


@pytest.mark.parametrize(
    'sent',
    [
        {'traceparent': f'00-{TRACE.hex}-{LAST_HALF}-01', 'tracestate': 'a=b'},
        {'trace_info': {'base_id': str(TRACE), 'parent_id': str(SPAN), 'hmac_key': ''}},
    ],
    ids=['W3C', 'osprofiler'],
)
def test_boot_continues_the_trace_of_its_sender(traced, collector, sent):
    made = traced()
    scheduler = made.serve()
    context = {**RequestContext(overwrite=False).to_dict(), **sent}
    made.client.select_destinations(context, made.request(), new_uuids(2))
    scheduler.stop()
    assert collector.paths == {tracing.PATH}
    assert {span.trace_id for span, _ in collector.spans} == {TRACE.bytes}
    (root,) = collector.named('select_destinations')
    assert root.parent_span_id.hex() == LAST_HALF
    record = record_of(made, root)
    found = attributes(root)
    assert found['openstack.request_id'] == context['request_id']
    assert found['novasched.flavor'] == record.head.flavor
    assert (found['novasched.servers'], found['novasched.result']) == (2, 'scheduled')
    assert not root.status.code
    (sender,) = {each['service.instance.id'] for _, each in collector.spans}
    assert sender == record.head.worker


def test_spans_of_stages_add_up_to_the_request(traced, collector):
    made = traced()
    scheduler = made.compose()
    for _ in range(REQUESTS):
        ask(made, scheduler, 2)
    scheduler.close()
    roots = collector.named('select_destinations')
    assert len(roots) == REQUESTS
    # A busy machine may hold a request up between two stages, but not each of them.
    assert max(add_up(root, collector, record_of(made, root)) for root in roots) > 0.5


def add_up(root, collector, record):
    """See that the spans of a request fit each other and its record; return which
    share of it its stages took."""
    assert not root.parent_span_id
    spans = [span for span, _ in collector.spans if span.trace_id == root.trace_id]
    by_id = {span.span_id: span for span in spans}
    stages = [span for span in spans if span is not root]
    sums_ms = {}
    for span in stages:
        around = by_id[span.parent_span_id]
        assert around.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= around.end_time_unix_nano
        sums_ms[span.name] = sums_ms.get(span.name, 0.0) + took_ms(span)
    assert {'prefilter', 'query', 'filter', 'score', 'claim', 'notify'} <= set(sums_ms)
    for name, stage_ms in record.body.stages_ms.items():
        assert sums_ms[name] == pytest.approx(stage_ms, abs=1.0), name
    top = [span for span in stages if span.parent_span_id == root.span_id]
    top.sort(key=lambda span: span.start_time_unix_nano)
    for before, after in itertools.pairwise(top):
        assert before.end_time_unix_nano <= after.start_time_unix_nano + 1000
    assert took_ms(root) == pytest.approx(record.head.took_us / 1000, abs=SLACK_MS)
    took_by_stages_ms = sum(map(took_ms, top))
    assert took_by_stages_ms <= took_ms(root) + SLACK_MS
    return took_by_stages_ms / took_ms(root)


def test_refused_request_is_an_error_with_its_blocker(traced, collector):
    made = traced()
    scheduler = made.compose()
    ask(made, scheduler, memory_mb=10**6)
    scheduler.close()
    (root,) = collector.named('select_destinations')
    assert attributes(root)['novasched.blocker'] == 'no-candidates'
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert root.status.message == record_of(made, root).head.why


@pytest.fixture
def sent_soon(monkeypatch):
    """Have OpenTelemetry send small batches at once."""
    monkeypatch.setenv('OTEL_BSP_SCHEDULE_DELAY', '10')
    monkeypatch.setenv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '8')


@pytest.mark.scenario('F52', 'I7')
@pytest.mark.parametrize('is_hung', [True, False], ids=['hung', 'unavailable'])
@pytest.mark.usefixtures('sent_soon')
def test_no_request_and_no_stop_waits_for_the_collector(
    traced, collector, is_hung, monkeypatch
):
    monkeypatch.setenv('OTEL_BSP_MAX_QUEUE_SIZE', '16')
    monkeypatch.setattr(tracing, 'CLOSE_S', CLOSE_S)
    monkeypatch.setattr(tracing, 'EXPORT_S', LONG_S)  # no batch is sent again
    collector.is_open.clear()
    made = traced(None if is_hung else f'http://127.0.0.1:{free_port()}')
    scheduler = made.compose()
    ask(made, scheduler)
    if is_hung:
        eventually(lambda: collector.asked)
    for _ in range(10):  # more spans than may wait
        ask(made, scheduler)
    assert len(made.held()) == 11
    assert (collector.asked, collector.spans) == (int(is_hung), [])
    before_s = time.monotonic()
    scheduler.close()
    assert time.monotonic() - before_s < CLOSE_S + BUSY_S


@pytest.mark.scenario('F52')
@pytest.mark.usefixtures('sent_soon')
def test_collector_that_refuses_traces_is_logged_once(traced, collector, caplog):
    caplog.set_level(logging.INFO)
    url = f'{collector.url}{tracing.PATH}'
    made = traced()
    scheduler = made.compose()
    collector.status = 400
    for _ in range(2):
        asked = collector.asked
        ask(made, scheduler)
        eventually(lambda asked=asked: collector.asked > asked)
    collector.status = 200
    ask(made, scheduler)
    eventually(lambda: f'{url} takes traces again' in caplog.messages)
    assert caplog.messages.count(f'{url} takes no traces; they are lost') == 1
    assert not [r for r in caplog.records if r.name.startswith('opentelemetry')]


def test_share_of_none_traces_only_what_its_sender_traced(traced, collector):
    made = traced(tracing_share=0.0)
    scheduler = made.serve()
    context = RequestContext(overwrite=False).to_dict()
    for flag in ('00', '01'):
        sent = {'traceparent': f'00-{TRACE.hex}-{LAST_HALF}-{flag}'}
        made.client.select_destinations(
            {**context, **sent}, made.request(), new_uuids()
        )
    ask(made, scheduler)
    scheduler.stop()
    assert len(collector.named('select_destinations')) == 1
