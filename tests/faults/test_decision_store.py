# SPDX-License-Identifier: Apache-2.0
"""The store of decisions under faults of its disk, files, writers and clocks."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from novasched.decisions import files
from novasched.decisions.files import StoreSettings
from novasched.decisions.pending import RETRY_S, PendingRecords
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.retention import INTERVAL_S
from novasched.decisions.writing import DecisionWriter
from tests.faults.decision_writers import BATCH, SMALL
from tests.support.records.stored_records import SetClock, make_record
from tests.support.tables.examples import scaled

EVERYTHING = Criteria()
ALL = 1_000_000
IMPATIENT_S = 0.05
KILLS = scaled(100)
NOBODY = 65534
RECORDS = scaled(400)
HOUR_S, DAY_S = 3600, 86400
LOCKED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.read()
"""


class WatchedStore:
    """A worker's way to the files, its clock, and what became of records."""

    def __init__(self, directory, clock, **settings):
        self.directory = directory
        self.clock = clock
        self.counted = Counter()
        self.records = []
        self.writer = DecisionWriter(
            directory, StoreSettings(**settings), clock, IMPATIENT_S
        )
        self.pending = PendingRecords(self.writer, self._count, clock)

    def _count(self, outcome, number):
        self.counted[outcome] += number

    def write(self, number=1):
        """Write new records, each by itself."""
        for _ in range(number):
            self.records.append(make_record(self.clock.time()))
            self.pending.write(self.records[-1:])

    def try_again(self):
        self.clock.go_on(RETRY_S)
        self.pending.write(())

    def found(self):
        """The heads that are in the files, the oldest first."""
        return DecisionFiles(self.directory, pytest.fail).find(EVERYTHING, ALL)[::-1]

    def heads(self):
        """The heads of all that was written, in that order."""
        return [record.head for record in self.records]

    def assert_all_is_there(self):
        """All is written in order, none twice, and nothing waits."""
        assert self.pending.problem is None
        assert len(self.pending) == 0
        assert self.counted == {'written': len(self.records)}
        assert self.found() == self.heads()


@pytest.fixture
def clock():
    return SetClock(time.time())


@pytest.fixture
def make_store(tmp_path, clock):
    with contextlib.ExitStack() as stack:

        def make(directory=None, **settings):
            store = WatchedStore(directory or tmp_path / 'decisions', clock, **settings)
            stack.callback(store.writer.close)
            return store

        yield make


@pytest.fixture
def mount(tmp_path):
    """Mount a disk of 1 MiB: `mount(options)`; once more changes its options."""
    disk = tmp_path / 'disk'
    disk.mkdir()

    def run(options):
        done = subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', f'size=1m,{options}', 'novasched', disk],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f'nothing can be mounted: {done.stderr}')
        return disk

    yield run
    subprocess.run(['umount', '--lazy', disk], capture_output=True, check=False)


def fill(path):
    """Fill the disk."""
    with contextlib.suppress(OSError), path.open('ab', buffering=0) as file:
        while True:
            file.write(b'-' * 4096)


@pytest.mark.scenario('F35', 'I7')
def test_a_full_disk_makes_records_wait(make_store, mount):
    disk = mount('rw')
    store = make_store(disk / 'decisions')
    store.write(3)
    ballast = disk / 'ballast'
    fill(ballast)
    store.write(20)
    store.try_again()  # what was in the write-ahead log may have made room
    fill(ballast)
    store.write(200)
    store.try_again()
    assert 'full' in str(store.pending.problem)
    assert len(store.pending) > 0
    ballast.unlink()
    store.try_again()
    store.assert_all_is_there()


@pytest.mark.scenario('F35', 'I7')
def test_a_file_that_may_not_grow_makes_records_wait(make_store):
    store = make_store()
    store.write(3)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        store.write(100)
        store.try_again()
        assert store.pending.problem is not None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.try_again()
    store.assert_all_is_there()


