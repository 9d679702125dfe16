# SPDX-License-Identifier: Apache-2.0
"""Outages of now, beside the records: a file of each worker where requests wait."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from novasched import errors, state_directory
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.outages import Outages

INTERVAL_S = 2.0
FRESH_S = 5 * INTERVAL_S
"""A file that is older is of a worker that was killed."""
_NAME = 'outages-{}.json'


@dataclass(frozen=True)
class OutageFile:
    """The file of this worker; ``directory`` None: there are no files."""

    directory: Path | None
    outages: Outages
    clock: Clock = SYSTEM_CLOCK

    def write_outages(self) -> None:
        """Write the outages of now, and remove files that say no more what is so.

        Raises errors.StoreFailed.
        """
        if self.directory is None:
            return
        path = self.directory / _NAME.format(os.getpid())
        now = [each._asdict() for each in self.outages.now()]
        try:
            for old in _files(self.directory):
                if not now if old == path else _age_s(old, self.clock) > FRESH_S:
                    old.unlink(missing_ok=True)
            if now:
                state_directory.make(str(self.directory))
                made = path.with_suffix('.new')
                made.write_text(json.dumps(now))
                made.replace(path)
        except OSError as problem:
            raise errors.StoreFailed('the file of outages', str(problem)) from problem


def read(directory: Path, clock: Clock) -> list[dict[str, Any]]:
    """Return the outages of each worker of the machine: the fields of Outage."""
    found: list[dict[str, Any]] = []
    for path in _files(directory):
        try:
            if _age_s(path, clock) <= FRESH_S:
                found += json.loads(path.read_text())
        except (OSError, ValueError):  # it was removed just now, or is of nobody here
            continue
    return found


def _files(directory: Path) -> Iterator[Path]:
    return directory.glob(_NAME.format('*'))


def _age_s(path: Path, clock: Clock) -> float:
    return clock.time() - path.stat().st_mtime
