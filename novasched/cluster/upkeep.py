# SPDX-License-Identifier: Apache-2.0
"""What keeps the cluster view true between requests, in one thread."""

from __future__ import annotations

import logging
import threading
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
            help='Seconds between looks at the cells, the aggregates, the services '
            'and the lowest compute version. New, enabled and disabled cells need no '
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

    ``others`` are chores besides, which are due at once.
    """

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        check_interval_s: float = 60.0,
        reconcile_interval_s: float = 600.0,
        retry_interval_s: float = 5.0,
        others: Sequence[Chore] = (),
    ) -> None:
        self._clock = clock
        self._chores: list[Chore] = [
            (retry_interval_s, view.retry_left_out),
            (check_interval_s, view.check),
            (check_interval_s, view.read_services),
            (reconcile_interval_s, view.reconcile),
        ]
        now = clock.monotonic()
        self._due = [now + interval for interval, _ in self._chores]
        # Messages that came between the first look and the queue are lost.
        self._due[1] = now
        self._chores += others
        self._due += [now for _ in others]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name='upkeep', daemon=True)

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
        self._thread.start()

    def stop(self) -> None:
        """Stop after the chore that is being done, if that does not take long."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def run_due(self) -> None:
        """Do every chore whose time has come."""
        for number, (interval, chore) in enumerate(self._chores):
            if self._due[number] <= self._clock.monotonic():
                try:
                    chore()
                except errors.StoreFailed as problem:
                    LOG.warning('%s failed, trying again: %s', chore.__name__, problem)
                except Exception:  # the thread must outlive a defect
                    LOG.exception('%s failed, trying again', chore.__name__)
                self._due[number] = self._clock.monotonic() + interval

    def _run(self) -> None:
        while not self._stopped.wait(
            max(0.0, min(self._due) - self._clock.monotonic())
        ):
            self.run_due()