@pytest.mark.scenario('F35', 'I7')
def test_request_kept_whole_that_has_no_room_costs_no_record(make_store):
    store = make_store()
    store.write(3)
    large = replace(make_record(), whole=random.Random(1).randbytes(1 << 20))
    store.records.append(large)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512 << 10, hard))
    try:
        store.pending.write([large])
        assert store.pending.problem is not None
        store.try_again()
        store.assert_all_is_there()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert DecisionFiles(store.directory).whole(large.head.id) is None


@pytest.mark.scenario('F35', 'I7')
def test_a_disk_that_is_not_to_be_written_makes_records_wait(make_store, mount):
    disk = mount('ro')
    store = make_store(disk / 'decisions')
    store.write(3)
    assert 'Read-only' in str(store.pending.problem)
    subprocess.run(['umount', disk], check=True)
    mount('rw')
    store.try_again()
    store.assert_all_is_there()


@pytest.mark.scenario('F35')
def test_records_are_read_from_a_read_only_disk(make_store, mount):
    disk = mount('rw')
    store = make_store(disk / 'decisions')
    store.write(3)
    store.writer.close()
    mount('ro,remount')
    store.assert_all_is_there()


@pytest.mark.scenario('F35', 'I7')
def test_a_directory_that_was_removed_is_made_again(make_store):
    store = make_store()
    store.write(3)
    shutil.rmtree(store.directory)
    store.write(2)
    assert store.found() == store.heads()[3:]
    assert store.counted == {'written': 5}


@pytest.mark.scenario('F35', 'I7')
def test_a_malformed_file_is_set_aside_by_all_workers(make_store):
    first, second = make_store(), make_store()
    first.write(3)
    for path in store_paths(first):
        path.write_bytes(b'garbage' * 10_000)
    second.write()
    assert 'kept as' in str(second.pending.problem)
    second.try_again()
    second.assert_all_is_there()
    first.write(2)
    names = {path.name for path in store_paths(first)}
    assert {'000001.sqlite.broken', '000002.sqlite'} <= names
    assert first.found() == [*second.heads(), *first.heads()[3:]]
    assert (first.counted, second.counted) == ({'written': 5}, {'written': 1})


@pytest.fixture
def public_directory():
    """A directory that any user may enter."""
    with tempfile.TemporaryDirectory(dir='/tmp') as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.mark.scenario('F35', 'I7')
def test_a_file_of_another_user_is_followed_by_one_of_ours(
    make_store, public_directory
):
    if os.geteuid():
        pytest.skip('only root can become another user')
    theirs, ours = (make_store(public_directory, file_bytes=1 << 20) for _ in range(2))
    theirs.write(2)
    os.seteuid(NOBODY)
    try:
        ours.write(2)
        assert ours.pending.problem is None
        begin_as_root(public_directory)
        ours.write(3)
        assert ours.counted == {'written': 5}
        owners = [path.stat().st_uid for path in databases(public_directory)]
        assert owners == [0, NOBODY, 0]
    finally:
        os.seteuid(0)
    assert ours.found() == [*theirs.heads(), *ours.heads()]


def begin_as_root(directory):
    """Begin the next file, which belongs to root."""
    os.seteuid(0)
    try:
        files.begin(directory, len(databases(directory)), time.time())
    finally:
        os.seteuid(NOBODY)


def store_paths(store):
    return [path for path in store.directory.iterdir() if path.suffix != '.sqlite-shm']


