# SPDX-License-Identifier: Apache-2.0
"""Which snapshot an inspection uses, and where it puts a new one."""

from __future__ import annotations

import fcntl

import pytest

from novasched import errors
from novasched.inspection.snapshots import MAX_AGE_S, Snapshots
from novasched.placement.snapshot import PlacementSnapshot
from novasched.placement.snapshot_keeper import NAME, SnapshotKeeper
from tests import recorded_worlds
from tests.fakes import FakeClock


class Source:
    """Placement without any provider; ``reads`` counts the snapshots."""

    def __init__(self, clock):
        self._clock = clock
        self.reads = 0

    def read(self, sizes, aggregates):
        self.reads += 1
        empty = recorded_worlds.contents({'providers': [], 'consumers': []})
        members = frozenset(aggregates)
        return PlacementSnapshot(empty, self._clock.time(), 0.1, members)

    def with_members(self, snapshot, aggregates):
        return self.read({}, aggregates)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def source(clock):
    return Source(clock)


@pytest.fixture
def keeper(clock, source):
    return lambda directory: SnapshotKeeper(directory, source, clock, dict)


@pytest.fixture
def shared(keeper, tmp_path):
    """The snapshot of the service of this machine."""
    keeper(tmp_path).renew()
    return keeper(tmp_path)


def test_that_of_the_machine_is_used_while_it_is_fresh(shared, keeper, source):
    snapshots = Snapshots(shared, keeper(None))
    assert snapshots() is shared.snapshot()
    assert source.reads == 1


@pytest.mark.parametrize('fresh', [False, True])
def test_another_user_leaves_that_of_the_machine_alone(
    shared, keeper, source, clock, tmp_path, fresh
):
    """Not even when it gets old while it is used."""
    before = (tmp_path / NAME).read_bytes()
    snapshots = Snapshots(shared, keeper(None), fresh)
    snapshots()
    clock.advance(MAX_AGE_S + 1)
    assert snapshots().as_of == clock.time()
    assert snapshots.age_s() == 0
    assert source.reads == 2 + fresh
    assert (tmp_path / NAME).read_bytes() == before


@pytest.mark.parametrize('fresh', [False, True])
def test_what_another_process_is_reading_is_not_passed_over(
    shared, clock, tmp_path, fresh
):
    """An old snapshot is no answer, nor is any to who asks for a new one."""
    clock.advance(0 if fresh else MAX_AGE_S + 1)
    snapshots = Snapshots(shared, shared, fresh, wait_s=0.0)
    with open(tmp_path / 'placement-snapshot.lock') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(errors.StoreFailed, match='another process is reading'):
            snapshots()
    assert snapshots().as_of == clock.time()
