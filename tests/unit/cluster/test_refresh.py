# SPDX-License-Identifier: Apache-2.0
"""Each caller gets a refresh that began after it called; callers share."""

import threading

import pytest

from novasched.cluster.shared_read import Refresh
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

DEADLINE_S = 30


class Gated:
    """A read that waits to be let through; counts what it began."""

    def __init__(self):
        self.began = 0
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.problems = {}

    def __call__(self):
        self.began += 1
        number = self.began
        self.entered.release()
        assert self.gate.acquire(timeout=DEADLINE_S)
        if number in self.problems:
            raise self.problems[number]

    def wait_entered(self):
        assert self.entered.acquire(timeout=DEADLINE_S)


def test_one_caller_gets_one_read():
    reads = []
    Refresh(lambda: reads.append(1), FakeClock())()
    assert reads == [1]


def test_callers_that_come_meanwhile_share_the_next_read(threads):
    read = Gated()
    refresh = Refresh(read, FakeClock())
    first = threads.submit(refresh)
    read.wait_entered()
    others = [threads.submit(refresh) for _ in range(10)]
    read.gate.release()
    read.wait_entered()
    first.result(DEADLINE_S)
    assert not any(other.done() for other in others)
    # Those that had not yet called by now get a third read, never the second.
    for _ in others:
        read.gate.release()
    for other in others:
        other.result(DEADLINE_S)
    assert read.began <= 1 + len(others)


def test_read_that_raises_leaves_no_caller_waiting(threads):
    read = Gated()
    refresh = Refresh(read, FakeClock())
    read.problems[1] = ValueError('first')
    first = threads.submit(refresh)
    read.wait_entered()
    second = threads.submit(refresh)
    read.gate.release(3)
    with pytest.raises(ValueError, match='first'):
        first.result(DEADLINE_S)
    second.result(DEADLINE_S)
    refresh_again = threads.submit(refresh)
    refresh_again.result(DEADLINE_S)


def test_failed_read_serves_no_caller(threads):
    clock = FakeClock()
    reads = []

    def read():
        reads.append(len(reads))
        if len(reads) == 1:
            raise ValueError

    refresh = Refresh(read, clock)
    with pytest.raises(ValueError):
        refresh(max_age_s=10)
    refresh(max_age_s=10)
    assert reads == [0, 1]


@cases('age, reads', ('young enough', 4.9, 1), ('too old', 5.1, 2))
def test_a_caller_may_be_content_with_an_older_read(age, reads):
    clock = FakeClock()
    done = []
    refresh = Refresh(lambda: done.append(1), clock)
    refresh()
    clock.advance(age)
    refresh(max_age_s=5)
    assert len(done) == reads


def test_every_one_of_many_callers_sees_what_was_written_before_it_called(threads):
    lock = threading.Lock()
    written = seen = 0

    def read():
        nonlocal seen
        with lock:
            found = written
        seen = found

    refresh = Refresh(read, FakeClock())

    def call():
        nonlocal written
        for _ in range(100):
            with lock:
                written += 1
                mine = written
            refresh()
            assert seen >= mine

    for future in [threads.submit(call) for _ in range(20)]:
        future.result(DEADLINE_S)
