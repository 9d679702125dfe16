# SPDX-License-Identifier: Apache-2.0
"""Records are made beside the requests, which nothing of it can delay or break."""

import gc
import logging
import threading
import weakref

import pytest

from novasched import errors
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.fault import FaultText, Level
from novasched.decisions.log import (
    AT_ONCE,
    MOST_HELD,
    MOST_REDUCED,
    MOST_WAITING,
    CollectedRecords,
    RecordingLog,
)
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import CANDIDATE, RequestObserver
from novasched.decisions.task_thread import DRAIN_S
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.records.recordings import Recorded

PATIENCE_S = 30.0
FULL = NumInstancesFilter(limit=0)


class Sink:
    """Keeps the records that it is given, batch by batch.

    It raises ``problem``, if it has one, and waits for ``gate`` before it takes any.
    """

    def __init__(self, problem=None):
        self.batches = []
        self.lost = 0
        self.problem = problem
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.written = threading.Condition()

    def count_lost(self, records):
        self.lost += records

    def close(self):
        pass

    def write(self, records):
        self.entered.set()
        self.gate.wait(PATIENCE_S)
        with self.written:
            self.batches.append(list(records))
            self.written.notify_all()
        if self.problem is not None:
            raise self.problem

    @property
    def records(self):
        return [record for batch in self.batches for record in batch]

    def await_records(self, number):
        """Wait until so many have come."""
        with self.written:
            assert self.written.wait_for(
                lambda: len(self.records) >= number, PATIENCE_S
            )


class Observer(RequestObserver):
    """Keeps what it hears; ``problem`` is raised."""

    def __init__(self, problem=None):
        self.heard = []
        self.problem = problem

    def recorded(self, record, took_s, outlines, rounds):
        self.heard.append((record.head.id, took_s))
        if self.problem is not None:
            raise self.problem


class Unmakeable(RecordBuilder):
    """Cannot make the records of some requests."""

    def record(self, recorder):
        if recorder.request.memory_mb == 666:
            raise SystemExit('of a plugin')
        return super().record(recorder)


@pytest.fixture
def open_log():
    """Make a log: `open_log(sink, **options)`; it is closed in the end."""
    made = []

    def make(sink, level=Level.NONE, builder=RecordBuilder, **options):
        builder = builder(Profile((FULL,), ()))
        fault = FaultText(builder, level)
        made.append(RecordingLog(builder, sink, SYSTEM_CLOCK, fault, **options))
        return made[-1]

    yield make
    for log in made:
        log.close()


def served(log, **options):
    """A manager whose requests go to this log."""
    return Recorded(factories.hosts(count=3), log=log, **options)


@pytest.fixture
def hung(open_log):
    """Make a sink that hangs on its first record, its log, and who makes records."""

    def make(make_recorded=served, **options):
        sink = Sink()
        sink.gate.clear()
        log = open_log(sink, **options)
        recorded = make_recorded(log)
        recorded.ask()
        assert sink.entered.wait(PATIENCE_S)
        return sink, log, recorded

    return make


def test_a_record_is_written_soon(open_log):
    sink = Sink()
    served(open_log(sink)).ask()
    began = SYSTEM_CLOCK.monotonic()
    sink.await_records(1)
    assert SYSTEM_CLOCK.monotonic() - began < 5
    (record,) = sink.records
    assert record.head.result == 'scheduled'
    assert record.body['decisions'][0]['host'] == 'h1'


@pytest.mark.parametrize('level', Level)
def test_a_failed_request_is_let_go_at_once(open_log, level):
    log = open_log(Sink(), level=level)
    recorded = served(log, filters=[FULL])
    gc.collect()
    gc.disable()
    try:
        recorded.refused()
        held = weakref.ref(log._waiting[-1])
        log.close()
        assert held() is None
    finally:
        gc.enable()


def test_no_thread_runs_before_there_is_a_request(open_log):
    before = set(threading.enumerate())
    open_log(Sink())
    assert set(threading.enumerate()) <= before


def test_closing_writes_what_has_come(open_log):
    sink = Sink()
    log = open_log(sink)
    recorded = served(log)
    for _ in range(3):
        recorded.ask()
    log.close()
    assert len(sink.records) == 3


