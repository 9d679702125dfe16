# SPDX-License-Identifier: Apache-2.0
"""Thread that does a task when it is notified of work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)

DRAIN_S = 2.0
"""Seconds that closing waits for what is left to do."""


class TaskThread:
    """Does a task, which takes all the work there is, never twice at once.

    The thread starts with the first work, and once more where the task has ended it. It
    waits ``pause_s``, so that more work is done together, and does the task every
    ``again_s()`` seconds, too, while that is not None. At the end it does ``last``.
    """

    def __init__(
        self,
        name: str,
        task: Callable[[], None],
        pause_s: float = 0.0,
        again_s: Callable[[], float | None] = lambda: None,
        start: Callable[[threading.Thread], None] = threading.Thread.start,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._task = task
        self._pause_s = pause_s
        self._again_s = again_s
        self._start = start
        self._last = last
        self._work = threading.Event()
        self._doing = threading.Lock()
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def notify(self) -> None:
        """Have the task done soon; after close() here, unless it is being done."""
        if not self._work.is_set():
            self._work.set()
        if self._stopping.is_set():
            self._do()
        elif not self._is_running():
            with self._starting:
                if not self._is_running() and not self._stopping.is_set():
                    self._start_one()

    def _is_running(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def _start_one(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._start(thread)
        except RuntimeError as problem:  # the next work tries again
            LOG.error('Thread %s cannot be started: %s', self._name, problem)
            return
        self.thread = thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._work.wait(self._again_s()):
                self._work.set()
            if self._pause_s:
                self._stopping.wait(self._pause_s)
            self._do()
        self._do()  # what came just before the end
        with self._doing:
            self._last()
        self._do()  # what came meanwhile

    def _do(self) -> None:
        """Do the task as long as there is work, unless another thread does."""
        while self._work.is_set() and self._doing.acquire(blocking=False):
            try:
                self._work.clear()
                self._task()
            finally:
                self._doing.release()

    def close(self) -> None:
        """Do what is left, for DRAIN_S at most, and stop."""
        with self._starting:
            if self.thread is None and not self._work.is_set():
                self._stopping.set()
                return
            self._work.set()  # first: a thread that sees the end does this work
            self._stopping.set()
            if not self._is_running():
                self._start_one()
        if self.thread is not None:
            self.thread.join(DRAIN_S)
