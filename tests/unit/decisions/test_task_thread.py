# SPDX-License-Identifier: Apache-2.0
"""A task is done when there is work, by one thread at a time, also at the end."""

import threading

import pytest

from novasched.decisions.task_thread import DRAIN_S, TaskThread
from novasched.runtime.clock import SYSTEM_CLOCK

PATIENCE_S = 30.0


class Task:
    """Takes what is in ``queue``; waits for ``gate`` first, and raises ``problem``."""

    def __init__(self):
        self.queue = []
        self.done = []
        self.at_once = self.most_at_once = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.left = threading.Semaphore(0)
        self.problem = None

    def __call__(self):
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.entered.release()
        try:
            self.gate.wait(PATIENCE_S)
            if self.problem is not None:
                raise self.problem
            while self.queue:
                self.done.append(self.queue.pop(0))
        finally:
            self.at_once -= 1
            self.left.release()


@pytest.fixture
def task():
    return Task()


@pytest.fixture
def make_thread(task):
    made = []

    def make(**options):
        made.append(TaskThread('task', task, **options))
        return made[-1]

    yield make
    task.gate.set()
    for thread in made:
        thread.close()


def give(task, thread, work):
    task.queue.append(work)
    thread.notify()


def awaited(semaphore):
    assert semaphore.acquire(timeout=PATIENCE_S)


def test_work_that_comes_meanwhile_is_done_next(task, make_thread):
    thread = make_thread()
    task.gate.clear()
    give(task, thread, 'a')
    awaited(task.entered)
    give(task, thread, 'b')
    task.gate.set()
    thread.close()
    assert (task.done, task.most_at_once) == (['a', 'b'], 1)


@pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')
@pytest.mark.parametrize('how', ['next', 'close'])
def test_a_thread_that_its_task_ended_is_replaced(task, make_thread, how):
    thread = make_thread()
    task.problem = SystemExit()
    give(task, thread, 'a')
    thread.thread.join(PATIENCE_S)
    task.problem = None
    if how == 'next':
        give(task, thread, 'b')
        awaited(task.left)
        awaited(task.left)
    thread.close()
    assert task.done == ['a', 'b'][: 2 if how == 'next' else 1]


@pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')
@pytest.mark.parametrize('is_ended', [False, True])
def test_closing_does_not_wait_long_for_a_task_that_hangs(task, make_thread, is_ended):
    thread = make_thread()
    if is_ended:
        task.problem = SystemExit()
        thread.notify()
        thread.thread.join(PATIENCE_S)
    task.gate.clear()
    give(task, thread, 'a')
    awaited(task.entered)
    began = SYSTEM_CLOCK.monotonic()
    thread.close()
    assert SYSTEM_CLOCK.monotonic() - began < DRAIN_S + 5


def test_work_after_closing_waits_for_no_task_that_hangs(task, make_thread):
    ended = []

    def last():
        ended.append((threading.current_thread(), task.at_once))

    thread = make_thread(last=last)
    task.gate.clear()
    give(task, thread, 'a')
    awaited(task.entered)
    thread.close()
    give(task, thread, 'b')
    assert (task.done, ended) == ([], [])
    task.gate.set()
    thread.thread.join(PATIENCE_S)
    assert (task.done, task.most_at_once) == (['a', 'b'], 1)
    assert ended == [(thread.thread, 0)]


def test_a_thread_that_cannot_be_started_is_started_later(task, make_thread, caplog):
    refused = [RuntimeError("can't start new thread")]

    def start(thread):
        if refused:
            raise refused.pop()
        thread.start()

    thread = make_thread(start=start)
    give(task, thread, 'a')
    assert "task cannot be started: can't start new thread" in caplog.text
    give(task, thread, 'b')
    thread.close()
    assert task.done == ['a', 'b']
