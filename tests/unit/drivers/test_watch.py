# SPDX-License-Identifier: Apache-2.0
"""What runs now, and how long everything ran."""

from __future__ import annotations

import gc
import logging
import threading

import pytest

from novasched.drivers.watch import Running, Watch


class Clock:
    """A clock that stands still."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(clock):
    return Watch(clock)


def test_seconds_add_up_until_they_are_asked_for(watch, clock):
    lap = watch.of('req-1')
    for name, seconds in (('A', 1), ('B', 2), ('A', 3)):
        with lap('Filter', name):
            clock.now += seconds
    assert lap.took_s() == {'A': 4.0, 'B': 2.0}
    assert lap.took_s() == {}


def test_what_runs_within_another_is_what_runs(watch, clock):
    lap = watch.of('req-1')
    with lap('Driver', 'D'):
        clock.now += 1
        with lap('Filter', 'A'):
            clock.now += 2
            assert [each.extension for each in watch.running().values()] == ['A']
        (running,) = watch.running().values()
        assert running == Running('Driver', 'D', 'req-1', 100.0)
        assert lap.took_s() == {'A': 2.0}
    assert lap.took_s() == {'D': 3.0}
    assert watch.running() == {}


def test_what_raises_took_time_and_runs_no_more(watch, clock):
    lap = watch.of('req-1')

    def fail():
        with lap('Filter', 'A'):
            clock.now += 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert watch.running() == {}
    assert lap.took_s() == {'A': 1.0}


def test_what_runs_in_each_thread_is_known(watch, clock):
    started, end = threading.Event(), threading.Event()

    def decide():
        with watch.of('req-2')('Weigher', 'B'):
            started.set()
            end.wait(10)

    thread = threading.Thread(target=decide)
    thread.start()
    assert started.wait(10)
    clock.now += 5
    with watch.of('req-1')('Filter', 'A'):
        assert watch.running() == {
            threading.get_ident(): Running('Filter', 'A', 'req-1', 105.0),
            thread.ident: Running('Weigher', 'B', 'req-2', 100.0),
        }
        assert [each.extension for each in watch.stuck(4)] == ['B']
        clock.now += 5
        assert [each.extension for each in watch.stuck(4)] == ['B', 'A']
    end.set()
    thread.join(10)
    assert watch.running() == {}


def test_a_request_that_ended_leaves_nothing(watch):
    for _ in range(3):
        watch.of('req-1')
    gc.collect()
    assert watch.running() == {}


def test_what_is_stuck_is_told_once_each_time(watch, clock, caplog):
    lap = watch.of('req-1')
    caplog.set_level(logging.WARNING, 'novasched')
    for _ in range(2):
        with lap('Filter', 'OddHosts'):
            clock.now += 30
            watch.tell_stuck()
            clock.now += 1
            watch.tell_stuck()
            clock.now += 10
            watch.tell_stuck()
        watch.tell_stuck()
    told = [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]
    line = 'Filter OddHosts has been running for 31 s for request req-1'
    assert told == [line, line]
