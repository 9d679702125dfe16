# SPDX-License-Identifier: Apache-2.0
"""Circuit-breaker backoff of cells: those unavailable, and when each is retried."""

from __future__ import annotations

from typing import NamedTuple

from novasched.ports import Clock

FIRST_RETRY_S = 1.0
"""When an unavailable cell is tried for the first time: most delays are short."""

STEADY_S = 60.0
"""How long a cell must have answered for the next time to be like the first: else one
that answers a small question only would hold up a request every other second."""


class _Pause(NamedTuple):
    """A cell is unavailable, or on trial, until ``until``, in monotonic seconds; it was
    tried again after ``after_s``."""

    until: float
    after_s: float


class RetryBackoff:
    """The pauses of cells by uuid, ``longest_s`` at most; the caller holds a lock."""

    def __init__(self, clock: Clock, longest_s: float) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._pauses: dict[str, _Pause] = {}
        self._trials: dict[str, _Pause] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._pauses

    def is_over(self, uuid: str) -> bool:
        """Say whether a cell has no pause, or one that has lasted long enough."""
        pause = self._pauses.get(uuid)
        return pause is None or pause.until <= self._clock.monotonic()

    def begin(self, uuid: str, *, alone: bool) -> bool:
        """Make a cell unavailable, for longer each time, unless it is ``alone``: there
        is no other to take hosts from. Return whether it was available before."""
        now_s = self._clock.monotonic()
        trial = self._trials.pop(uuid, None)
        if trial is not None and trial.until <= now_s:
            trial = None
        before = self._pauses.get(uuid, trial)
        after_s = FIRST_RETRY_S if before is None or alone else before.after_s * 2
        after_s = min(after_s, self._longest_s)
        is_new = uuid not in self._pauses
        self._pauses[uuid] = _Pause(now_s + after_s, after_s)
        return is_new

    def end(self, uuid: str) -> bool:
        """Put a cell on trial; return whether it was unavailable."""
        pause = self._pauses.pop(uuid, None)
        if pause is None:
            return False
        until = self._clock.monotonic() + STEADY_S
        self._trials[uuid] = _Pause(until, pause.after_s)
        return True

    def forget(self, uuid: str) -> None:
        """Forget that there ever was a pause."""
        self._pauses.pop(uuid, None)
        self._trials.pop(uuid, None)
