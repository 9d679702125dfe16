# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks, their threads, and the host-wide lock for one worker to run them."""

from __future__ import annotations

import errno
import hashlib
import logging
import random
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from oslo_config import cfg

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.log_once import LogOnce

if TYPE_CHECKING:
    from novasched.cluster.view import ClusterView

LOG = logging.getLogger(__name__)

STOP_S = 5.0

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'check_interval',
            default=60.0,
            min=1.0,
            help='Seconds between looks at the cells, the aggregates, the services, '
            'the lowest compute version and, as long as filters or weighers ask for '
            'them, the instances. New, enabled and disabled cells need no '
            'signal.',
        ),
        cfg.FloatOpt(
            'reconcile_interval',
            default=600.0,
            min=1.0,
            help='Seconds between full reads of the hosts, which find what a delta '
            'cannot show.',
        ),
    ]
}

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


class PeriodicTasks:
    """Runs the periodic tasks of a view when they are due, until it is stopped.

    ``others`` are further tasks, which are due at once. Each has a thread of its own:
    one that never ends delays no other. The first full read is due after a share of its
    interval, the ``phase``, so that workers that start together do not read together.
    """

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        check_interval_s: float = 60.0,
        reconcile_interval_s: float = 600.0,
        retry_interval_s: float = 1.0,
        others: Sequence[PeriodicTask] = (),
        phase: float = 1.0,
    ) -> None:
        tasks: list[PeriodicTask] = [
            (check_interval_s, view.check),
            (check_interval_s, view.read_services),
            (check_interval_s, view.check_instances),
            (reconcile_interval_s, view.reconcile),
        ]
        # Messages that came between the first look and the queue are lost: so now.
        delays_s = [0.0, *(interval_s for interval_s, _ in tasks[1:])]
        delays_s[-1] *= phase
        retry = retry_interval_s, view.retry_unavailable
        self._runners = [
            # Retries have their own thread: a hung full read must not delay them.
            PeriodicRunner('retry', [retry], [retry_interval_s], clock),
            PeriodicRunner('upkeep', tasks, delays_s, clock),
            *(PeriodicRunner(o[1].__name__, [o], [0.0], clock) for o in others),
        ]

    @classmethod
    def from_conf(
        cls, conf: Any, view: ClusterView, clock: Clock, others: Sequence[PeriodicTask]
    ) -> Self:
        """Read the options."""
        own, phase = conf.novasched, random.uniform(0.5, 1.0)
        check_s, reconcile_s = own.check_interval, own.reconcile_interval
        return cls(view, clock, check_s, reconcile_s, others=others, phase=phase)

    def start(self) -> None:
        for runner in self._runners:
            runner.start()

    def stop(self) -> None:
        """Stop after the tasks that are being done, if that does not take long."""
        for runner in self._runners:
            runner.stop()
        end = SYSTEM_CLOCK.monotonic() + STOP_S
        for runner in self._runners:
            runner.join(end - SYSTEM_CLOCK.monotonic())

    def run_due(self) -> None:
        """Run every task that is due, here and now."""
        for runner in self._runners:
            runner.run_due()


FOLLOWS_EVERY = 10
"""Of so many runs of a task one is done by a process that does not lead, too."""


class Leadership:
    """Whether a process does a task that one of several is to do: each time if it
    ``leads``, and now and then if it does not, so that a leader that is alive and does
    nothing costs no more than time."""

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
    """Host-wide lock, held by one process until it ends, however it ends.

    It is the name of an abstract socket: no file is left behind, and the kernel
    releases it with the process. The file locks of oslo.concurrency and fasteners need
    a directory that every user can write, and leave a file there that another user
    may not open. The name is hashed, so it may hold a secret.
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
