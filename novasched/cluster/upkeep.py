# SPDX-License-Identifier: Apache-2.0
"""What keeps the cluster view true between requests, and what else is done then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from oslo_config import cfg

from novasched import errors
from novasched.cluster.view import ClusterView
from novasched.ports import Clock

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


Chore = tuple[float, Callable[[], None]]
"""The seconds between two times, and what is done."""


class Upkeep:
    """Runs the chores of a view when they are due, until it is stopped.

    ``others`` are chores besides, which are due at once. Each has a thread of its
    own: what never ends there keeps nothing else from being done.
    """

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        check_interval_s: float = 60.0,
        reconcile_interval_s: float = 600.0,
        retry_interval_s: float = 1.0,
        others: Sequence[Chore] = (),
    ) -> None:
        chores: list[Chore] = [
            (check_interval_s, view.check),
            (check_interval_s, view.read_services),
            (check_interval_s, view.check_instances),
            (reconcile_interval_s, view.reconcile),
        ]
        now = clock.monotonic()
        due = [now + interval for interval, _ in chores]
        # Messages that came between the first look and the queue are lost.
        due[0] = now
        retry, retry_due = (
            (retry_interval_s, view.retry_left_out),
            now + retry_interval_s,
        )
        self._stopped = threading.Event()
        self._lines = [
            # A cell that hangs in a full read keeps none from coming back.
            _Line('retry', clock, self._stopped, [retry], [retry_due]),
            _Line('upkeep', clock, self._stopped, chores, due),
        ]
        for each in others:
            name = each[1].__name__
            self._lines.append(_Line(name, clock, self._stopped, [each], [now]))

    @classmethod
    def from_conf(
        cls, conf: Any, view: ClusterView, clock: Clock, others: Sequence[Chore]
    ) -> Self:
        """Read the options."""
        own = conf.novasched
        return cls(
            view, clock, own.check_interval, own.reconcile_interval, others=others
        )

    def start(self) -> None:
        for line in self._lines:
            line.thread.start()

    def stop(self) -> None:
        """Stop after the chores that are being done, if that does not take long."""
        self._stopped.set()
        end = time.monotonic() + STOP_S
        for line in self._lines:
            if line.thread.is_alive():
                line.thread.join(max(0.0, end - time.monotonic()))

    def run_due(self) -> None:
        """Do every chore whose time has come, here and now."""
        for line in self._lines:
            line.run_due()


class _Line:
    """Chores that are done one after another, in one thread."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        stopped: threading.Event,
        chores: Sequence[Chore],
        due: list[float],
    ) -> None:
        self._clock = clock
        self._stopped = stopped
        self._chores = chores
        self._due = due
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def run_due(self) -> None:
        for number, (interval, chore) in enumerate(self._chores):
            if self._due[number] <= self._clock.monotonic():
                try:
                    chore()
                except errors.StoreFailed as problem:
                    LOG.warning('%s failed, trying again: %s', chore.__name__, problem)
                except Exception as problem:  # the thread must outlive a defect
                    LOG.exception(
                        '%s failed, trying again: %s', chore.__name__, problem
                    )
                self._due[number] = self._clock.monotonic() + interval

    def _run(self) -> None:
        while not self._stopped.wait(
            max(0.0, min(self._due) - self._clock.monotonic())
        ):
            self.run_due()
