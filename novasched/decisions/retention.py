# SPDX-License-Identifier: Apache-2.0
"""Retention of the decision log: its oldest files are unlinked."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from novasched.decisions.files import NumberedFile, numbered
from novasched.runtime.clock import Clock

LOG = logging.getLogger(__name__)

INTERVAL_S = 3600.0
STEP_S = 60.0
"""The time of day was set if it went on by so much more or less than the monotonic
clock between two looks."""


class Retention:
    """Unlinks the oldest files of a directory while all are too large or they are too
    old; the newest stays in any case. Every method may raise OSError.

    Workers that share a directory do so at the same time.
    """

    def __init__(
        self, directory: Path, max_bytes: int, max_age_s: float, clock: Clock
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._last: tuple[float, float] | None = None

    def look_if_due(self) -> None:
        """Unlink what is to go, once an hour.

        Ages count only if the time of day went on since the last look as the monotonic
        clock did; so none do at the first.
        """
        monotonic, now = self._clock.monotonic(), self._clock.time()
        if self._last is None:
            self._last = monotonic, now
            return
        passed_s = monotonic - self._last[0]
        if passed_s < INTERVAL_S:
            return
        is_steady = abs(now - self._last[1] - passed_s) < STEP_S
        self._last = monotonic, now
        oldest_s = now - self._max_age_s if is_steady else 0.0
        self.remove_surplus(oldest_s)

    def remove_surplus(self, oldest_s: float = 0.0) -> None:
        """Unlink the oldest files while all are larger than they may be, or they were
        last written before a time, in seconds since 1970."""
        files = numbered(self._directory)
        surplus = sum(map(_size, files)) - self._max_bytes
        for file in files[:-1]:
            if surplus <= 0 and _written_at(file) >= oldest_s:
                break
            surplus -= _size(file)
            for path in file.paths:  # the database first
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            LOG.info('Removed %s, the oldest file of the decision log', file.path)


def total_size(directory: Path) -> int:
    """Return how many bytes all files of a directory have; 0 if it cannot be read."""
    try:
        return sum(_size(file) for file in numbered(directory))
    except OSError:
        return 0


def _size(file: NumberedFile) -> int:
    return sum(status.st_size for status in _statuses(file))


def _written_at(file: NumberedFile) -> float:
    """Return when a file was last written; 0 if it is gone.

    A reader leaves an empty file beside it.
    """
    written = (s.st_mtime for s in _statuses(file, '-shm') if s.st_size)
    return max(written, default=0.0)


def _statuses(file: NumberedFile, but: str = '-') -> list[os.stat_result]:
    found = []
    for path in file.paths:
        if path.name.endswith(but):
            continue
        with contextlib.suppress(FileNotFoundError):
            found.append(path.stat())
    return found
