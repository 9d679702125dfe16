# SPDX-License-Identifier: Apache-2.0
"""Requests wait for services that are away, and go on by and by once they answer."""

from __future__ import annotations

import functools
import logging
import threading
import time

import pytest

from novasched import errors
from novasched.http import PROBE_S
from novasched.outages import (
    ANSWER_TAKES_S,
    FIRST_PAUSE_S,
    LEAST_WAIT_S,
    LONGEST_REST_S,
    MOST_ALONE,
    MOST_AT_ONCE,
    MOST_TIMES,
    TURN_S,
    OutagePatience,
    cell,
    cell_of,
)
from novasched.ports import NO_CALLER
from tests.support.clouds.fakes import FakeCaller, FakeClock, FastClock, FastOutages
from tests.support.suite.waiting import eventually
from tests.support.tables.cases import cases

AWAY = {'placement': 'connection refused'}
FAST = FastClock()


class Service:
    """Answers probes once it is back; counts them."""

    def __init__(self):
        self.is_back = threading.Event()
        self.probes = 0
        self.problem = None

    def probe(self):
        self.probes += 1
        if self.problem:
            raise self.problem
        return self.is_back.is_set()


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def outages(service, clock):
    """Outages whose turns last until the clock is advanced."""
    probes = {'placement': service.probe}
    made = FastOutages(30.0, probes.get, clock=clock)
    yield made
    made.close()


class Waiter(threading.Thread):
    """A request that waits; ``went_on`` is whether it was not in vain."""

    def __init__(self, outages, caller=None, unavailable=AWAY, clock=FAST):
        super().__init__(daemon=True)
        self.patience = OutagePatience(outages, caller or FakeCaller(), clock)
        self.unavailable = unavailable
        self.went_on = None
        self.start()

    def run(self):
        self.went_on = self.patience.wait(self.unavailable)


def test_waiting_request_goes_on_once_the_service_answers(service, outages, caplog):
    assert outages.waited_for('placement') == ''
    waiter = Waiter(outages)
    eventually(lambda: service.probes)
    eventually(lambda: outages.waited_for('placement') == 'connection refused')
    (now,) = outages.now()
    assert (now.service, now.waiting, now.in_vain) == ('placement', 1, 0)
    service.is_back.set()
    waiter.join(20)
    assert waiter.went_on
    waiter.patience.attempted(())
    assert outages.now() == []
    assert outages.waited_for('placement') == ''
    eventually(lambda: len(caplog.messages) == 2)
    begun, ended = caplog.messages
    assert (
        begun == 'Requests wait for placement, which is unavailable: connection refused'
    )
    assert ended.startswith('Placement is available again after ')
    assert ended.endswith(': 1 requests waited, 0 timed out')


def test_they_go_on_in_their_order_twice_as_many_while_all_goes_well(service, outages):
    steps, waiters = (1, 2, 4, MOST_AT_ONCE, MOST_AT_ONCE), []
    while len(waiters) < sum(steps):
        waiters.append(Waiter(outages))
        eventually(lambda: outages.now() and outages.now()[0].waiting == len(waiters))
    service.is_back.set()
    seen = []
    for most in steps:
        eventually(functools.partial(are_going, waiters, seen, most))
        time.sleep(0.05)
        on_their_way = going(waiters, seen)
        assert on_their_way == waiters[len(seen) : len(seen) + most]
        seen += on_their_way
        for each in on_their_way:
            each.patience.attempted(())


def waiting(outages, number):
    """Let so many requests wait, in their order."""
    waiters = []
    for count in range(1, number + 1):
        waiters.append(Waiter(outages))
        eventually(lambda: outages.now() and outages.now()[0].waiting == count)  # noqa: B023
    return waiters


def test_requests_that_take_long_hold_up_others_for_one_turn_each(
    service, outages, clock
):
    waiters = waiting(outages, 4)
    service.is_back.set()
    for number, slow in enumerate(waiters, 1):
        eventually(lambda: slow.went_on)  # noqa: B023
        time.sleep(0.05)
        assert len(going(waiters, [])) == number
        clock.advance(TURN_S)


def test_a_turn_that_is_over_is_no_success(service, outages, clock):
    waiters = waiting(outages, 4)
    service.is_back.set()
    for slow in waiters[:2]:
        eventually(lambda: slow.went_on)  # noqa: B023
        clock.advance(TURN_S)
    eventually(lambda: waiters[2].went_on)
    time.sleep(0.05)
    assert waiters[3].went_on is None
    waiters[0].patience.attempted(())  # it has succeeded: two may go on at once
    eventually(lambda: waiters[3].went_on)


