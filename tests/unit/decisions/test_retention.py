# SPDX-License-Identifier: Apache-2.0
"""The oldest files go when all are too large or they are too old; no clock that is set
makes them go."""

import os

import pytest

from novasched.decisions.retention import INTERVAL_S, Retention, total_size
from tests.support.records.stored_records import NOON, SetClock
from tests.support.tables.cases import cases

DAY_S = 86400.0
KEPT_S = 14 * DAY_S


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def put(tmp_path):
    """Make files: `put(name, days_old, size)`."""

    def make(name, days_old=0.0, size=100):
        path = tmp_path / name
        path.write_bytes(b'-' * size)
        written = NOON - days_old * DAY_S
        os.utime(path, (written, written))

    return make


@pytest.fixture
def names(tmp_path):
    return lambda: sorted(path.name for path in tmp_path.iterdir())


@pytest.fixture
def retention(tmp_path, clock):
    return Retention(tmp_path, 250, KEPT_S, clock)


def looked(retention, clock, *, wall_s=INTERVAL_S, monotonic_s=INTERVAL_S):
    """Look, and look again when the clocks have gone on so far."""
    retention.look_if_due()
    clock.time_s += wall_s
    clock.monotonic_s += monotonic_s
    retention.look_if_due()


def test_the_oldest_go_while_all_are_too_large(put, names, retention, clock):
    for number in range(1, 5):
        put(f'00000{number}.sqlite')
    put('000001.sqlite-wal', size=10)
    put('notes.txt', size=1000)
    looked(retention, clock)
    assert names() == ['000003.sqlite', '000004.sqlite', 'notes.txt']


def test_the_newest_stays_whatever_its_size(put, names, retention, clock):
    put('000001.sqlite', days_old=20, size=1000)
    looked(retention, clock)
    assert names() == ['000001.sqlite']


def test_broken_files_and_remains_count_and_go(put, names, retention, clock):
    put('000001.sqlite.broken', size=200)
    put('000002.sqlite-wal', size=200)
    put('000003.sqlite', size=200)
    looked(retention, clock)
    assert names() == ['000003.sqlite']


def test_old_files_go(put, names, retention, clock):
    put('000001.sqlite', days_old=15, size=10)
    put('000001.sqlite-wal', days_old=1, size=0)
    put('000001.sqlite-shm', days_old=1, size=10)
    put('000002.sqlite', days_old=15, size=10)
    put('000002.sqlite-wal', days_old=13, size=10)
    put('000003.sqlite', days_old=15, size=10)
    put('000004.sqlite', size=10)
    looked(retention, clock)
    assert names() == [
        '000002.sqlite', '000002.sqlite-wal', '000003.sqlite', '000004.sqlite'
    ]  # fmt: skip


@cases(
    'wall_s',
    ('forward 30 days', INTERVAL_S + 30 * DAY_S),
    ('back 1 h', INTERVAL_S - 3600),
)
def test_nothing_goes_when_the_clock_was_set(put, names, retention, clock, wall_s):
    put('000001.sqlite', days_old=15, size=10)
    put('000002.sqlite', size=10)
    looked(retention, clock, wall_s=wall_s)
    assert names() == ['000001.sqlite', '000002.sqlite']


def test_there_is_an_hour_between_looks(put, names, retention, clock):
    put('000001.sqlite', days_old=15, size=10)
    put('000002.sqlite', size=10)
    looked(retention, clock, wall_s=INTERVAL_S - 1, monotonic_s=INTERVAL_S - 1)
    assert len(names()) == 2
    clock.go_on(1)
    retention.look_if_due()
    assert names() == ['000002.sqlite']


def test_size_counts_all_files(put, tmp_path):
    put('000001.sqlite', size=7)
    put('000001.sqlite-wal', size=8)
    put('000002.sqlite.broken', size=9)
    assert total_size(tmp_path) == 24
    assert total_size(tmp_path / 'none') == 0
