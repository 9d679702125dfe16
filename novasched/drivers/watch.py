# SPDX-License-Identifier: Apache-2.0
"""How long filters, weighers and drivers run, and which of them run now."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple, Self

LOG = logging.getLogger(__name__)

STUCK_AFTER_S = 30.0


class Running(NamedTuple):
    """What is at work; ``kind`` is Filter, Weigher or Driver."""

    kind: str
    extension: str
    request_id: str | None
    since: float


class Watch:
    """Knows what runs now in every thread, by the monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._laps: weakref.WeakSet[Lap] = weakref.WeakSet()
        self._told: set[Running] = set()

    def of(self, request_id: str | None) -> Lap:
        """Return what watches the filters, weighers and driver of one request."""
        lap = Lap(self.clock, request_id)
        with self._lock:
            self._laps.add(lap)
        return lap

    def running(self) -> dict[int, Running]:
        """Return what runs now, by thread."""
        with self._lock:
            laps = list(self._laps)
        return {lap.thread: now for lap in laps if (now := lap.running())}

    def stuck(self, older_than_s: float) -> list[Running]:
        """Return what has been running for longer, the longest first."""
        before = self.clock() - older_than_s
        found = [each for each in self.running().values() if each.since < before]
        return sorted(found, key=lambda each: each.since)

    def tell_stuck(self, older_than_s: float = STUCK_AFTER_S) -> None:
        """Log what has been running for longer, once for each time that it is."""
        stuck = self.stuck(older_than_s)
        for each in stuck:
            if each not in self._told:
                LOG.warning(
                    '%s %s has been running for %d s for request %s',
                    each.kind,
                    each.extension,
                    self.clock() - each.since,
                    each.request_id,
                )
        self._told = set(stuck)


class Lap:
    """Watches one request, in the thread that decides it.

    Extensions may run within another: a driver lets the filters run. It is its own
    context manager and keeps plain tuples: it must cost nothing.
    """

    __slots__ = ('__weakref__', '_at_work', '_clock', '_ended', '_request_id', 'thread')

    def __init__(self, clock: Callable[[], float], request_id: str | None) -> None:
        self.thread = threading.get_ident()
        self._clock = clock
        self._request_id = request_id
        self._at_work: list[tuple[str, str, float]] = []
        self._ended: list[tuple[str, float]] = []

    def __call__(self, kind: str, name: str) -> Self:
        """Start to measure; what is returned ends it."""
        self._at_work.append((kind, name, self._clock()))
        return self

    def __enter__(self) -> None:
        """Do nothing: the call came before."""

    def __exit__(self, *problem: object) -> None:
        _, name, since = self._at_work.pop()
        self._ended.append((name, self._clock() - since))

    def running(self) -> Running | None:
        """Return what runs now, the innermost."""
        for kind, name, since in self._at_work[-1:]:
            return Running(kind, name, self._request_id, since)
        return None

    def took_s(self) -> dict[str, float]:
        """Return the seconds that each took since this was last asked."""
        found: dict[str, float] = {}
        for name, took_s in self._ended:
            found[name] = found.get(name, 0.0) + took_s
        self._ended.clear()
        return found
