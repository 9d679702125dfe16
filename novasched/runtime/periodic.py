# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks in a thread, and which of several processes runs one."""

from __future__ import annotations

import errno
import hashlib
import logging
import socket
import threading
import weakref
from collections.abc import Callable, Sequence

from novasched import errors
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

PeriodicTask = tuple[float, Callable[[], None]]
"""The seconds between two runs, and the function to run."""


class PeriodicRunner:
    """Runs periodic tasks one after another in a thread, which outlives their defects.

    ``delays_s`` are the seconds until each is due first. A failure is logged once until
    it is over, a defect with its traceback.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[PeriodicTask],
        delays_s: Sequence[float],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        now = clock.monotonic()
        self._clock = clock
        self._tasks = tasks
        self._due = [now + delay_s for delay_s in delays_s]
        self._failing = LogOnce()
        self._stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Start no more tasks; return before those being done have ended."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        """Wait so long at most for the thread to end, after stopping."""
        if self.thread.is_alive():
            self.thread.join(max(0.0, timeout_s))

    def run_due(self) -> None:
        """Run every task that is due, here and now."""
        for number, (interval_s, run) in enumerate(self._tasks):
            if self._due[number] <= self._clock.monotonic():
                self._do(number, run)
                self._due[number] = self._clock.monotonic() + interval_s

    def _do(self, number: int, run: Callable[[], None]) -> None:
        name = getattr(run, '__name__', repr(run))
        try:
            run()
        except Exception as problem:
            if self._failing.begins(number, f'{type(problem).__name__}: {problem}'):
                defect = not isinstance(problem, errors.StoreFailed)
                LOG.log(
                    logging.ERROR if defect else logging.WARNING,
                    '%s failed, trying again: %s',
                    name,
                    problem,
                    exc_info=defect,
                )
        else:
            if self._failing.ends(number):
                LOG.info('%s succeeds again', name)

    def _run(self) -> None:
        while not self._stopped.wait(max(0, min(self._due) - self._clock.monotonic())):
            self.run_due()


FOLLOWS_EVERY = 10
"""Of so many runs of a task one is done by a process that does not lead, too."""


class Leadership:
    """Whether a process does a task that one of several is to do.

    It does each run if it ``leads``, and a run now and then if not. So a leader that is
    alive and does nothing costs no more than time.
    """

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads
        self._left_out = 0

    def has_turn(self) -> bool:
        """Return whether this run is to be done."""
        self._left_out += 1
        if not self._leads() and self._left_out < FOLLOWS_EVERY:
            return False
        self._left_out = 0
        return True


class HostLock:
    """Host-wide lock, for one worker to run a task: held by one process until it ends,
    however it ends.

    It is the name of an abstract socket: the kernel releases it, and leaves no file.
    File locks of oslo.concurrency and fasteners need a directory that all users can
    write. The name is hashed, so may be secret.
    """

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()
        self._address = f'\0novasched-{digest[:32]}'
        self._held = False

    def acquire(self) -> bool:
        """Take the lock, and keep it; False if another process has it."""
        if self._held:
            return True
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.bind(self._address)
        except OSError as problem:
            made.close()
            if problem.errno != errno.EADDRINUSE:
                raise
            return False
        weakref.finalize(self, made.close)
        self._held = True
        return True
