# SPDX-License-Identifier: Apache-2.0
"""When placement is read for the copy: often enough for a young copy, and seldom enough
that it costs little."""

from __future__ import annotations

import math
import random

INTERVAL_S = 1.0
"""Shortest pause between two reads, if the copy stays young."""
IDLE_AFTER_S = 60.0
"""How long after the last request there are fewer reads."""
IDLE_INTERVAL_S = 5.0
"""Pause while no requests come, unless the copy is to be younger than by default."""
SHORTEST_S = 0.1
"""Shortest pause in any case."""
LONGEST_PAUSE_S = 60.0
"""Longest pause after reads that failed."""
YOUNG = 0.9
"""Share of its largest age that a copy may have when a read ends."""
SHARE = 0.05
"""Share of the time that reads may take, if the copy stays young."""
THOROUGH_EVERY_S = 10.0
"""How often changes without a new generation are read.

If that takes many requests to placement, an idle scheduler does it every MAX_AGE_S, and
when the next request comes.
"""
LOAD_EVERY_S = 300.0
"""How often all is read again, and compared, if that takes less than SHARE."""
MAX_AGE_S, SLOW_MAX_AGE_S = 60.0, 600.0
"""Largest age of a copy by default; of a store that does not read fast."""


class RefreshSchedule:
    """Decides when to read, and how thoroughly; times are on the monotonic clock.

    A store that does not read fast makes its own pauses, and is never read again as a
    whole.
    """

    def __init__(
        self, max_age_s: float | None, reads_fast: bool, rng: random.Random
    ) -> None:
        self.max_age_s = max_age_s or (MAX_AGE_S if reads_fast else SLOW_MAX_AGE_S)
        self.pause_s = INTERVAL_S
        self._reads_fast = reads_fast
        self._rng = rng
        self._asked_at = self._load_at = self._loaded_at = float('-inf')
        self._read_s, self._load_s = math.inf, 0.0  # durations of the last ones
        self._unversioned_at, self._unversioned_pause_s = float('-inf'), 0.0
        self._failures = 0

    def asked(self, now: float) -> bool:
        """Note a request; return whether none had come for long."""
        was_idle = self._is_idle(now)
        self._asked_at = now
        return was_idle

    def _is_idle(self, now: float) -> bool:
        may_be_idle = self.max_age_s >= MAX_AGE_S
        return may_be_idle and now - self._asked_at > IDLE_AFTER_S

    def wait_s(self, now: float) -> float:
        """Return how long to wait for the next read."""
        if not self.pause_s or not self._is_idle(now):
            return self.pause_s
        return max(self.pause_s, IDLE_INTERVAL_S)

    def must_load(self, now: float, is_broken: bool) -> bool:
        """Whether all is to be read again, where that is cheap."""
        return self._reads_fast and (is_broken or now >= self._load_at)

    def loaded(self, began_at: float, now: float) -> None:
        """Note that all was read."""
        self._loaded_at = began_at
        interval_s = max(LOAD_EVERY_S, (now - began_at) / SHARE)
        self._load_at = began_at + interval_s * self._rng.uniform(0.75, 1.25)

    def is_unversioned_due(self, now: float) -> bool:
        """Whether to read what changes without a new generation."""
        rests = self._is_idle(now) and not self._reads_fast
        every_s = MAX_AGE_S if rests else THOROUGH_EVERY_S
        return now >= self._unversioned_at + max(every_s, self._unversioned_pause_s)

    def unversioned_finished(self, began_at: float, now: float) -> None:
        """Note that what changes without a new generation was read."""
        self._unversioned_at = began_at
        self._unversioned_pause_s = max(2 * self.pause_s, 2 * (now - began_at))

    def read_finished(self, began_at: float, now: float) -> None:
        """Choose the pause after a read, whether it failed or not.

        Reads take SHARE of the time, but the copy must stay young until the next read
        ends. That read may load all if this leaves time for a pause.
        """
        if not self._reads_fast:
            return
        took_s = now - began_at
        if began_at == self._loaded_at:
            self._load_s = took_s
        else:
            self._read_s = took_s
        self.pause_s = self._pause_after(took_s)

    def failed(self) -> None:
        """Double the pause before a store is read that does not read fast."""
        if not self._reads_fast:
            self._failures += 1
            pause_s = INTERVAL_S * 2 ** min(self._failures, 10)
            self.pause_s = min(pause_s, LONGEST_PAUSE_S)

    def succeeded(self) -> None:
        """End what failed() has begun."""
        if self._failures:
            self._failures, self.pause_s = 0, INTERVAL_S

    def _pause_after(self, took_s: float) -> float:
        if self._read_s == math.inf:  # all was loaded, and nothing since
            return SHORTEST_S
        pause_s = min(took_s / SHARE, self.max_age_s / 2 - 2 * took_s)
        pause_s = max(INTERVAL_S, pause_s)
        for next_s in (max(self._read_s, self._load_s), self._read_s):
            left_s = YOUNG * self.max_age_s - took_s - next_s
            if left_s >= SHORTEST_S:
                return min(pause_s, left_s)
        return pause_s
