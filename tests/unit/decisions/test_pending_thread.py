# SPDX-License-Identifier: Apache-2.0
"""Records are written in a thread of their own, so that a disk delays nothing else."""

import gc
import threading
import weakref
from collections import Counter

from novasched import errors
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.fault import FaultText
from novasched.decisions.log import AT_ONCE, MOST_WAITING, RecordingLog
from novasched.decisions.pending import PendingRecords, WritingThread
from novasched.decisions.record_builder import RecordBuilder
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.records.recordings import Recorded
from tests.support.records.stored_records import make_record

PATIENCE_S = 30.0


class Locked:
    """A store that fails until it is let go."""

    encoded = RecordEncoder()

    def __init__(self):
        self.is_locked = True
        self.kept = []
        self.written = threading.Event()
        self.refused = threading.Event()

    def write_encoded(self, records, lost=0):
        if self.is_locked:
            self.refused.set()
            raise errors.StoreFailed('decisions', 'locked')
        self.kept += [record.id for record in records]
        self.written.set()


def test_failed_write_is_repeated_without_another_record():
    store, counted = Locked(), []
    pending = PendingRecords(store, lambda outcome, number: counted.append(outcome))
    writing = WritingThread(pending)
    writing.write([make_record()])
    assert store.refused.wait(PATIENCE_S)
    store.is_locked = False
    assert store.written.wait(PATIENCE_S)
    assert len(store.kept) == 1
    writing.close()
    assert counted == ['written']


def test_closing_tries_at_once_what_failed():
    store, counted = Locked(), []
    pending = PendingRecords(store, lambda outcome, number: counted.append(outcome))
    writing = WritingThread(pending)
    writing.write([make_record()])
    assert store.refused.wait(PATIENCE_S)
    store.is_locked = False
    writing.close()
    assert (len(store.kept), counted) == (1, ['written'])


def test_record_after_closing_is_written():
    store = Locked()
    store.is_locked = False
    writing = WritingThread(PendingRecords(store, lambda outcome, number: None))
    writing.close()
    writing.write([make_record()])
    assert len(store.kept) == 1


def test_records_unwritten_at_the_end_are_logged(caplog):
    writing = WritingThread(PendingRecords(Locked(), lambda outcome, number: None))
    writing.write([make_record(), make_record()])
    writing.close()
    assert '2 records of decisions are not written at the end' in caplog.text


class Stalled:
    """A store whose writes wait for ``gate``, as those to a disk that stalls."""

    encoded = RecordEncoder()

    def __init__(self):
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.kept = []

    def write_encoded(self, records, lost=0):
        self.entered.set()
        self.gate.wait(PATIENCE_S)
        self.kept += records


def await_true(condition):
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE_S
    while not condition():
        assert SYSTEM_CLOCK.monotonic() < deadline
        threading.Event().wait(0.01)


def test_while_the_disk_stalls_no_request_stays_in_memory():
    store, counted = Stalled(), Counter()

    def count(outcome, number):
        counted[outcome] += number

    pending = PendingRecords(store, count)
    builder = RecordBuilder(Profile((), ()))
    log = RecordingLog(
        builder, WritingThread(pending), SYSTEM_CLOCK, FaultText(builder)
    )
    recorded = Recorded(factories.hosts(count=3), log=log)
    number, recorders = MOST_WAITING + AT_ONCE, []
    take_in = log._take_in

    def watched(recorder):
        recorders.append(weakref.ref(recorder))
        take_in(recorder)

    log._take_in = watched
    for _ in range(number):
        recorded.ask()
        if len(recorders) % AT_ONCE == 0:
            await_true(lambda: len(pending) == len(recorders))
    assert store.entered.is_set()
    assert store.kept == []
    gc.collect()
    assert not any(each() for each in recorders)
    assert 0 < pending.waits_s < PATIENCE_S
    await_true(lambda: log.waits_s == 0)
    store.gate.set()
    log.close()
    assert counted == {'written': number}
    assert all(record.body for record in store.kept)
    assert pending.waits_s == 0
