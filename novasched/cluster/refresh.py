# SPDX-License-Identifier: Apache-2.0
"""One refresh at a time, shared by all requests that it began after."""

from __future__ import annotations

import threading
from collections.abc import Callable

from novasched.ports import Clock


class Refresh:
    """Runs ``read`` so that each caller gets one that began after it called.

    Callers that come while one is running share the next. ``max_age_s`` lets a
    caller be content with a refresh that began at most so long ago.
    """

    def __init__(
        self, read: Callable[[], None], clock: Clock, max_age_s: float = 0.0
    ) -> None:
        self._read = read
        self._clock = clock
        self._max_age_s = max_age_s
        self._turn = threading.Condition()
        self._running = False
        self._started = 0
        self._finished = 0
        self._began_at = float('-inf')

    def __call__(self) -> None:
        with self._turn:
            if self._clock.monotonic() - self._began_at < self._max_age_s:
                return
            wanted = self._started + 1
            while self._running and self._finished < wanted:
                self._turn.wait()
            if self._finished >= wanted:
                return
            self._running = True
            self._started += 1
            began_at = self._clock.monotonic()
        succeeded = False
        try:
            self._read()
            succeeded = True
        finally:
            with self._turn:
                self._running = False
                if succeeded:
                    self._finished = self._started
                    self._began_at = began_at
                self._turn.notify_all()
