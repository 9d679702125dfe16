# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks of the cluster view."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Self

from oslo_config import cfg

from novasched.cluster.view import ClusterView
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.periodic import PeriodicRunner, PeriodicTask

STOP_S = 5.0

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'check_interval',
            default=60.0,
            min=1.0,
            help='Seconds between reads of the cells, the aggregates, the services and '
            'the lowest compute version. The instances are read, too, as long as '
            'filters or weighers ask for them, and the public flavors if '
            'KeepRoomWeigher needs them. New, enabled and disabled cells need no '
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


class PeriodicTasks:
    """Runs the periodic tasks of a view when they are due, until it is stopped.

    ``others`` are further tasks, which are due at once. Each has its own thread, so a
    hung task delays no other. The first full read is due after the share ``phase`` of
    its interval, so that workers started together do not read together.
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
            (check_interval_s, view.read_public_flavors),
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
        cls,
        conf: Any,
        view: ClusterView,
        clock: Clock,
        others: Sequence[PeriodicTask],
    ) -> Self:
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