def test_a_service_that_breaks_off_again_ends_the_turns(service, outages, clock):
    first, second, third = waiting(outages, 3)
    service.is_back.set()
    eventually(lambda: first.went_on)
    service.is_back.clear()
    first.patience.attempted(AWAY)
    eventually(lambda: second.went_on)
    again = Waiter(outages)
    eventually(outages.now)
    second.patience.attempted(AWAY)
    clock.advance(TURN_S)
    time.sleep(0.05)
    assert (third.went_on, again.went_on) == (None, None)


def test_earliest_request_goes_on_first(service, outages):
    late = Waiter(outages, clock=FakeClock(seconds=2.0))
    eventually(lambda: outages.now() and outages.now()[0].waiting == 1)
    early = Waiter(outages, clock=FakeClock(seconds=1.0))
    eventually(lambda: outages.now()[0].waiting == 2)
    service.is_back.set()
    early.join(20)
    assert (early.went_on, late.went_on) == (True, None)
    early.patience.attempted(())
    late.join(20)
    assert late.went_on


def going(waiters, seen):
    return [w for w in waiters if w.went_on and w not in seen]


def are_going(waiters, seen, most):
    return len(going(waiters, seen)) >= most


def test_time_that_is_over_while_the_service_answers_takes_no_turn_away(service):
    outages = FastOutages(0.3, lambda _: service.probe, clock=FakeClock())
    first, second = Waiter(outages), Waiter(outages)
    service.is_back.set()
    eventually(lambda: first.went_on or second.went_on)
    lucky, other = (first, second) if first.went_on else (second, first)
    eventually(lambda: other.patience.left_s() < 0)
    time.sleep(0.05)
    assert other.went_on is None
    lucky.patience.attempted(())
    other.join(20)
    assert other.went_on
    outages.close()


def test_a_caller_that_gives_up_at_its_turn_leaves_it_to_the_next(service, outages):
    def gives_up():
        service.is_back.set()
        eventually(lambda: outages.now() == [])
        raise RuntimeError('gone')

    caller = FakeCaller()
    caller.check = gives_up
    with pytest.raises(RuntimeError):
        OutagePatience(outages, caller, FAST).wait(AWAY)
    assert OutagePatience(outages, FakeCaller(), FAST).wait(AWAY)
    service.is_back.clear()


def test_one_that_fails_again_waits_again(service, outages):
    first, second = Waiter(outages), Waiter(outages)
    eventually(lambda: outages.now() and outages.now()[0].waiting == 2)
    service.is_back.set()
    eventually(lambda: first.went_on or second.went_on)
    service.is_back.clear()
    lucky, other = (first, second) if first.went_on else (second, first)
    again = Waiter(outages)
    eventually(lambda: outages.now())
    lucky.patience.attempted(AWAY)
    assert other.went_on is None
    service.is_back.set()
    eventually(lambda: other.went_on or again.went_on)


def test_outages_in_quick_succession_are_logged_once(service, outages, caplog):
    caplog.set_level(logging.DEBUG, 'novasched')
    service.is_back.set()
    patience = OutagePatience(outages, FakeCaller(), FAST)
    assert patience.wait(AWAY)
    assert patience.wait(AWAY)
    eventually(lambda: len(caplog.records) == 4)
    levels = [record.levelname for record in caplog.records]
    assert levels == ['WARNING', 'WARNING', 'DEBUG', 'DEBUG']


class Unhurried(FastOutages):
    """Keeps how long one rests; the time does not go by."""

    def __init__(self, probe):
        super().__init__(30.0, lambda name: probe, clock=FAST)
        self.rests = []

    def rest(self, seconds, until=None):
        if threading.current_thread() is threading.main_thread() and until is None:
            self.rests.append(seconds)
            return False
        return super().rest(seconds, until)


@cases(
    'others, goes_on',
    ('others are served', 1, False),
    ('none is', 0, True),
)
def test_the_same_failure_again_and_again_is_no_outage(service, others, goes_on):
    service.is_back.set()
    outages, unavailable = Unhurried(service.probe), {'a cell': 'gone'}
    patience = OutagePatience(outages, FakeCaller(), FAST)
    for _ in range(MOST_TIMES):
        assert patience.wait(unavailable)
    outages.served += others
    assert patience.wait(unavailable) == goes_on
    assert patience.is_over != goes_on
    assert outages.rests[:5] == [0.4, 0.8, 1.6, LONGEST_REST_S, LONGEST_REST_S]
    outages.close()


