# SPDX-License-Identifier: Apache-2.0
"""How long nova-scheduler took for its requests, by its notifications."""

from __future__ import annotations

import threading

from novasched.rpc.tap import Phase

MOST = 4096
"""Requests that are remembered; the oldest of more are forgotten."""


class Phases:
    """When nova-scheduler started and ended its requests. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._took_s: dict[str, float] = {}

    def add(self, phase: Phase) -> None:
        """Take note that a request started or ended; of a request that was scheduled
        twice, the last time counts."""
        with self._lock:
            if phase.name == 'start':
                self._started.pop(phase.request_id, None)
                self._started[phase.request_id] = phase.at_s
            elif (since_s := self._started.get(phase.request_id)) is not None:
                self._took_s[phase.request_id] = phase.at_s - since_s
            for known in (self._started, self._took_s):
                if len(known) > MOST:
                    del known[next(iter(known))]

    def took_s(self, request_id: str) -> float | None:
        """Return the seconds that nova took for a request; None if it did not say."""
        return self._took_s.get(request_id)
