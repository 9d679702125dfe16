# SPDX-License-Identifier: Apache-2.0
"""Reads that concurrent callers share; each read began after its callers asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from novasched.runtime.clock import Clock


@dataclass(eq=False)
class Refresh:
    """Runs ``read`` so that each caller gets one that began after it called.

    Callers that come while one is running share the next.
    """

    read: Callable[[], None]
    clock: Clock
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _running: bool = False
    _started: int = 0
    _finished: int = 0
    _began_at: float = float('-inf')
    _running_since: float = float('-inf')

    def newest(self, max_age_s: float) -> float | None:
        """Return when the newest refresh began; None if that is longer ago."""
        oldest = self.clock.monotonic() - max_age_s
        return self._began_at if max_age_s and self._began_at >= oldest else None

    def __call__(self, max_age_s: float = 0.0) -> float:
        """Return when the newest refresh began; one that began at most ``max_age_s``
        ago is enough."""
        with self._turn:
            oldest = self.clock.monotonic() - max_age_s
            if (young := self.newest(max_age_s)) is not None:
                return young
            is_enough = max_age_s and self._running and self._running_since >= oldest
            wanted = self._started + (0 if is_enough else 1)
            while self._running and self._finished < wanted:
                self._turn.wait()
            if self._finished >= wanted:
                return self._began_at
            self._running = True
            self._started += 1
            began_at = self._running_since = self.clock.monotonic()
        succeeded = False
        try:
            self.read()
            succeeded = True
        finally:
            with self._turn:
                self._running = False
                if succeeded:
                    self._finished = self._started
                    self._began_at = began_at
                self._turn.notify_all()
        return began_at


@dataclass(eq=False)
class _Round:
    """Compute nodes that are verified together; ``unread`` are those that cannot be."""

    wanted: set[str] = field(default_factory=set)
    unread: set[str] | None = None


@dataclass(eq=False)
class SharedVerification:
    """Reads compute nodes for concurrent callers, in one round after the other. Each
    caller gets a round that began after it asked."""

    read: Callable[[Collection[str]], set[str]]
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _running: bool = False
    _next: _Round = field(default_factory=_Round)

    def __call__(self, wanted: Collection[str]) -> set[str]:
        """Return which of the nodes read in this round could not be read."""
        with self._turn:
            mine = self._next
            mine.wanted.update(wanted)
            while self._running and mine.unread is None:
                self._turn.wait()
            if mine.unread is not None:
                return mine.unread
            self._running, self._next = True, _Round()
        unread = mine.wanted
        try:
            unread = self.read(mine.wanted)
        finally:
            with self._turn:
                self._running, mine.unread = False, unread
                self._turn.notify_all()
        return unread
