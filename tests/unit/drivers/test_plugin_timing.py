# SPDX-License-Identifier: Apache-2.0
"""What runs now, and how long everything ran."""

import gc
import logging
import threading

import pytest

from novasched.drivers.plugin_timing import PluginTiming, Running
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases


@pytest.fixture
def clock():
    return FakeClock(seconds=100.0)


@pytest.fixture
def watch(clock):
    return PluginTiming(clock)


@pytest.fixture
def logged(caplog):
    """Return a function that gives the lines with some words."""
    caplog.set_level(logging.WARNING, 'novasched')

    def lines(words):
        said = (r.getMessage() for r in caplog.records)
        return [line for line in said if words in line]

    return lines


@pytest.fixture
def named(logged):
    """The lines that name a plugin that took too long."""
    return lambda: logged('time budget')


@pytest.fixture
def stuck(logged):
    """The lines that name a plugin that does not end."""
    return lambda: logged('running for')


def test_seconds_add_up_until_they_are_asked_for(watch, clock):
    timer = watch.of('req-1')
    for name, seconds in (('A', 1), ('B', 2), ('A', 3)):
        with timer('Filter', name, 3):
            clock.advance(seconds)
    assert timer.took_s() == {'A': 4.0, 'B': 2.0}
    assert timer.took_s() == {}


def test_innermost_extension_is_the_running_one(watch, clock):
    timer = watch.of('req-1')
    with timer('Driver', 'D', 3):
        clock.advance(1)
        with timer('Filter', 'A', 3):
            clock.advance(2)
            assert [each.extension for each in watch.running().values()] == ['A']
        (running,) = watch.running().values()
        assert running == Running('Driver', 'D', 'req-1', 100.0)
        assert timer.took_s() == {'A': 2.0}
    assert timer.took_s() == {'D': 3.0}
    assert watch.running() == {}


def test_raising_extension_is_timed_and_ends(watch, clock):
    timer = watch.of('req-1')

    def fail():
        with timer('Filter', 'A', 3):
            clock.advance(1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert watch.running() == {}
    assert timer.took_s() == {'A': 1.0}


def test_running_extension_of_each_thread_is_known(watch, clock, stuck):
    started, end = threading.Event(), threading.Event()

    def decide():
        with watch.of('req-2')('Weigher', 'B', 3):
            started.set()
            end.wait(10)

    thread = threading.Thread(target=decide)
    thread.start()
    assert started.wait(10)
    clock.advance(5)
    with watch.of('req-1')('Filter', 'A', 3):
        assert watch.running() == {
            threading.get_ident(): Running('Filter', 'A', 'req-1', 105.0),
            thread.ident: Running('Weigher', 'B', 'req-2', 100.0),
        }
        watch.log_stuck(4)
        clock.advance(5)
        watch.log_stuck(4)
    end.set()
    thread.join(10)
    assert watch.running() == {}
    assert [line.split()[1] for line in stuck()] == ['B', 'A']


def test_longest_stuck_extension_is_logged_first(watch, clock, stuck):
    at_work = [watch.of('req-1'), watch.of('req-2')]
    for timer, name in zip(at_work, 'BA', strict=True):
        timer.thread = name
        timer('Filter', name, 3)
        clock.advance(1)
    clock.advance(30)
    watch.log_stuck()
    assert [line.split()[1] for line in stuck()] == ['B', 'A']


def test_a_request_that_ended_leaves_nothing(watch):
    for _ in range(3):
        watch.of('req-1')
    gc.collect()
    assert watch.running() == {}


def test_stuck_extension_is_logged_once_per_run(watch, clock, stuck):
    timer = watch.of('req-1')
    for _ in range(2):
        with timer('Filter', 'OddHosts', 3):
            clock.advance(30)
            watch.log_stuck()
            clock.advance(1)
            watch.log_stuck()
            clock.advance(10)
            watch.log_stuck()
        watch.log_stuck()
    line = 'Filter OddHosts has been running for 31 s for request req-1'
    assert stuck() == [line, line]


def run(watch, clock, *seconds, kind='Filter', name='OddHosts', request='req-1'):
    """Let a plugin run for one request, once for each number of seconds."""
    timer = watch.of(request)
    for took_s in seconds:
        with timer(kind, name, 7):
            clock.advance(took_s)


@cases(
    'budget_s, kind, seconds, expected',
    ('within the budget', 1.0, 'Filter', [1.0], []),
    (
        'once too long',
        1.0,
        'Weigher',
        [1.5],
        ['Weigher OddHosts took 1.5 s for request req-1, with 7 host(s) in run 1;'],
    ),
    (
        'too long for all servers together',
        1.0,
        'Filter',
        [0.5, 0.5, 0.25, 9.0],
        ['Filter OddHosts took 1.2 s for request req-1, with 7 host(s) in run 3;'],
    ),
    ('no budget', 0.0, 'Filter', [99.0], []),
    ('a driver', 1.0, 'Driver', [99.0], []),
)
def test_extension_over_its_time_budget_is_logged(
    clock, named, budget_s, kind, seconds, expected
):
    run(PluginTiming(clock, budget_s), clock, *seconds, kind=kind)
    ending = f' the time budget is {budget_s:g} s'
    assert named() == [line + ending for line in expected]


def test_slow_extension_is_logged_again_after_an_interval(clock, named):
    watch = PluginTiming(clock, 1.0)
    run(watch, clock, 2.0)
    run(watch, clock, 2.0, request='req-2')
    run(watch, clock, 2.0, name='EvenHosts', request='req-2')
    clock.advance(300)
    run(watch, clock, 2.0, request='req-3')
    assert [line.split(' with')[0] for line in named()] == [
        'Filter OddHosts took 2.0 s for request req-1,',
        'Filter EvenHosts took 2.0 s for request req-2,',
        'Filter OddHosts took 2.0 s for request req-3,',
    ]


def test_the_requests_of_a_plugin_that_is_fast_do_not_add_up(clock, named):
    watch = PluginTiming(clock, 1.0)
    for number in range(9):
        run(watch, clock, 0.5, request=f'req-{number}')
    assert named() == []


def test_a_plugin_that_raises_after_a_long_time_is_named(clock, named):
    def fail():
        with PluginTiming(clock, 1.0).of('req-1')('Filter', 'OddHosts', 7):
            clock.advance(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(named()) == 1


def test_the_budget_is_an_option():
    conf = make_conf()
    assert PluginTiming.from_conf(conf).budget_s == 1.0
