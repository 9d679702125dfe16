# SPDX-License-Identifier: Apache-2.0
"""The present state, beside the records.

Each worker has a file while requests wait for an outage to end, or picks are assumed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched.runtime import state_directory
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from novasched.outages import Outages

INTERVAL_S = 5.0
FRESH_S = 3 * INTERVAL_S
"""A file that is older is of a worker that was killed."""

State = Mapping[str, Any]
"""``outages`` has the fields of each Outage, ``picks`` the values of
PickMetrics.now."""


@dataclass(frozen=True)
class StateFile:
    """The file of this worker."""

    directory: Path | None  # None if there are no files
    outages: Outages
    picks: Callable[[], Mapping[str, float]] = dict
    """Returns what is assumed, nothing if no pick is."""
    clock: Clock = SYSTEM_CLOCK

    def write_state(self) -> None:
        """Write the present state, or remove the file if there is none. Remove old
        files, too.

        Raises errors.StoreFailed.
        """
        if self.directory is None:
            return
        path = self.directory / f'state-{os.getpid()}.json'
        outages = [each._asdict() for each in self.outages.now()]
        picks = self.picks()
        try:
            if outages or picks:
                state_directory.make(str(self.directory))
                for file, is_fresh in _files(self.directory, self.clock):
                    if not is_fresh:
                        file.unlink(missing_ok=True)
                made = path.with_suffix('.new')
                made.write_text(json.dumps({'outages': outages, 'picks': picks}))
                made.replace(path)
            elif path.exists():
                path.unlink(missing_ok=True)
        except OSError as problem:
            raise errors.StoreFailed('the file of its state', str(problem)) from problem


def read(directory: Path, clock: Clock) -> list[State]:
    """Return the state of each worker of the machine that has something to say."""
    states = []
    for file, is_fresh in _files(directory, clock):
        if is_fresh:
            # It may have been removed just now, or be of another program.
            with contextlib.suppress(OSError, ValueError):
                states.append(json.loads(file.read_text()))
    return states


def _files(directory: Path, clock: Clock) -> Iterator[tuple[Path, bool]]:
    for file in directory.glob('state-*.json'):
        with contextlib.suppress(FileNotFoundError):  # another worker has removed it
            yield file, clock.time() - file.stat().st_mtime <= FRESH_S
