# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab in a directory, and what one of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from novasched import errors
from novasched.policy_lab import runs
from novasched.policy_lab.results import RunResult
from novasched.runtime.times import TIME, time_of


@dataclass(frozen=True)
class ListedRun:
    """A run: the name of its directory, and when it ended."""

    name: str
    at: str


@dataclass(frozen=True)
class LabReport:
    """The runs of a directory, the newest first, and one of them."""

    runs: Sequence[ListedRun]
    name: str = ''
    run: RunResult | None = None


def lab_report(directory: str, name: str) -> LabReport:
    """Return the runs of a directory, and the result of the one of this name; '' is the
    newest. Raises errors.OptionError for a name that is none of them."""
    found = [] if not directory else list(Path(directory).glob(f'*/{runs.RUN}'))
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    listed = [
        ListedRun(path.parent.name, time_of(int(path.stat().st_mtime * 1e6), TIME))
        for path in found
    ]
    if not name and listed:
        name = listed[0].name
    if not name:
        return LabReport(listed)
    if name not in {each.name for each in listed}:
        raise errors.OptionError('run', f'{name!r} is not known', 'Choose one of them')
    return LabReport(listed, name, runs.read(Path(directory) / name))
