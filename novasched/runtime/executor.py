# SPDX-License-Identifier: Apache-2.0
"""Bulkhead executor: a few threads for each cell, so that a hung one delays no other.

They are daemons: a call that never comes back does not keep the process alive.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from novasched import errors
from novasched.runtime.clock import SYSTEM_CLOCK

ResultT = TypeVar('ResultT')

SLOWER = 3.0
"""How many times longer than the fastest one may always take: under load, they
all take longer."""


FAST_S = 0.5
"""A read that breaks off sooner is made once more.

It took almost no time, and the first new connection shows whether the database serves.
"""


def retry_once(read: Callable[[], ResultT]) -> ResultT:
    """Read; a second time, if the first one soon broke off.

    What was pooled with a connection that is lost is not used again.
    """
    started = SYSTEM_CLOCK.monotonic()
    try:
        return read()
    except errors.StoreInterrupted:
        if SYSTEM_CLOCK.monotonic() - started > FAST_S:
            raise
    return read()


MOST_RESTING = 500
"""Threads that may wait while others work in their place."""

Call = Callable[[], Callable[[], None]]
"""Does something, and returns what hands the outcome over."""


def _nothing() -> None:
    """Hand nothing over."""


def _run(future: Future[Any], make: Callable[[], Any]) -> Callable[[], None]:
    """Make a call; return the function that hands the outcome to the caller."""
    if not future.set_running_or_notify_cancel():
        return _nothing
    try:
        return functools.partial(future.set_result, make())
    except BaseException as problem:  # noqa: BLE001 the caller gets it
        return functools.partial(future.set_exception, problem)


class CellAnswers(Generic[ResultT]):
    """The answers to questions that are put side by side, by their keys.

    ``found`` has the answers, ``problems`` what was raised instead. It costs less than
    futures, whose waiters cost four locks for each of many questions.
    """

    def __init__(self) -> None:
        self._came: queue.SimpleQueue[tuple[str, Any, BaseException | None]]
        self._came = queue.SimpleQueue()
        self._is_over = False
        self.found: dict[str, ResultT] = {}
        self.problems: dict[str, BaseException] = {}

    def call(self, key: str, question: Callable[[], ResultT]) -> Callable[[], None]:
        """Ask, unless none waits any more; return what hands the answer over."""
        if self._is_over:
            return _nothing
        try:
            came = key, question(), None
        except BaseException as problem:  # noqa: BLE001 who asks gets it
            return functools.partial(self._came.put, (key, None, problem))
        return functools.partial(self._came.put, came)

    def wait(self, number: int, limit_s: float, patience_s: float) -> None:
        """Wait for so many; those that are late are not asked any more.

        ``limit_s`` holds once there is an answer, ``patience_s`` as long as there is
        none.
        """
        started = SYSTEM_CLOCK.monotonic()
        ends_at = started + max(limit_s, patience_s)
        for _ in range(number):
            left_s = max(0.0, ends_at - SYSTEM_CLOCK.monotonic())
            try:
                key, answer, problem = self._came.get(timeout=left_s)
            except queue.Empty:
                break
            if problem is not None:
                self.problems[key] = problem
                continue
            if not self.found:
                took_s = SYSTEM_CLOCK.monotonic() - started
                ends_at = started + max(limit_s, SLOWER * took_s)
            self.found[key] = answer
        self._is_over = True


class BulkheadExecutor:
    """Executor of at most ``width`` threads, which ``start`` starts when there is work
    for one more."""

    def __init__(
        self,
        name: str,
        width: int,
        start: Callable[[threading.Thread], None] = threading.Thread.start,
    ) -> None:
        self._name = name
        self._width = width
        self._start = start
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._resting, self._is_closed = 0, False
        self._idle = 0  # less the calls that wait for a thread
        self._waiting: dict[Hashable, Future[Any]] = {}  # shared calls, not begun

    def submit(self, make: Callable[[], ResultT]) -> Future[ResultT]:
        """Run ``make`` in a thread, after those that came before it.

        Raises RuntimeError where there is no thread, and none can be started.
        """
        future: Future[ResultT] = Future()
        self.call(functools.partial(_run, future, make))
        return future

    def submit_shared(
        self, key: Hashable, make: Callable[[], ResultT]
    ) -> Future[ResultT]:
        """As submit; but a call with this key that has not begun yet serves both."""

        def begin() -> ResultT:
            with self._lock:
                self._waiting.pop(key, None)
            return make()

        future: Future[ResultT] = Future()
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None and not waiting.cancelled():
                return waiting
            self._waiting[key] = future
        try:
            self.call(functools.partial(_run, future, begin))
        except RuntimeError as problem:
            with self._lock:
                self._waiting.pop(key, None)
            future.set_exception(problem)
        return future

    def call(self, call: Call) -> None:
        """Make a call in a thread; see submit."""
        with self._lock:
            if self._idle <= 0 and len(self._threads) < self._width:
                self._add_thread()
            self._idle -= 1
            self._calls.put(call)

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            self._start(thread)
        except RuntimeError:
            if not self._threads:
                raise
            return
        self._threads.append(thread)
        self._idle += 1

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Let another thread work while this one, which is of here, only waits; up to
        MOST_RESTING do so, and none once it is closed."""
        with self._lock:
            rests = self._resting < MOST_RESTING and not self._is_closed
            self._resting += rests
            self._width += rests
            if rests and self._idle < 0:
                with contextlib.suppress(RuntimeError):  # there is no thread to be had
                    self._add_thread()
        try:
            yield
        finally:
            with self._lock:
                self._resting -= rests
                self._width -= rests
                if len(self._threads) > self._width and not self._is_closed:
                    self._idle -= 1
                    self._calls.put(None)  # so that one ends

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            report = call()
            with self._lock:
                self._idle += 1
            report()
            del call, report  # an idle thread keeps no answer alive
        with self._lock:
            self._threads.remove(threading.current_thread())

    def close(self) -> None:
        """Let the threads end when they have done what they were given."""
        with self._lock:
            self._is_closed = True
            for _ in self._threads:
                self._calls.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait so long at most for the threads to end, after closing."""
        deadline = SYSTEM_CLOCK.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