def test_closing_a_log_without_requests_is_nothing(open_log):
    sink = Sink()
    log = open_log(sink)
    log.close()
    log.close()
    assert sink.records == []


def test_closing_does_not_wait_long_for_a_store_that_hangs(hung):
    sink, log, _ = hung()
    began = SYSTEM_CLOCK.monotonic()
    log.close()
    assert SYSTEM_CLOCK.monotonic() - began < DRAIN_S + 5
    sink.gate.set()


def test_many_records_are_written_together_in_order(hung):
    sink, _, recorded = hung()
    for _ in range(100):
        recorded.ask()
    sink.gate.set()
    sink.await_records(101)
    times = [record.head.at for record in sink.records]
    assert times == sorted(times)
    assert max(map(len, sink.batches)) == AT_ONCE


def test_a_full_queue_reduces_records_to_their_heads(hung):
    sink, _, recorded = hung()
    for _ in range(MOST_WAITING + 3):
        recorded.ask()
    sink.gate.set()
    sink.await_records(MOST_WAITING + 4)
    whole = [record for record in sink.records if 'decisions' in record.body]
    heads = [record for record in sink.records if 'decisions' not in record.body]
    assert (len(whole), len(heads)) == (MOST_WAITING + 1, 3)
    for record in heads:
        assert record.head.result == 'scheduled'
        assert record.head.candidates == 3
        assert [each['host'] for each in record.body['servers']] == ['h1']
        assert RecordEncoder()(record).is_reduced
    assert sink.lost == 0


def test_heads_are_lost_when_very_many_wait(hung):
    sink, log, recorded = hung()
    recorder = log.recorder(recorded.context, factories.request(), None)
    for _ in range(MOST_WAITING + MOST_REDUCED + 5):
        recorder.ended([], None)
    assert sink.lost == 5
    sink.gate.set()


def test_a_store_that_hangs_delays_no_request(hung):
    sink, _, recorded = hung()
    began = SYSTEM_CLOCK.monotonic()
    for _ in range(50):
        recorded.ask()
    assert SYSTEM_CLOCK.monotonic() - began < 10
    assert sink.records == []
    sink.gate.set()


def test_a_store_that_raises_loses_these_records_only(open_log, caplog):
    sink = Sink(OSError('odd'))
    recorded = served(open_log(sink))
    recorded.ask()
    sink.await_records(1)
    sink.problem = None
    recorded.ask()
    sink.await_records(2)
    assert sink.lost == 1
    assert '1 records are lost' in caplog.text


def test_of_a_record_that_cannot_be_made_the_head_is_kept(open_log, caplog):
    sink = Sink()
    recorded = served(open_log(sink, builder=Unmakeable))
    recorded.ask()
    recorded.ask(memory_mb=666)
    recorded.ask()
    sink.await_records(3)
    assert sink.lost == 0
    assert 'is stored without its body' in caplog.text
    assert [record.head.result for record in sink.records] == ['scheduled'] * 3
    assert [set(r.body) == {'servers'} for r in sink.records] == [False, True, False]


