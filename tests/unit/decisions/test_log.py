# SPDX-License-Identifier: Apache-2.0
"""Records are made and written beside the requests, which nothing of it can delay."""

import gc
import logging
import threading
import weakref
from collections import Counter

import pytest

from novasched import errors
from novasched.decisions.comparison import (
    Cause,
    KnownBy,
    NovaChoice,
    ServerComparison,
    Verdict,
)
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.fault import FaultText, Level
from novasched.decisions.log import (
    MOST_HELD,
    MOST_WAITING,
    CollectedRecords,
    RecordingLog,
    RequestHistory,
)
from novasched.decisions.pending import BATCH, PendingRecords
from novasched.decisions.record import decode
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import CANDIDATE, RequestObserver
from novasched.decisions.task_thread import DRAIN_S
from novasched.observability import catalogue
from novasched.observability.decisions import DecisionMetrics
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.factories import INSTANCE
from tests.support.records.recordings import Recorded
from tests.unit.observability.recorder import FakeRecorder

PATIENCE_S = 30.0
FULL = NumInstancesFilter(limit=0)


class Store:
    """Keeps the records that it is given, batch by batch.

    It waits for ``gate`` before it takes any, and fails while it ``is_locked``.
    """

    encoded = RecordEncoder()

    def __init__(self):
        self.batches = []
        self.is_locked = False
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.written = threading.Condition()

    def write_encoded(self, records, lost=0):
        self.entered.set()
        self.gate.wait(PATIENCE_S)
        if self.is_locked:
            raise errors.StoreFailed('decisions', 'locked')
        with self.written:
            self.batches.append(list(records))
            self.written.notify_all()

    @property
    def records(self):
        return [record for batch in self.batches for record in batch]

    @property
    def whole(self):
        return [record.body is not None for record in self.records]

    def await_records(self, number):
        """Wait until so many have come."""
        with self.written:
            assert self.written.wait_for(
                lambda: len(self.records) >= number, PATIENCE_S
            )


class Builder(RecordBuilder):
    """Waits for ``gate`` before a record is made; raises ``problem``, of the plugin of
    a large request."""

    def __init__(self, *args):
        super().__init__(*args)
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.problem = SystemExit('of a plugin')

    def record(self, recorder):
        self.entered.set()
        self.gate.wait(PATIENCE_S)
        if recorder.request.memory_mb == 666:
            raise self.problem
        return super().record(recorder)


class Log(RecordingLog):
    """A log with its store, builder and counts."""

    def __init__(self, level=Level.NONE, observer=None, **options):
        self.store, self.counted = Store(), Counter()
        self.builder = Builder(Profile((FULL,), ()))
        self.pending = PendingRecords(self.store, self._count)
        fault = FaultText(self.builder, level)
        super().__init__(
            self.builder, self.pending, SYSTEM_CLOCK, fault, observer, **options
        )

    def _count(self, outcome, number):
        self.counted[outcome] += number


@pytest.fixture
def open_log():
    """Make a log: `open_log(**options)`; it is closed in the end."""
    made = []

    def make(**options):
        made.append(Log(**options))
        return made[-1]

    yield make
    for log in made:
        log.builder.gate.set()
        log.store.gate.set()
        log.close()


@pytest.fixture
def log(open_log):
    return open_log()


def served(log, **options):
    """A manager whose requests go to this log."""
    return Recorded(factories.hosts(count=3), log=log, **options)


@pytest.fixture
def hang(log):
    """Have a store or a builder hang on the first record; return what asks for more."""

    def make(hanging, recorded=None):
        hanging.gate.clear()
        recorded = recorded or served(log)
        recorded.ask()
        assert hanging.entered.wait(PATIENCE_S)
        return recorded

    return make


def await_true(condition):
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not condition():
        assert SYSTEM_CLOCK.monotonic() < deadline
        threading.Event().wait(0.01)


def test_a_record_is_written_soon(log):
    served(log).ask()
    began = SYSTEM_CLOCK.monotonic()
    log.store.await_records(1)
    assert SYSTEM_CLOCK.monotonic() - began < 5
    (record,) = log.store.records
    assert record.is_success
    assert decode(record.body)['decisions'][0]['host'] == 'h1'


@pytest.mark.parametrize('level', Level)
def test_a_failed_request_is_let_go_at_once(open_log, level):
    log = open_log(level=level)
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


class History(RequestHistory):
    """Counts what it is given."""

    def __init__(self):
        self.calls = Counter()

    def add(self, recorder):
        self.calls['add'] += 1

    def drop(self):
        self.calls['drop'] += 1

    def flush(self):
        self.calls['flush'] += 1

    def close(self):
        self.calls['close'] += 1