@pytest.mark.scenario('F36', 'I7')
def test_records_wait_while_another_process_locks_the_file(make_store):
    store = make_store()
    store.write(2)
    other = subprocess.Popen(
        [sys.executable, '-c', LOCKED, store.directory / '000001.sqlite'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout.readline() == b'locked\n'
        for _ in range(30):
            store.write(3)
            store.clock.go_on(1)
        assert 'locked' in str(store.pending.problem)
        assert len(store.pending) == 90
        assert store.found() == store.heads()[:2]
        other.stdin.close()
    store.try_again()
    store.assert_all_is_there()


def run_writers(*words):
    """Start processes of tests.faults.decision_writers."""
    return subprocess.Popen(
        [sys.executable, '-W', 'ignore', '-m', 'tests.faults.decision_writers', *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def databases(directory):
    return [file.path for file in files.numbered(directory) if file.is_database]


@pytest.mark.scenario('F37', 'I7')
def test_a_killed_worker_leaves_whole_batches(tmp_path):
    process = run_writers('killed', str(tmp_path), str(KILLS))
    certain, said = process.communicate()
    assert (process.returncode, said) == (0, '')
    for path in databases(tmp_path):
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute('PRAGMA integrity_check').fetchone() == ('ok',)
    reader = DecisionFiles(tmp_path, pytest.fail)
    heads = reader.find(EVERYTHING, ALL)
    batches = Counter(head.flavor for head in heads)
    assert set(batches.values()) == {BATCH}
    assert batches.keys() >= set(certain.split())
    # At most the batch amid which each was killed is there without a word.
    assert len(batches) <= len(certain.split()) + KILLS
    for head in heads[:: max(1, len(heads) // 500)]:
        record = reader.read(head.id)
        assert record.head == head
        assert len(record.body.notes[0]) == 200
        (server,) = record.body.servers
        assert reader.find(Criteria(server=server.uuid)) == [head]


def size_of(path):
    with files.opened_to_read(path) as database:
        (pages,) = database.execute('PRAGMA page_count').fetchone()
        return pages * 4096


@pytest.mark.scenario('F38', 'I7')
@pytest.mark.parametrize(
    'processes', [pytest.param(2, marks=pytest.mark.exhaustive('fewer workers')), 4]
)
def test_workers_at_the_end_of_a_file_begin_one(tmp_path, processes):
    directory = tmp_path / 'decisions'
    reader = DecisionFiles(directory, pytest.fail)
    with run_writers(
        'together', str(directory), str(processes), str(RECORDS)
    ) as running:
        seen = [0]
        while running.poll() is None:
            seen.append(len(reader.find(EVERYTHING, ALL)))
        assert (running.returncode, running.stderr.read()) == (0, '')
    assert seen == sorted(seen)
    heads = reader.find(EVERYTHING, ALL)[::-1]
    for process in range(processes):
        own = [int(head.flavor) for head in heads if head.project_id == str(process)]
        assert own == list(range(RECORDS))
    assert len(heads) == processes * RECORDS
    found = databases(directory)
    assert [path.name for path in found] == [
        files.name_of(number) for number in range(1, len(found) + 1)
    ]
    assert len(found) > processes
    sizes = [size_of(path) for path in found]
    assert min(sizes[:-1]) >= SMALL.file_bytes, sizes


@pytest.mark.scenario('F39')
@pytest.mark.parametrize(
    'step_s',
    [pytest.param(-HOUR_S, id='back'), pytest.param(30 * DAY_S, id='forward')],
)
def test_a_clock_that_is_set_changes_no_order_and_removes_nothing(
    make_store, clock, step_s
):
    store = make_store(max_age_s=DAY_S / 2)
    store.write(2)
    files.begin(store.directory, 1, clock.time())
    store.write(2)
    clock.time_s += step_s
    clock.go_on(INTERVAL_S)
    store.write(2)
    assert databases(store.directory)[0].name == '000001.sqlite'
    store.assert_all_is_there()


@pytest.mark.scenario('F39')
def test_a_clock_that_goes_on_removes_old_files(make_store, clock):
    store = make_store(max_age_s=DAY_S / 2)
    store.write()
    files.begin(store.directory, 1, clock.time())
    store.write()
    old = clock.time() - DAY_S
    for path in store.directory.glob('000001.*'):
        os.utime(path, (old, old))
    clock.go_on(INTERVAL_S)
    store.write()
    assert store.found() == store.heads()[1:]
