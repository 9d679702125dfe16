# SPDX-License-Identifier: Apache-2.0
"""The periodic runner: chores that come due again and again, each group in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from novasched import errors

LOG = logging.getLogger(__name__)

Chore = tuple[float, Callable[[], None]]
"""The seconds between two times, and what is done."""


class Runner:
    """Does chores one after another in a thread, which outlives their defects.

    ``delays_s`` are the seconds until each is due first. A failure is logged once until
    it is over, a defect with its traceback.
    """

    def __init__(
        self,
        name: str,
        chores: Sequence[Chore],
        delays_s: Sequence[float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        now = monotonic()
        self._monotonic = monotonic
        self._chores = chores
        self._due = [now + delay_s for delay_s in delays_s]
        self._failing: dict[int, str] = {}
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Start no more chores; return before those being done have ended."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        """Wait so long at most for the thread to end, after stopping."""
        if self.thread.is_alive():
            self.thread.join(max(0.0, timeout_s))

    def run_due(self) -> None:
        """Do every chore whose time has come, here and now."""
        for number, (interval_s, run) in enumerate(self._chores):
            if self._due[number] <= self._monotonic():
                self._do(number, run)
                self._due[number] = self._monotonic() + interval_s

    def _do(self, number: int, run: Callable[[], None]) -> None:
        name = getattr(run, '__name__', repr(run))
        try:
            run()
        except errors.StoreFailed as problem:
            if self._is_new(number, problem):
                LOG.warning('%s failed, trying again: %s', name, problem)
        except Exception as problem:  # the thread must outlive a defect
            if self._is_new(number, problem):
                LOG.exception('%s failed, trying again: %s', name, problem)
        else:
            if self._failing.pop(number, None):
                LOG.info('%s succeeds again', name)

    def _is_new(self, number: int, problem: Exception) -> bool:
        """Note a failure; return whether the last attempt failed otherwise, or not."""
        before, now = self._failing.get(number), f'{type(problem).__name__}: {problem}'
        self._failing[number] = now
        return before != now

    def _run(self) -> None:
        while not self._stopped.wait(max(0.0, min(self._due) - self._monotonic())):
            self.run_due()