def test_request_is_recorded_whole_or_counted_as_dropped(open_log):
    history = History()
    log = open_log(history=history)
    log.builder.gate.clear()
    recorded = served(log)
    for _ in range(MOST_WAITING + 3):
        recorded.ask()
    assert history.calls['drop'] > 0
    log.builder.gate.set()
    log.close()
    assert history.calls['add'] + history.calls['drop'] == MOST_WAITING + 3
    assert history.calls['flush'] > 0
    assert history.calls['close'] == 1


def test_closing_without_requests_starts_no_thread(log):
    before = set(threading.enumerate())
    log.close()
    log.close()
    assert set(threading.enumerate()) <= before
    assert log.store.records == []


def test_closing_writes_what_has_come_and_what_comes_later(log):
    recorded = served(log)
    for _ in range(3):
        recorded.ask()
    log.close()
    assert len(log.store.records) == 3
    recorded.ask()
    assert len(log.store.records) == 4


@pytest.mark.parametrize('part', ['store', 'builder'])
def test_closing_does_not_wait_long_for_what_hangs(log, hang, part):
    hang(getattr(log, part))
    began = SYSTEM_CLOCK.monotonic()
    log.close()
    assert SYSTEM_CLOCK.monotonic() - began < 2 * DRAIN_S + 5


def test_failed_write_is_repeated_without_another_record(log):
    log.store.is_locked = True
    served(log).ask()
    assert log.store.entered.wait(PATIENCE_S)
    log.store.is_locked = False
    log.store.await_records(1)


@pytest.mark.parametrize('is_locked', [False, True])
def test_closing_tries_at_once_what_failed(log, caplog, is_locked):
    log.store.is_locked = True
    served(log).ask()
    assert log.store.entered.wait(PATIENCE_S)
    log.store.is_locked = is_locked
    log.close()
    assert len(log.store.records) == (not is_locked)
    said = '1 records of decisions are not written at the end'
    assert (said in caplog.text) == is_locked


def test_many_records_are_written_together_in_order(log, hang):
    recorded = hang(log.store)
    for _ in range(2 * BATCH):
        recorded.ask()
    await_true(lambda: len(log.pending) == 2 * BATCH + 1)
    log.store.gate.set()
    log.store.await_records(2 * BATCH + 1)
    assert [len(batch) for batch in log.store.batches] == [1, BATCH, BATCH]
    ids = [record.id for record in log.store.records]
    assert ids == sorted(ids)


def test_a_full_queue_reduces_records_to_their_heads(log, hang):
    recorded = hang(log.builder)
    for _ in range(MOST_WAITING + 2):
        recorded.ask()
    log.store.await_records(3)  # they wait for no plugin
    log.builder.gate.set()
    log.store.await_records(MOST_WAITING + 3)
    assert log.store.whole == [False] * 3 + [True] * MOST_WAITING
    for record in log.store.records[:3]:
        assert record.is_reduced
        assert [host for _, host in record.servers] == ['h1']
    log.close()
    assert log.counted == {'reduced': 3, 'written': MOST_WAITING}