def test_large_requests_are_reduced_instead_of_queued(hung):
    hosts = factories.hosts(count=MOST_HELD // (4 * (CANDIDATE + 1)))
    sink, log, recorded = hung(lambda log: Recorded(hosts, log=log))
    for _ in range(6):
        recorded.ask()
    sink.gate.set()
    sink.await_records(7)
    log.close()
    whole = [record for record in sink.records if 'decisions' in record.body]
    assert len(whole) == 1 + 4


def test_an_observer_that_raises_harms_no_request(open_log):
    sink, observer = Sink(), Observer(RuntimeError())
    sink.gate.clear()
    log = open_log(sink, observer=observer)
    recorded = served(log)
    recorder = log.recorder(recorded.context, factories.request(), None)
    while sink.lost == 0:  # until it is heard of in the thread of a request
        recorder.ended([], None)
    observer.problem = None
    recorded.ask()
    sink.gate.set()


@pytest.mark.parametrize(
    ('result', 'filters', 'whole'),
    [('scheduled', [], False), ('unschedulable', [FULL], True)],
)
def test_reduced_record_asks_no_filter_for_reasons(open_log, result, filters, whole):
    sink = Sink()
    log = open_log(sink, keeps=lambda result: result != 'scheduled')
    recorded = served(log, filters=filters)
    try:
        recorded.ask()
    except errors.NoValidHost:
        assert result == 'unschedulable'
    sink.await_records(1)
    (record,) = sink.records
    assert record.head.result == result
    assert ('decisions' in record.body) == whole
    assert len(record.body['servers']) == 1


def test_a_failure_is_logged_in_one_line(open_log, caplog):
    caplog.set_level(logging.INFO, 'novasched.decisions')
    sink = Sink()
    recorded = served(open_log(sink), filters=[FULL])
    with pytest.raises(errors.NoValidHost):
        recorded.ask()
    served(open_log(sink)).ask()
    sink.await_records(2)
    (line,) = [m for m in caplog.messages if m.startswith('No valid host: ')]
    assert ' blocker=filters plugin=NumInstancesFilter code=too-many-instances ' in line


def test_error_ends_with_the_id_of_its_record(open_log):
    sink = Sink()
    recorded = served(open_log(sink, level=Level.USER), filters=[FULL])
    text = recorded.refused()
    sink.await_records(1)
    assert text.endswith(f'({sink.records[0].head.id})')


def test_inexplicable_failure_has_novas_text(open_log, caplog):
    class Inexplicable(RecordBuilder):
        def outlines(self, recorder):
            raise ZeroDivisionError

    log = open_log(Sink(), level=Level.ADMIN, builder=Inexplicable)
    text = served(log, filters=[FULL]).refused()
    assert text == 'No valid host was found. There are not enough hosts available.'
    assert 'cannot be given' in caplog.text


@pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')
def test_a_thread_that_was_ended_is_replaced(open_log):
    sink = Sink(SystemExit('of a plugin'))
    log = open_log(sink)
    recorded = served(log)
    recorded.ask()
    sink.await_records(1)
    log._thread.thread.join(PATIENCE_S)
    sink.problem = None
    recorded.ask()
    sink.await_records(2)
    sink.problem = SystemExit()
    recorded.ask()
    sink.await_records(3)
    log._thread.thread.join(PATIENCE_S)
    sink.problem = None
    log._queue(log.recorder(recorded.context, factories.request(), None))
    log.close()
    assert len(sink.records) == 4


def test_it_is_known_for_how_long_a_request_waits(open_log):
    sink = Sink()
    sink.gate.clear()
    log = open_log(sink)
    recorded = served(log)
    assert log.waits_s == 0
    recorded.ask()
    assert sink.entered.wait(PATIENCE_S)
    first_s = log.waits_s
    assert 0 < first_s < PATIENCE_S
    assert log.waits_s > first_s
    sink.gate.set()
    sink.await_records(1)
    log.close()
    assert log.waits_s == 0


def test_recording_fails_no_request(open_log, caplog):
    class Odd(RecordingLog):
        def _queue(self, recorder):
            raise MemoryError

    sink = Sink()
    builder = RecordBuilder(Profile((), ()))
    log = Odd(builder, sink, SYSTEM_CLOCK, FaultText(builder))
    recorded = served(log)
    for _ in range(3):
        assert recorded.ask()
    assert sink.lost == 3
    assert caplog.text.count('leaves no record') == 1


def test_other_green_threads_go_on_after_each_record(hung):
    slept = []
    sink, _, recorded = hung(sleep=slept.append)
    for _ in range(4):
        recorded.ask()
    sink.gate.set()
    sink.await_records(5)
    assert slept == [0] * 5


def test_dry_runs_have_their_records_at_once():
    log = CollectedRecords(RecordBuilder(Profile((), ())), SYSTEM_CLOCK)
    recorded = served(log)
    recorded.ask()
    recorded.ask()
    assert [record.head.result for record in log.records] == ['scheduled'] * 2
    assert [each.id for each in log.recorders] == [r.head.id for r in log.records]
    log.clear()
    log.close()
    assert (log.records, log.recorders) == ([], [])
