# SPDX-License-Identifier: Apache-2.0
"""Other schedulers: who is asked, and when again."""

import pytest

from novasched.inspection.questions.schedulers import (
    ALL_OTHERS,
    HOSTS_FOR_S,
    RETRY_AFTER_S,
    OtherSchedulers,
)
from tests.support.records.stored_records import SetClock
from tests.unit.inspection.machines import Machines, log_of, raising

LATE = 'did not answer within 2 s'


@pytest.fixture
def clock():
    return SetClock()


def test_silent_scheduler_is_asked_again_after_an_interval(clock):
    machines = Machines(good=log_of(), hung=LATE)
    others = OtherSchedulers(lambda: ['good', 'hung'], lambda: machines, clock)
    for _ in range(2):
        (reply,) = others.ask('find')
        assert reply.host == 'good'
        assert others.unanswered == ['hung']
    clock.monotonic_s += RETRY_AFTER_S
    machines.logs['hung'] = log_of()
    assert len(others.ask('find')) == 2
    assert machines.asked == [['good', 'hung'], ['good'], ['good', 'hung']]
    assert others.unanswered == others.warnings == []


def test_nova_scheduler_is_asked_once(clock):
    machines = Machines(nova=None)
    others = OtherSchedulers(lambda: ['nova'], lambda: machines, clock)
    for _ in range(3):
        assert others.ask('find') == []
        clock.monotonic_s += RETRY_AFTER_S
    assert machines.asked == [['nova']]
    assert (others.without_log, others.unanswered) == (['nova'], [])


def test_no_connection_without_other_schedulers(clock):
    others = OtherSchedulers(list, raising('not called'), clock)
    assert others.ask('find') == []
    assert others.unanswered == []


def test_the_database_away_hides_all_for_a_while(clock):
    machines, answers = Machines(good=log_of()), [raising('gone'), lambda: ['good']]
    others = OtherSchedulers(lambda: answers.pop(0)(), lambda: machines, clock)
    for _ in range(2):
        assert others.ask('find') == []
        assert others.unanswered == [ALL_OTHERS]
        (warning,) = others.warnings
        assert warning == (
            'other schedulers are not known: nova at db1 could not be asked: gone; '
            'decisions that they made are not seen'
        )
    clock.monotonic_s += RETRY_AFTER_S
    assert len(others.ask('find')) == 1
    assert others.unanswered == []


def test_invalid_broker_url_hides_all_others(clock):
    others = OtherSchedulers(lambda: ['good'], raising('no URL'), clock)
    assert others.ask('find') == []
    assert others.unanswered == [ALL_OTHERS]


def test_after_a_while_it_is_looked_who_is_live(clock):
    machines, live = Machines(first=log_of(), second=None), ['first']
    others = OtherSchedulers(lambda: list(live), lambda: machines, clock)
    assert len(others.ask('find')) == 1
    live.append('second')
    others.ask('find')
    clock.monotonic_s += HOSTS_FOR_S
    others.ask('find')
    assert machines.asked == [['first'], ['first'], ['first', 'second']]
    assert others.without_log == ['second']
    live.remove('first')
    machines.logs['second'] = log_of()
    clock.monotonic_s += HOSTS_FOR_S
    assert [reply.host for reply in others.ask('find')] == ['second']
    assert others.without_log == []


def test_those_known_are_asked_while_the_database_is_away(clock):
    machines, answers = Machines(good=log_of()), [lambda: ['good'], raising('gone')]
    others = OtherSchedulers(lambda: answers.pop(0)(), lambda: machines, clock)
    others.ask('find')
    clock.monotonic_s += HOSTS_FOR_S
    assert len(others.ask('find')) == 1
    assert others.unanswered == [ALL_OTHERS]
