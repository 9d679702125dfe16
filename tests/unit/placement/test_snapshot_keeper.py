# SPDX-License-Identifier: Apache-2.0
"""Snapshots of placement in a file, when they are renewed, and the records that wait
for them."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from novasched import errors
from novasched.placement.diagnosing import PlacementDiagnosis
from novasched.placement.snapshot import NodeSize, PlacementSnapshot
from novasched.placement.snapshot_keeper import SnapshotKeeper, save
from novasched.resources.query import Group, Query
from novasched.scheduler.reasons import Code
from tests import recorded_worlds
from tests.cases import cases
from tests.fakes import FakeClock

AZ1 = '00000000-0000-0000-0000-000000000001'
SIZES = {'h1': NodeSize(8, 1024, 10, True)}


def contents():
    host = {
        'uuid': 'h1',
        'parent': None,
        'inventories': {'VCPU': [8, 0, 1, 8, 1, 1.0]},
        'traits': ['HW_CPU_X86_AVX'],
        'aggregates': [AZ1],
    }
    return recorded_worlds.contents({'providers': [host], 'consumers': []})


class FakeSource:
    """Placement with one host; ``reads`` are the aggregates that were asked for."""

    def __init__(self, clock, took_s=0.1):
        self.clock = clock
        self.took_s = took_s
        self.reads = []
        self.problem = None

    def read(self, sizes, aggregates):
        assert sizes == SIZES
        self.reads.append(set(aggregates))
        if self.problem:
            raise errors.StoreFailed('Placement', self.problem)
        members = frozenset(aggregates)
        return PlacementSnapshot(
            contents(), self.clock.time(), self.took_s, members, missing=3
        )

    def with_members(self, snapshot, aggregates):
        self.reads.append({'members', *aggregates})
        known = snapshot.members.union(aggregates)
        return PlacementSnapshot(contents(), snapshot.as_of, snapshot.took_s, known)


class Log:
    """Records that wait, by id: when they were made, and what they asked."""

    def __init__(self, **made):
        self.made = made
        self.completed = {}
        self.problem = None

    def waiting(self):
        return [
            (SimpleNamespace(id=id_, at=int(at * 1e6)), {'asked': [{'query': query}]})
            for id_, (at, query) in self.made.items()
            if id_ not in self.completed
        ]

    def complete(self, diagnoses):
        if self.problem:
            raise errors.StoreFailed('the log', self.problem)
        self.completed |= diagnoses
        return set(diagnoses)


class SlowMembers(frozenset):
    """Aggregates that are not written before they are let go."""

    def __new__(cls):
        made = super().__new__(cls, [AZ1])
        made.asked, made.let_go = threading.Event(), threading.Event()
        return made

    def __iter__(self):
        self.asked.set()
        assert self.let_go.wait(20)
        return super().__iter__()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def source(clock):
    return FakeSource(clock)


@pytest.fixture
def make_keeper(tmp_path, clock, source):
    def make(directory=tmp_path, schedulers=1):
        return SnapshotKeeper(
            directory, source, clock, lambda: SIZES, lambda: schedulers
        )

    return make


@pytest.fixture
def keeper(make_keeper):
    return make_keeper()


@pytest.fixture
def diagnosing(keeper, clock):
    return PlacementDiagnosis(lambda: {'h1': 'cmp-1'}, clock, keeper=keeper)


def test_what_one_process_reads_all_have(make_keeper, clock):
    mine, other = make_keeper(), make_keeper()
    assert other.current(60) is None
    assert mine.renew({AZ1})
    clock.advance(7)
    table, age_s = other.current(60)
    assert (list(table.uuids), age_s) == (['h1'], 7)
    assert table.having_all(['HW_CPU_X86_AVX']).tolist() == [True]
    found = other.snapshot()
    assert (found.missing, found.members, found.source) == (3, {AZ1}, 'api')
    for name in ('providers', 'inventories', 'usage', 'traits', 'aggregates'):
        mine_, theirs = getattr(found.contents, name), getattr(contents(), name)
        assert np.array_equal(mine_, theirs)
        assert mine_.dtype == theirs.dtype
    assert other.snapshot() is found
    clock.advance(60)
    assert other.current(60) is None


def test_in_memory_where_there_is_no_directory(make_keeper):
    keeper = make_keeper(None)
    assert keeper.current(60) is None
    assert keeper.renew()
    assert len(keeper.current(60)[0]) == 1
    assert make_keeper(None).current(60) is None


@cases(
    'took_s, schedulers, interval_s',
    ('a minute at least', 0.1, 1, 60),
    ('a hundred times what the last one took', 3.5, 1, 350),
    ('and that for each scheduler', 3.5, 3, 1050),
)
def test_renewal(make_keeper, clock, source, took_s, schedulers, interval_s):
    source.took_s = took_s
    keeper = make_keeper(schedulers=schedulers)
    assert keeper.renew()
    clock.advance(interval_s - 1)
    assert keeper.due_in_s() == 1
    assert not keeper.renew()
    clock.advance(1)
    assert keeper.due_in_s() == 0
    assert keeper.renew()
    assert keeper.renew(forced=True)
    assert len(source.reads) == 3


@pytest.mark.parametrize('is_first', [True, False])
def test_a_failure_costs_no_more_than_a_success(
    clock, source, tmp_path, is_first, keeper
):
    if not is_first:
        keeper.renew()
    clock.advance(60)
    (tmp_path / 'placement-snapshot.new').mkdir()  # as if the disk were full
    for _ in range(5):
        with pytest.raises(errors.StoreFailed, match='cannot be written'):
            keeper.renew({AZ1})
        clock.advance(1)
        assert not keeper.renew({AZ1})
        clock.advance(59)
    assert len(source.reads) == 5 + (not is_first)


def test_a_snapshot_from_before_the_time_was_set_back_is_old(clock, keeper):
    keeper.renew()
    clock.set_back(3600)
    assert keeper.current(300) is None
    assert keeper.due_in_s() == 0


def test_only_members_are_read_of_what_is_fresh(source, keeper):
    assert keeper.renew()
    assert keeper.renew({AZ1})
    assert not keeper.renew({AZ1})
    assert source.reads == [set(), {'members', AZ1}]


def test_one_process_at_a_time(make_keeper, tmp_path, source):
    with open(tmp_path / 'placement-snapshot.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make_keeper().renew()
    assert make_keeper().renew()
    assert len(source.reads) == 1


@pytest.mark.parametrize('content', [b'', b'nonsense', b'PK\x05\x06' + 18 * b'\0'])
def test_a_file_that_is_none(tmp_path, content, keeper):
    (tmp_path / 'placement-snapshot.npz').write_bytes(content)
    assert keeper.current(60) is None
    assert keeper.renew()
    assert keeper.current(60) is not None


def test_a_directory_that_is_not_there(make_keeper, tmp_path):
    keeper = make_keeper(tmp_path / 'none')
    assert keeper.current(60) is None
    with pytest.raises(errors.StoreFailed, match='No such file'):
        keeper.renew()


def test_what_a_killed_process_left_is_not_written_to(make_keeper, tmp_path):
    """It may belong to another user, or lead elsewhere."""
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.write_text('kept')
    (tmp_path / 'placement-snapshot.new').symlink_to(elsewhere)
    keeper = make_keeper()
    assert keeper.renew()
    assert elsewhere.read_text() == 'kept'
    assert make_keeper().current(60) is not None


def test_nobody_waits_while_a_snapshot_is_written(clock, source, keeper):
    keeper.renew()
    before = keeper.snapshot()
    members = SlowMembers()
    new = PlacementSnapshot(contents(), clock.time(), 0.1, members)
    source.read = lambda sizes, aggregates: new
    writer = threading.Thread(target=keeper.renew, kwargs={'forced': True})
    reader = threading.Thread(target=keeper.snapshot)
    writer.start()
    assert members.asked.wait(20)
    reader.start()
    reader.join(10)
    waits = reader.is_alive()
    assert keeper.loaded() is before
    members.let_go.set()
    writer.join()
    assert not waits
    assert keeper.loaded() is new


def query(amount, *aggregates):
    members = tuple(frozenset([uuid]) for uuid in aggregates)
    return Query((Group(resources={'VCPU': amount}, member_of=members),))


def test_a_request_gets_its_diagnosis_where_a_snapshot_is_at_hand(
    clock, diagnosing, keeper
):
    assert diagnosing(query(9)) is None
    keeper.renew()
    clock.advance(20)
    found = diagnosing(query(9))
    assert (found['age_s'], found['source'], found['offered']) == (20, 'api', 0)
    assert found['reasons'][0]['code'] == Code.AMOUNT_NOT_ALLOWED
    assert diagnosing(query(9, AZ1)) is None
    clock.advance(300)
    assert diagnosing(query(9)) is None


def test_a_request_reads_no_file(make_keeper, keeper, diagnosing):
    """What another process has read is loaded afterwards, and not by a request."""
    make_keeper().renew()
    assert diagnosing(query(9)) is None
    assert keeper.loaded() is None
    assert diagnosing.complete(Log()) == {}
    assert 'table' in vars(keeper.loaded())
    assert diagnosing(query(9))['offered'] == 0


def test_records_that_wait_are_completed_by_one_snapshot(clock, source, diagnosing):
    now = clock.time()
    log = Log(
        one=(now, query(9).encode()),
        two=(now, query(9, AZ1).encode()),
        old=(now - 3601, query(9).encode()),
        broken=(now, 'resources=...'),
    )
    clock.advance(12)
    assert diagnosing.complete(log) == {'made': 2, 'none': 2}
    assert source.reads == [{AZ1}]
    assert log.completed.pop('old') is log.completed.pop('broken') is None
    assert {id_: (d['age_s'], d['hosts']) for id_, d in log.completed.items()} == {
        'one': (-12, 1),
        'two': (-12, 1),
    }


def test_a_snapshot_that_may_not_be_renewed_yet_will_do(
    clock, source, diagnosing, keeper
):
    keeper.renew()
    clock.advance(40)
    log = Log(late=(clock.time(), query(9, AZ1).encode()))
    diagnosing.complete(log)
    assert log.completed['late']['age_s'] == 40
    assert source.reads == [set(), {'members', AZ1}]


def test_a_placement_that_is_away_is_logged_once(clock, source, caplog, diagnosing):
    log = Log(late=(clock.time(), query(9).encode()))
    source.problem = 'away'
    diagnosing.complete(log)
    diagnosing.complete(log)
    source.problem = None
    clock.advance(59)
    diagnosing.complete(log)
    assert caplog.text.count('No placement snapshot') == 1
    assert 'can be read again' not in caplog.text
    assert len(source.reads) == 1  # what failed is not tried at once
    clock.advance(1)
    caplog.set_level('INFO')
    diagnosing.complete(log)
    assert caplog.text.count('can be read again') == 1
    assert log.completed['late']['reasons'][0]['hosts'] == 1


def test_a_snapshot_whose_rows_do_not_fit_together_is_not_used(
    clock, source, caplog, diagnosing, keeper
):
    whole = source.read
    source.read = lambda *args: dataclasses.replace(
        whole(*args),
        contents=dataclasses.replace(contents(), class_names={}),
    )
    log = Log(
        late=(clock.time(), query(9).encode()),
        old=(clock.time() - 3601, query(9).encode()),
    )
    assert [diagnosing.complete(log) for _ in range(3)] == [{'none': 1}, {}, {}]
    assert diagnosing(query(9)) is None
    assert caplog.text.count('No placement snapshot, so no diagnosis') == 1
    assert keeper.snapshot() is None
    source.read = whole
    clock.advance(60)
    assert diagnosing.complete(log) == {'made': 1}


def test_a_diagnosis_that_cannot_be_made_costs_no_other(make_keeper, clock, caplog):
    seen = []

    def hosts():
        seen.append(1)
        if len(seen) == 1:
            raise KeyError('a defect')
        return {'h1': 'cmp-1'}

    diagnosing = PlacementDiagnosis(hosts, clock, keeper=make_keeper())
    log = Log(
        one=(clock.time(), query(9).encode()), other=(clock.time(), query(10).encode())
    )
    assert diagnosing.complete(log) == {'made': 1, 'none': 1}
    (odd,) = [each for each, found in log.completed.items() if found is None]
    assert f'No diagnosis can be made for record {odd}' in caplog.text


def test_a_log_that_cannot_be_written_is_logged_once(clock, caplog, diagnosing):
    caplog.set_level('INFO')
    log = Log(late=(clock.time(), query(9).encode()))
    log.problem = 'disk full'
    assert [diagnosing.complete(log) for _ in range(2)] == [{}, {}]
    assert caplog.text.count('cannot be recorded') == 1
    log.problem = None
    assert diagnosing.complete(log) == {'made': 1}
    assert caplog.text.count('can be recorded again') == 1


def test_a_snapshot_that_offers_what_placement_did_not_is_out_of_date(
    clock, source, diagnosing, keeper
):
    keeper.renew()
    clock.advance(20)
    log = Log(late=(clock.time(), query(1).encode()))
    diagnosing.complete(log)
    assert log.completed == {}
    clock.advance(40)
    diagnosing.complete(log)
    assert len(source.reads) == 2
    assert log.completed['late']['age_s'] == -40


def test_many_that_ask_the_same_are_judged_once(clock, keeper):
    asked = []

    def hosts():
        asked.append(clock.time())
        return {'h1': 'cmp-1'}

    keeper.renew()
    diagnosing = PlacementDiagnosis(hosts, clock, keeper=keeper)
    first = diagnosing(query(9))
    clock.advance(5)
    assert diagnosing(query(9)) == {**first, 'age_s': 5}
    assert diagnosing(query(8))['offered'] == 1
    clock.advance(55)
    keeper.renew()
    assert diagnosing(query(9)) == {**first, 'age_s': 0}
    assert len(asked) == 3


def test_a_file_whose_rows_do_not_fit_together_is_read_once(tmp_path, source, keeper):
    whole = source.read(SIZES, ())
    broken = dataclasses.replace(contents(), class_names={})
    save(
        dataclasses.replace(whole, contents=broken), tmp_path / 'placement-snapshot.npz'
    )
    assert keeper.snapshot() is None
    os.utime(tmp_path / 'placement-snapshot.npz')
    assert keeper.current(60) is None
    assert keeper.renew()
    assert keeper.snapshot() is not None
