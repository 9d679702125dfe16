# SPDX-License-Identifier: Apache-2.0
"""A thread that does one task when it is told of work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)

DRAIN_S = 2.0
"""Seconds that closing waits for what is left to do."""


class TaskThread:
    """Does a task in a thread each time there may be work.

    The thread starts with the first work, waits ``pause_s`` so that more of it is done
    together, and ends with close(). The task is also done every ``again_s()`` seconds
    while that is not None.
    """

    def __init__(
        self,
        name: str,
        task: Callable[[], None],
        pause_s: float = 0.0,
        again_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._name = name
        self._task = task
        self._pause_s = pause_s
        self._again_s = again_s
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def notify(self) -> None:
        """Have the task done soon; raise nothing."""
        if not self._is_running():
            self._start()
        if not self._work.is_set():
            self._work.set()

    def _is_running(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def _start(self) -> None:
        """Start the thread, also in place of one that its task has ended."""
        with self._starting:
            if not self._is_running() and not self._stopping.is_set():
                thread = threading.Thread(
                    target=self._run, name=self._name, daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as problem:  # the next work tries again
                    LOG.error('Records of decisions wait: %s', problem)
                    return
                self.thread = thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._work.wait(self._again_s())
            if self._pause_s:
                self._stopping.wait(self._pause_s)
            self._work.clear()
            self._task()
        self._task()

    def close(self) -> None:
        """Do what is left, for DRAIN_S at most, and stop."""
        self._stopping.set()
        self._work.set()
        if self.thread is not None and self.thread.is_alive():
            self.thread.join(DRAIN_S)
        else:
            self._task()
