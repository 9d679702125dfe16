# SPDX-License-Identifier: Apache-2.0
"""Outages of now, beside the records: a file of each worker where requests wait."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from novasched import errors, state_directory
from novasched.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from novasched.outages import Outages

INTERVAL_S = 5.0
FRESH_S = 3 * INTERVAL_S
"""A file that is older is of a worker that was killed."""


@dataclass(frozen=True)
class OutageFile:
    """The file of this worker; ``directory`` None: there are no files."""

    directory: Path | None
    outages: Outages
    clock: Clock = SYSTEM_CLOCK

    def write_outages(self) -> None:
        """Write the outages of now, and remove old files, or the own one if there are
        none. Raises errors.StoreFailed."""
        if self.directory is None:
            return
        path = self.directory / f'outages-{os.getpid()}.json'
        now = [each._asdict() for each in self.outages.now()]
        try:
            if now:
                state_directory.make(str(self.directory))
                for file, is_fresh in _files(self.directory, self.clock):
                    if not is_fresh:
                        file.unlink(missing_ok=True)
                made = path.with_suffix('.new')
                made.write_text(json.dumps(now))
                made.replace(path)
            elif path.exists():
                path.unlink(missing_ok=True)
        except OSError as problem:
            raise errors.StoreFailed('the file of outages', str(problem)) from problem


def read(directory: Path, clock: Clock) -> list[dict[str, Any]]:
    """Return the outages of each worker of the machine: the fields of Outage."""
    try:
        files = [file for file, is_fresh in _files(directory, clock) if is_fresh]
        return [outage for file in files for outage in json.loads(file.read_text())]
    except (OSError, ValueError):  # one was removed just now, or is of nobody here
        return []


def _files(directory: Path, clock: Clock) -> Iterator[tuple[Path, bool]]:
    for file in directory.glob('outages-*.json'):
        with contextlib.suppress(FileNotFoundError):  # another worker has removed it
            yield file, clock.time() - file.stat().st_mtime <= FRESH_S
