# SPDX-License-Identifier: Apache-2.0
"""The clock port: the time of day and a monotonic clock, which tests replace."""

from __future__ import annotations

import datetime
import time
from typing import Protocol


class Clock(Protocol):
    """Time; tests bring their own."""

    def utcnow(self) -> datetime.datetime:
        """Return the time of day, UTC without a zone."""

    def time(self) -> float:
        """Return the time of day in seconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""


class SystemClock:
    """The clocks of this machine."""

    def utcnow(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()
