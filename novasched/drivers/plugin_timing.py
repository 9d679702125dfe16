# SPDX-License-Identifier: Apache-2.0
"""Times of filters, weighers and drivers, and the ones that run now."""

from __future__ import annotations

import logging
import math
import threading
import weakref
from typing import Any, NamedTuple, Self

from oslo_config import cfg

from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

STUCK_AFTER_S = 30.0
NAMED_EVERY_S = 300.0
DRIVER = 'Driver'
"""Its time includes all filters and weighers that it runs."""

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'plugin_time_budget',
            default=1.0,
            min=0,
            help='Seconds that a filter or weigher may take for one request, all its '
            'servers together. One that takes longer is not stopped, but named in a '
            'warning, at most once in five minutes. 0: there is no budget.',
        ),
    ],
}


class Running(NamedTuple):
    """What is at work; ``kind`` is Filter, Weigher or Driver."""

    kind: str
    extension: str
    request_id: str | None
    since: float


class PluginTiming:
    """Knows what runs now in every thread, by the monotonic clock."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, budget_s: float = 0.0) -> None:
        self.clock = clock
        self.budget_s = budget_s or math.inf
        self._named_at: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._timers: weakref.WeakSet[RequestTimer] = weakref.WeakSet()
        self._stuck: set[Running] = set()

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(budget_s=conf.novasched.plugin_time_budget)

    def of(self, request_id: str | None) -> RequestTimer:
        """Return the timer of the filters, weighers and driver of one request."""
        timer = RequestTimer(self, request_id)
        with self._lock:
            self._timers.add(timer)
        return timer

    def running(self) -> dict[int, Running]:
        """Return the running calls, by thread."""
        with self._lock:
            timers = list(self._timers)
        return {timer.thread: now for timer in timers if (now := timer.running())}

    def log_stuck(self, older_than_s: float = STUCK_AFTER_S) -> None:
        """Log what has been running for longer, once for each time that it is."""
        now = self.clock.monotonic()
        running = sorted(self.running().values(), key=lambda call: call.since)
        stuck = [call for call in running if now - call.since > older_than_s]
        for call in stuck:
            if call not in self._stuck:
                LOG.warning(
                    '%s %s has been running for %d s for request %s',
                    call.kind,
                    call.extension,
                    now - call.since,
                    call.request_id,
                )
        self._stuck = set(stuck)

    def over_budget(self, run: Running, hosts: int, runs: int, took_s: float) -> None:
        """Name a filter or weigher in the log, unless that was done lately.

        ``took_s`` is for all of its ``runs`` for the request.
        """
        extension, now = (run.kind, run.extension), self.clock.monotonic()
        with self._lock:
            if now - self._named_at.get(extension, -math.inf) < NAMED_EVERY_S:
                return
            self._named_at[extension] = now
        LOG.warning(
            '%s %s took %.1f s for request %s, with %d host(s) in run %d; the time '
            'budget is %g s',
            run.kind,
            run.extension,
            took_s,
            run.request_id,
            hosts,
            runs,
            self.budget_s,
        )


class RequestTimer:
    """Watches one request, in the thread that decides it.

    Extensions may run within another: a driver lets the filters run. It is its own
    context manager and keeps plain tuples: it must cost nothing.
    """

    def __init__(self, timing: PluginTiming, request_id: str | None) -> None:
        self.thread = threading.get_ident()
        self._timing = timing
        self._clock = timing.clock.monotonic
        self._request_id = request_id
        self._at_work: list[tuple[str, str, int, float]] = []
        self._took_s: dict[str, float] = {}
        self._spent: dict[str, tuple[float, int]] = {}

    def __call__(self, kind: str, name: str, hosts: int) -> Self:
        """Start to measure; what is returned ends it."""
        self._at_work.append((kind, name, hosts, self._clock()))
        return self

    def __enter__(self) -> None:
        """Do nothing: the call came before."""

    def __exit__(self, *problem: object) -> None:
        kind, name, hosts, since = self._at_work.pop()
        took_s = self._clock() - since
        self._took_s[name] = self._took_s.get(name, 0.0) + took_s
        spent_s, runs = self._spent.get(name, (0.0, 0))
        self._spent[name] = spent_s, runs = spent_s + took_s, runs + 1
        if spent_s > self._timing.budget_s and kind != DRIVER:
            run = Running(kind, name, self._request_id, since)
            self._timing.over_budget(run, hosts, runs, spent_s)

    def running(self) -> Running | None:
        """Return the innermost running call."""
        for kind, name, _, since in self._at_work[-1:]:
            return Running(kind, name, self._request_id, since)
        return None

    def took_s(self) -> dict[str, float]:
        """Return the seconds that each took since this was last asked."""
        took_s, self._took_s = self._took_s, {}
        return took_s
