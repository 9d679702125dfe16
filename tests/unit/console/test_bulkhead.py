# SPDX-License-Identifier: Apache-2.0
"""Questions of one kind: worked out once, a few at a time, for a while."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched import errors
from novasched.console.bulkhead import ERROR_FOR_S, LATE_FOR_S, Bulkhead
from tests.support.records.stored_records import SetClock

END_S = 30


class Question:
    """A question that is answered when a test says so; it counts how often."""

    def __init__(self, is_answered=True):
        self.asked = 0
        self.begun, self.may_end = threading.Event(), threading.Event()
        if is_answered:
            self.may_end.set()

    def __call__(self):
        self.asked += 1
        self.begun.set()
        assert self.may_end.wait(END_S)
        return self.asked


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def made(clock):
    opened = []

    def make(at_once=1, **more):
        opened.append(Bulkhead('plans', at_once, clock=clock, **more))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_those_who_ask_at_a_time_share_the_answer(made):
    bulkhead, question = made(at_once=2, most_clients=8), Question(is_answered=False)
    with ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(bulkhead.ask, 'one', question, 60.0) for _ in range(8)]
        assert question.begun.wait(END_S)
        question.may_end.set()
        assert [each.result() for each in asked] == [1] * 8


def test_an_answer_is_kept_for_a_while(made, clock):
    bulkhead, question = made(), Question()
    assert [bulkhead.ask('one', question, 5.0) for _ in range(3)] == [1, 1, 1]
    clock.monotonic_s += 4.9
    assert bulkhead.ask('one', question, 5.0) == 1
    clock.monotonic_s += 0.1
    assert bulkhead.ask('one', question, 5.0) == 2


def test_other_questions_have_other_answers(made):
    bulkhead, question = made(), Question()
    assert [bulkhead.ask(key, question, 5.0) for key in ('a', 'b', 'a')] == [1, 2, 1]


def test_an_error_is_kept_for_a_shorter_while(made, clock):
    bulkhead, asked = made(), []

    def fails():
        asked.append(1)
        raise errors.StoreFailed('Cell c', 'gone')

    for _ in range(2):
        with pytest.raises(errors.StoreFailed):
            bulkhead.ask('one', fails, 60.0)
    assert len(asked) == 1
    clock.monotonic_s += ERROR_FOR_S
    with pytest.raises(errors.StoreFailed):
        bulkhead.ask('one', fails, 60.0)
    assert len(asked) == 2


def test_question_beyond_the_queue_is_refused(made):
    bulkhead, question = made(most_waiting=1), Question(is_answered=False)
    with ThreadPoolExecutor(2) as clients:
        answers = [clients.submit(bulkhead.ask, n, question) for n in range(2)]
        assert question.begun.wait(END_S)
        while len(bulkhead._asked) < 2:
            pass
        with pytest.raises(errors.Busy, match='2 plans are being worked out already'):
            bulkhead.ask('third', question)
        question.may_end.set()
        assert sorted(each.result() for each in answers) == [1, 2]
    assert bulkhead.ask('third', question) == 3


@pytest.mark.parametrize('key', ['one', 'other'])
def test_client_beyond_the_limit_is_refused_at_once(made, key):
    bulkhead, question = made(most_clients=2), Question(is_answered=False)
    assert bulkhead.ask('known', Question(), 60.0) == 1
    with ThreadPoolExecutor(2) as clients:
        waiting = [clients.submit(bulkhead.ask, 'one', question) for _ in range(2)]
        while bulkhead._clients < 2:
            pass
        with pytest.raises(errors.Busy, match='2 clients waiting for plans already'):
            bulkhead.ask(key, question)
        assert bulkhead.ask('known', Question(), 60.0) == 1
        question.may_end.set()
        assert [each.result() for each in waiting] == [1, 1]
    assert bulkhead.ask(key, question) == 2


@pytest.mark.parametrize('max_age_s', [0.0, 60.0])
def test_late_answer_is_finished_and_cached(made, clock, max_age_s):
    bulkhead, question = made(within_s=0.01), Question(is_answered=False)
    with pytest.raises(errors.Busy, match=r'longer than 0\.01 s and is still being'):
        bulkhead.ask('one', question, max_age_s)
    question.may_end.set()
    while bulkhead._asked['one'].answered_at is None:
        pass
    clock.monotonic_s += LATE_FOR_S - 1
    assert bulkhead.ask('one', question, max_age_s, END_S) == question.asked == 1
    clock.monotonic_s += 60
    assert bulkhead.ask('one', question, max_age_s, END_S) == question.asked == 2


def test_a_question_that_times_out_by_itself_says_so(made):
    def times_out():
        raise TimeoutError('the database')

    with pytest.raises(TimeoutError, match='the database'):
        made().ask('one', times_out)


def test_a_client_may_wait_less_long(made):
    bulkhead, question = made(), Question(is_answered=False)
    with pytest.raises(errors.Busy, match=r'takes longer than 0\.01 s'):
        bulkhead.ask('one', question, within_s=0.01)
    question.may_end.set()


def test_few_answers_are_kept(made):
    bulkhead, question = made(most_kept=2), Question()
    for key in ('a', 'b', 'c', 'd'):
        bulkhead.ask(key, question, 60.0)
    assert len(bulkhead._asked) <= 2
