# SPDX-License-Identifier: Apache-2.0
"""Records wait while they cannot be written; then they are, in their order."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from novasched import errors
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.pending import BATCH, LOG_EVERY_S, RETRY_S, PendingRecords
from novasched.decisions.record import DecisionRecord
from tests.support.records.stored_records import SetClock, make_record


class PlayedStore:
    """A store that can be away; ``transactions`` are the ids of each."""

    def __init__(self):
        self.is_unavailable = False
        self.problem = None
        self.tried = 0
        self.lost = 0
        self.transactions = []

    encoded = RecordEncoder()

    def write_encoded(self, records, lost=0):
        self.tried += 1
        if self.is_unavailable:
            raise errors.StoreFailed('the decision log', 'database is locked')
        if self.problem is not None:
            raise self.problem
        self.lost += lost
        self.transactions.append([record.id for record in records])

    def ids(self):
        return [one for each in self.transactions for one in each]


@pytest.fixture
def store():
    return PlayedStore()


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def counted():
    return Counter()


@pytest.fixture
def pending(store, clock, counted):
    return make(store, clock, counted)


def make(store, clock, counted, **options):
    def count(outcome, number):
        counted[outcome] += number

    return PendingRecords(store, count, clock, **options)


def ids_of(records):
    return [record.head.id for record in records]


def test_records_are_written_together(pending, store, counted):
    records = [make_record() for _ in range(BATCH + 1)]
    pending.write(records)
    assert [len(each) for each in store.transactions] == [BATCH, 1]
    assert store.ids() == ids_of(records)
    assert counted == {'written': BATCH + 1}
    assert len(pending) == 0


def test_without_records_nothing_is_written(pending, store):
    pending.write(())
    assert store.tried == 0


def test_a_head_alone_counts_as_reduced(pending, counted):
    pending.write([DecisionRecord(make_record().head), make_record()])
    assert counted == {'written': 1, 'reduced': 1}


def test_records_wait_and_are_written_in_order(pending, store, clock, counted):
    store.is_unavailable = True
    records = [make_record(host=host) for host in ('a', None, 'b', None)]
    for record in records:
        pending.write([record])
    assert (store.tried, len(pending), counted) == (1, 4, {})
    assert 'database is locked' in str(pending.problem)
    store.is_unavailable = False
    pending.write(())
    assert store.transactions == []
    clock.go_on(RETRY_S)
    pending.write(())
    assert store.ids() == ids_of(records)
    assert (counted, pending.problem) == ({'written': 4}, None)


def test_the_oldest_successes_go_first(store, clock, counted):
    records = [make_record(host=host) for host in ('a', None, 'b', None, 'c')]
    most = 4 * RecordEncoder()(records[1]).size + 40
    pending = make(store, clock, counted, most_bytes=most)
    store.is_unavailable = True
    pending.write(records)
    assert counted == {'lost': 1}
    pending.write([make_record(host=None) for _ in range(2)])
    assert counted == {'lost': 3}
    pending.write([make_record(host=None)])
    assert counted == {'lost': 4}
    store.is_unavailable = False
    clock.go_on(RETRY_S)
    pending.write(())
    assert store.ids()[0] == records[3].head.id
    assert len(store.ids()) == 4


def test_a_list_of_hosts_counts_once_for_all_records_that_have_it(
    store, clock, counted
):
    def record(key):
        names = [f'{key}-{random.random()}' for _ in range(5000)]
        return make_record(host_lists={key: names})

    one, other = record('one'), record('other')
    large = sum(map(len, RecordEncoder()(one).shared.values()))
    pending = make(store, clock, counted, most_bytes=int(2.5 * large))
    store.is_unavailable = True
    pending.write([one, *[replace(one, head=make_record().head) for _ in range(9)]])
    pending.write([other])
    assert (len(pending), counted) == (11, {})
    pending.write([record('third')])
    assert (len(pending), counted) == (2, {'lost': 10})
    store.is_unavailable = False
    clock.go_on(RETRY_S)
    pending.write(())
    assert pending._bytes == 0


def test_record_under_a_hung_write_is_not_lost(store, clock, counted):
    """While a write hangs, others come, for which there is no room."""
    writing, kept = [make_record(host='a')], [make_record(host=None)]
    written = store.write_encoded

    def hang(records, lost=0):
        pending.add(kept)
        clock.go_on(5.0)
        assert (len(pending), pending.waits_s) == (1, 5.0)
        store.write_encoded = written
        written(records, lost)

    pending = make(store, clock, counted, most_bytes=RecordEncoder()(writing[0]).size)
    store.write_encoded = hang
    pending.write(writing)
    assert store.ids() == ids_of(writing)
    assert (counted, len(pending), pending._bytes) == ({'written': 1, 'lost': 1}, 0, 0)


def test_a_batch_leaves_room_for_others(store, clock, counted):
    records = [make_record(host='a') for _ in range(9)]
    size = RecordEncoder()(records[0]).size
    pending = make(store, clock, counted, most_bytes=10 * size)
    pending.write(records)
    assert [len(each) for each in store.transactions] == [2, 2, 2, 2, 1]


def test_records_that_cannot_be_counted_are_written(store, clock, caplog):
    def count(outcome, number):
        raise OSError(28, 'No space left on device')

    pending = PendingRecords(store, count, clock)
    pending.write([make_record()])
    pending.count_lost(1)
    pending.write([make_record()])
    assert (len(store.ids()), store.lost, len(pending)) == (2, 1, 0)
    assert '1 records are not counted as written' in caplog.text


def test_one_line_a_minute_says_so(pending, store, clock, caplog):
    store.is_unavailable = True
    for _ in range(100):
        pending.write([make_record()])
        clock.go_on(2 * LOG_EVERY_S / 100)
    lines = [each.getMessage() for each in caplog.records]
    lines = [line for line in lines if 'Records of decisions cannot be' in line]
    assert len(lines) == 2
    assert 'written, 1 wait' in lines[0]


def test_a_record_that_cannot_be_encoded_costs_no_other(
    pending, store, counted, caplog
):
    odd = make_record(uuid=object())
    records = [make_record(), odd, make_record()]
    pending.write(records)
    assert store.ids() == ids_of([records[0], records[2]])
    assert counted == {'written': 2, 'lost': 1}
    assert f'Record {odd.head.id} cannot be encoded' in caplog.text


def test_records_that_can_never_be_written_stop_no_others(
    pending, store, counted, caplog
):
    store.problem = TypeError('of a value')
    pending.write([make_record(), make_record(host=None)])
    assert (len(pending), counted) == (0, {'lost': 2})
    assert '2 records cannot be written, and are lost' in caplog.text
    store.problem = None
    pending.write([make_record()])
    assert counted == {'written': 1, 'lost': 2}
    assert store.lost == 2
    pending.write([make_record()])
    assert store.lost == 2


def test_record_without_a_store_is_not_counted(clock, counted):
    pending = make(MemoryDecisions('none'), clock, counted)
    pending.write([make_record(), make_record(host=None)])
    assert (len(pending), counted) == (0, Counter())


def with_request(record, size):
    """Return a record whose request is kept whole."""
    return replace(record, whole=random.Random(size).randbytes(size))


def test_requests_kept_whole_go_before_any_record(store, clock, counted):
    pending = make(store, clock, counted, most_bytes=50_000)
    store.is_unavailable = True
    records = [with_request(make_record(), 20_000) for _ in range(5)]
    pending.add(records)
    store.is_unavailable = False
    pending.flush()
    assert store.ids() == ids_of(records)
    assert counted == {'written': 5}