def test_large_requests_are_reduced_instead_of_queued(log, hang):
    hosts = factories.hosts(count=MOST_HELD // (4 * (CANDIDATE + 1)))
    recorded = hang(log.builder, Recorded(hosts, log=log))
    for _ in range(6):
        recorded.ask()
    log.builder.gate.set()
    log.store.await_records(7)
    assert log.store.whole.count(True) == 4


@pytest.mark.parametrize('part', ['store', 'builder'])
def test_hanging_part_delays_no_request(log, hang, part):
    recorded = hang(getattr(log, part))
    began = SYSTEM_CLOCK.monotonic()
    for _ in range(50):
        recorded.ask()
    assert SYSTEM_CLOCK.monotonic() - began < 10
    assert log.store.records == []


def test_while_the_disk_stalls_no_request_stays_in_memory(log, hang):
    recorded, recorders = hang(log.store), []
    take_in = log._take_in

    def watched(recorder):
        recorders.append(weakref.ref(recorder))
        take_in(recorder)

    log._take_in = watched
    for _ in range(MOST_WAITING + BATCH):
        recorded.ask()
        if len(recorders) % BATCH == 0:
            await_true(lambda: len(log.pending) == len(recorders) + 1)
    assert log.store.records == []
    gc.collect()
    assert not any(each() for each in recorders)
    assert 0 < log.pending.waits_s < PATIENCE_S
    assert log.waits_s == 0
    log.store.gate.set()
    log.close()
    assert log.counted == {'written': len(recorders) + 1}
    assert all(log.store.whole)
    assert log.pending.waits_s == 0


def test_of_a_record_that_cannot_be_made_the_head_is_kept(log, caplog):
    recorded = served(log)
    recorded.ask()
    recorded.ask(memory_mb=666)
    recorded.ask()
    log.store.await_records(3)
    assert 'is stored without its body' in caplog.text
    assert all(record.is_success for record in log.store.records)
    assert log.store.whole == [True, False, True]
    log.close()
    assert log.counted == {'written': 2, 'reduced': 1}


def test_an_observer_that_raises_costs_its_record_alone(open_log, caplog):
    class Odd(RequestObserver):
        def recorded(self, recorder, record, took_s):
            if record.head.zone == 'odd':
                raise RuntimeError

    log = open_log(observer=Odd())
    recorded = served(log)
    recorded.ask(availability_zone='odd')
    recorded.ask()
    log.store.await_records(1)
    assert 'No record can be made of request' in caplog.text
    assert log.counted['lost'] == 1


@pytest.mark.parametrize(
    ('filters', 'whole'), [([], False), ([FULL], True)], ids=['scheduled', 'refused']
)
def test_reduced_record_asks_no_filter_for_reasons(open_log, filters, whole):
    log = open_log(keeps=lambda result: result != 'scheduled')
    recorded = served(log, filters=filters)
    if whole:
        recorded.refused()
    else:
        recorded.ask()
    log.store.await_records(1)
    (record,) = log.store.records
    assert (record.is_success, log.store.whole) == (not whole, [whole])
    assert len(record.servers) == 1


def test_a_failure_is_logged_in_one_line(log, caplog):
    caplog.set_level(logging.INFO, 'novasched.decisions')
    served(log, filters=[FULL]).refused()
    served(log).ask()
    log.store.await_records(2)
    (line,) = [m for m in caplog.messages if m.startswith('No valid host: ')]
    assert ' blocker=filters plugin=NumInstancesFilter code=too-many-instances ' in line


def test_error_ends_with_the_id_of_its_record(open_log):
    log = open_log(level=Level.USER)
    text = served(log, filters=[FULL]).refused()
    log.store.await_records(1)
    assert text.endswith(f'({log.store.records[0].id})')


def test_inexplicable_failure_has_novas_text(open_log, caplog):
    log = open_log(level=Level.ADMIN)
    log.builder.outlines = lambda recorder: 1 // 0
    text = served(log, filters=[FULL]).refused()
    assert text == 'No valid host was found. There are not enough hosts available.'
    assert 'cannot be given' in caplog.text


@pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')
def test_thread_that_a_plugin_ended_is_replaced_without_its_request(log):
    class Ending(RequestObserver):
        def recorded(self, *args):
            raise SystemExit

    recorded, log._observer = served(log), Ending()
    recorded.ask()
    await_true(lambda: not log._waiting)
    log._maker.thread.join(PATIENCE_S)
    log._observer = RequestObserver()
    recorded.ask()
    log.store.await_records(1)


def test_it_is_known_for_how_long_a_request_waits(log, hang):
    assert log.waits_s == 0
    hang(log.builder)
    first_s = log.waits_s
    assert 0 < first_s < PATIENCE_S
    assert log.waits_s > first_s
    log.builder.gate.set()
    log.store.await_records(1)
    await_true(lambda: log.waits_s == 0)


def test_recording_fails_no_request(log, caplog):
    def queue(recorder):
        raise MemoryError

    log._queue = queue
    recorded = served(log)
    for _ in range(3):
        assert recorded.ask()
    assert log.counted == {'lost': 3}
    assert caplog.text.count('leaves no record') == 1


def test_other_green_threads_go_on_after_each_record(open_log):
    slept = []
    log = open_log(sleep=slept.append)
    recorded = served(log)
    for _ in range(4):
        recorded.ask()
    log.close()
    assert slept == [0] * 4


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


def test_comparisons_outlive_the_bodies_of_their_records(open_log):
    counted = FakeRecorder()
    observer = DecisionMetrics(counted)
    log = open_log(observer=observer, keeps=lambda result: result != 'scheduled')
    recorded, take_in = served(log), log._take_in
    chosen = NovaChoice('h2', KnownBy.ALLOCATION)

    def compared(ended):
        ended.compared = [
            ServerComparison(INSTANCE, 'h1', chosen, Verdict.BETTER, Cause.LATE)
        ]
        take_in(ended)

    log._take_in = compared
    recorded.ask()
    log.store.await_records(1)
    (record,) = log.store.records
    assert (record.body, len(record.compared)) == (None, 1)
    assert counted.counts[catalogue.COMPARED.name, 'better'] == 1
    assert counted.counts[catalogue.DIFFERENCES.name, 'late'] == 1


def test_request_that_cannot_be_kept_whole_leaves_its_record(open_log, caplog):
    log = open_log(whole=lambda recorder: 1 // 0)
    recorded = served(log)
    take_in = log._take_in

    def keep(recorder):
        recorder.is_kept_whole = True
        take_in(recorder)

    log._take_in = keep
    recorded.ask()
    log.store.await_records(1)
    assert (log.store.whole, log.store.records[0].whole) == ([True], None)
    assert 'is not kept whole' in caplog.text


def test_no_request_is_kept_whole_unless_a_shadow_says_so(open_log):
    log = open_log(whole=lambda recorder: b'whole')
    served(log).ask()
    log.store.await_records(1)
    assert log.store.records[0].whole is None
