# SPDX-License-Identifier: Apache-2.0
"""Probes of components that have not been heard of for long."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from novasched import errors
from novasched.observability.health import Health

LOG = logging.getLogger(__name__)

PROBE_INTERVAL_S = 5.0


@dataclass(frozen=True)
class Probe:
    """A question whose answer is news of a component: None, or what is wrong.

    Unless ``always``, it is put only when there were no good news for long.
    """

    name: str
    ask: Callable[[], str | None]
    always: bool = False


class Probing:
    """Asks components that have not been heard of, in a thread of its own.

    ``besides`` is called as often: a worker that is killed takes to its grave what
    happened since then.
    """

    def __init__(
        self,
        health: Health,
        probes: tuple[Probe, ...],
        besides: Callable[[], None] = lambda: None,
    ) -> None:
        self._health = health
        self._probes = probes
        self._besides = besides
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name='health', daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def ask(self) -> None:
        """Ask those that it is time to ask."""
        for probe in self._probes:
            if probe.always or self._health.wants_news(probe.name):
                try:
                    problem = probe.ask()
                except errors.NovaschedError as error:
                    problem = str(error)
                self._tell(probe.name, problem)

    def _tell(self, name: str, problem: str | None) -> None:
        if problem is None:
            self._health.good(name)
        else:
            self._health.bad(name, problem)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._besides()
                self.ask()
            except Exception:  # the thread must outlive a defect
                LOG.exception('QueryPolicy for news failed')
            self._stopped.wait(PROBE_INTERVAL_S)
