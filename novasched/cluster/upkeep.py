# SPDX-License-Identifier: Apache-2.0
"""What keeps the cluster view true between requests, and what else is done then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

from oslo_config import cfg

from novasched.cluster.periodic import Chore, Runner
from novasched.cluster.view import ClusterView
from novasched.ports import Clock

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
        # Messages that came between the first look and the queue are lost: so now.
        delays_s = [0.0, *(interval_s for interval_s, _ in chores[1:])]
        retry = (retry_interval_s, view.retry_left_out)
        self._runners = [
            # A cell that hangs in a full read keeps none from coming back.
            Runner('retry', [retry], [retry_interval_s], clock.monotonic),
            Runner('upkeep', chores, delays_s, clock.monotonic),
        ]
        for each in others:
            name = each[1].__name__
            self._runners.append(Runner(name, [each], [0.0], clock.monotonic))

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
        for runner in self._runners:
            runner.start()

    def stop(self) -> None:
        """Stop after the chores that are being done, if that does not take long."""
        for runner in self._runners:
            runner.stop()
        end = time.monotonic() + STOP_S
        for runner in self._runners:
            runner.join(end - time.monotonic())

    def run_due(self) -> None:
        """Do every chore whose time has come, here and now."""
        for runner in self._runners:
            runner.run_due()
