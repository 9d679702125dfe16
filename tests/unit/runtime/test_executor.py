# SPDX-License-Identifier: Apache-2.0
"""An executor runs what it is given, in few threads."""

import concurrent.futures
import itertools
import threading

import pytest

from novasched.runtime.executor import BulkheadExecutor
from tests.support.suite.waiting import eventually

DEADLINE_S = 30


@pytest.fixture
def executor():
    made = BulkheadExecutor('test-lane', 2)
    yield made
    made.close()
    made.join(DEADLINE_S)


def threads_named(name):
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_the_answer_comes_back(executor):
    assert executor.submit(lambda: 5).result(DEADLINE_S) == 5


def test_error_of_a_call_comes_back(executor):
    def fail():
        raise LookupError('no such thing')

    with pytest.raises(LookupError, match='no such thing'):
        executor.submit(fail).result(DEADLINE_S)
    assert executor.submit(lambda: 5).result(DEADLINE_S) == 5


def test_call_that_has_not_begun_serves_all_with_its_key(executor, gate):
    made = itertools.count()
    busy = [executor.submit(lambda: gate.wait(DEADLINE_S)) for _ in range(2)]
    first, second, other = (
        executor.submit_shared(key, lambda: next(made)) for key in 'aab'
    )
    gate.set()
    assert all(call.result(DEADLINE_S) for call in busy)
    assert first.result(DEADLINE_S) == second.result(DEADLINE_S)
    assert {first.result(DEADLINE_S), other.result(DEADLINE_S)} == {0, 1}


def test_call_that_has_begun_serves_no_other(executor, gate):
    begun = threading.Event()

    def wait():
        begun.set()
        return gate.wait(DEADLINE_S)

    first = executor.submit_shared('a', wait)
    assert begun.wait(DEADLINE_S)
    assert executor.submit_shared('a', lambda: 'later').result(DEADLINE_S) == 'later'
    gate.set()
    assert first.result(DEADLINE_S)


def test_shared_call_without_a_thread_fails_for_all():
    def start(thread):
        raise RuntimeError("can't start new thread")

    executor = BulkheadExecutor('no-lane', 2, start)
    for _ in range(2):
        with pytest.raises(RuntimeError, match='new thread'):
            executor.submit_shared('a', lambda: 5).result(DEADLINE_S)


def test_no_more_threads_than_it_is_wide(executor, gate):
    calls = [executor.submit(lambda: gate.wait(DEADLINE_S)) for _ in range(5)]
    assert len(threads_named('test-lane')) == 2
    gate.set()
    assert all(call.result(DEADLINE_S) for call in calls)


def test_an_idle_thread_is_used_again():
    executor = BulkheadExecutor('reused-lane', 8)
    for _ in range(20):
        executor.submit(lambda: None).result(DEADLINE_S)
    assert len(threads_named('reused-lane')) == 1
    executor.close()


def test_a_call_that_was_given_up_is_not_made(executor, gate):
    made = []
    busy = [executor.submit(lambda: gate.wait(DEADLINE_S)) for _ in range(2)]
    waiting = executor.submit(lambda: made.append(1))
    assert waiting.cancel()
    gate.set()
    concurrent.futures.wait(busy, DEADLINE_S)
    assert executor.submit(lambda: 5).result(DEADLINE_S) == 5
    assert made == []


def test_a_lane_outlives_a_thread_that_cannot_be_started(gate):
    starts, made = [False, True, False], []

    def start(thread):
        if not starts.pop(0):
            raise RuntimeError("can't start new thread")
        thread.start()

    executor = BulkheadExecutor('poor-lane', 2, start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        executor.submit(lambda: made.append('refused'))
    busy = executor.submit(lambda: gate.wait(DEADLINE_S))
    waiting = executor.submit(lambda: 5)
    gate.set()
    assert busy.result(DEADLINE_S)
    assert waiting.result(DEADLINE_S) == 5
    assert made == []
    executor.close()
    executor.join(DEADLINE_S)


def test_closing_ends_the_threads_when_their_work_is_done():
    executor = BulkheadExecutor('closed-lane', 2)
    last = executor.submit(lambda: 5)
    threads = threads_named('closed-lane')
    executor.close()
    assert last.result(DEADLINE_S) == 5
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_joining_waits_for_all_threads_but_not_for_ever(gate):
    executor = BulkheadExecutor('joined-lane', 4)
    for _ in range(4):
        executor.submit(lambda: gate.wait(DEADLINE_S))
    threads = threads_named('joined-lane')
    executor.close()
    executor.join(0.01)
    assert [thread.is_alive() for thread in threads] == [True] * 4
    gate.set()
    executor.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_do_not_keep_the_process_alive(executor):
    executor.submit(lambda: None).result(DEADLINE_S)
    assert all(thread.daemon for thread in threads_named('test-lane'))


def test_a_thread_that_rests_lets_another_one_work():
    executor = BulkheadExecutor('requests', 1)
    begun, ends = threading.Event(), threading.Event()

    def wait():
        with executor.resting():
            begun.set()
            assert ends.wait(30)

    first = executor.submit(wait)
    assert begun.wait(30)
    before = executor.submit(threading.current_thread)
    assert before.result(30) is not None
    ends.set()
    first.result(30)
    others = {executor.submit(threading.current_thread).result(30) for _ in range(9)}
    assert len(others) == 1
    eventually(lambda: len(executor._threads) == 1)
    executor.close()


def test_queued_call_runs_once_a_thread_rests():
    executor = BulkheadExecutor('requests', 1)
    begun, rests, ends = threading.Event(), threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert rests.wait(30)
        with executor.resting():
            assert ends.wait(30)

    first = executor.submit(wait)
    assert begun.wait(30)
    second = executor.submit(lambda: 'done')
    rests.set()
    assert second.result(30) == 'done'
    ends.set()
    first.result(30)
    executor.close()