@cases(
    'is_query, looks, others, waits, goes_on',
    ('its query, in a quiet cloud', True, (), 0, 0, False),
    ('its query, and another request waits', True, (), 0, 1, True),
    ('its query, and looks fail, too', True, (False, True) * 3, 0, 0, True),
    ('its claim, in a quiet cloud', False, (), 0, 0, True),
    ('its claim, and few are served', False, (), MOST_ALONE - 1, 0, True),
    ('its claim, and others are served', False, (), MOST_ALONE, 0, False),
    ('its claim, and another one fails, too', False, (), MOST_ALONE, 1, True),
)
def test_a_request_that_alone_is_not_answered_by_placement_ends_soon(
    is_query, looks, others, waits, goes_on
):
    answers = iter(looks)
    outages = Unhurried(lambda: next(answers, True))
    patience = OutagePatience(outages, FakeCaller(), FAST)
    for _ in range(MOST_ALONE):
        assert patience.wait(AWAY, is_query)
    for _ in range(waits):
        assert OutagePatience(outages, FakeCaller(), FAST).wait(AWAY)
    outages.served += others
    assert patience.wait(AWAY, is_query) == goes_on
    outages.close()


def test_all_services_are_waited_for(service):
    others = Service()
    outages = FastOutages(
        30.0, {'placement': service.probe, 'the network': others.probe}.get
    )
    waiter = Waiter(outages, unavailable={**AWAY, 'the network': 'no answer in time'})
    service.is_back.set()
    eventually(lambda: [each.service for each in outages.now()] == ['the network'])
    assert waiter.went_on is None
    others.is_back.set()
    waiter.join(20)
    assert waiter.went_on
    outages.close()


@cases(
    'patience_s, caller, unavailable',
    ('nobody waits', 0.0, FakeCaller(), AWAY),
    ('no caller, as for a dry run', 30.0, NO_CALLER, AWAY),
    ('a caller that will have gone', 30.0, FakeCaller(answer_left_s=3.0), AWAY),
    ('nothing is away', 30.0, FakeCaller(), {}),
    ('nobody can say whether it is back', 30.0, FakeCaller(), {'memcached': 'gone'}),
)
def test_request_without_patience_caller_or_probe_does_not_wait(
    service, patience_s, caller, unavailable
):
    outages = FastOutages(patience_s, {'placement': service.probe}.get)
    assert not OutagePatience(outages, caller, FAST).wait(unavailable)
    assert (service.probes, outages.now()) == (0, [])


def test_its_time_is_over(service):
    outages = FastOutages(30.0, lambda _: service.probe)
    caller = FakeCaller(answer_left_s=ANSWER_TAKES_S + 0.3)
    waiter = Waiter(outages, caller)
    waiter.join(20)
    assert waiter.went_on is False
    assert outages.now()[0].in_vain == 1
    outages.close()


def test_attempts_that_hung_for_all_the_time_are_followed_by_two_more(service):
    outages, clock = FastOutages(30.0, lambda _: service.probe), FakeClock()
    patience = OutagePatience(outages, FakeCaller(answer_left_s=600.0), clock)
    service.is_back.set()
    for goes_on in (True, True, False):
        clock.advance(40)
        assert patience.wait(AWAY) is goes_on
    outages.close()


def test_least_wait_outlasts_a_probe_that_hung_and_its_repetition():
    assert FIRST_PAUSE_S + 2 * PROBE_S < LEAST_WAIT_S


def test_a_caller_that_gives_up_ends_it(outages):
    patience = OutagePatience(outages, FakeCaller(RuntimeError('gone')), FAST)
    with pytest.raises(RuntimeError):
        patience.wait(AWAY)
    assert outages.now()[0].waiting == 0


def test_stop_ends_all_waits(outages):
    waiter = Waiter(outages)
    eventually(lambda: outages.now() and outages.now()[0].waiting)
    outages.close('another')
    waiter.join(20)
    assert waiter.went_on is False
    assert outages.successor == 'another'
    assert not OutagePatience(outages, FakeCaller(), FAST).wait(AWAY)


@cases(
    'problem',
    ('a failure', errors.StoreFailed('placement', 'gone')),
    ('a defect', KeyError('odd')),
)
def test_a_probe_that_raises_is_put_again(service, outages, problem):
    service.problem = problem
    waiter = Waiter(outages)
    eventually(lambda: service.probes > 1)
    service.problem = None
    service.is_back.set()
    waiter.join(20)
    assert waiter.went_on


def test_the_service_of_a_cell_has_its_name():
    assert cell_of(cell('far')) == 'far'
    assert cell_of('placement') is None
