# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab in a directory, and what one of them found."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from novasched import errors
from novasched.policy_lab import runs
from novasched.policy_lab.results import FIGURES, RunResult
from novasched.runtime.times import TIME, time_of


@dataclass(frozen=True)
class ListedRun:
    """A run: the name of its directory, and when it ended."""

    name: str
    at: str


@dataclass(frozen=True)
class LabReport:
    """The runs of a directory, the newest first, and one of them; or why that one
    cannot be read."""

    runs: Sequence[ListedRun]
    name: str = ''
    run: RunResult | None = None
    problem: str = ''


def lab_report(directory: str, name: str) -> LabReport:
    """Return the runs of a directory, and the result of the one of this name; '' is the
    newest. Raises errors.OptionError for a name that is none of them."""
    found = []
    for path in Path(directory).glob(f'*/{runs.RUN}') if directory else ():
        with contextlib.suppress(OSError):  # it was removed meanwhile
            found.append((path.stat().st_mtime, path.parent.name))
    found.sort(reverse=True)
    listed = [ListedRun(each, time_of(int(at * 1e6), TIME)) for at, each in found]
    if not name and listed:
        name = listed[0].name
    if not name:
        return LabReport(listed)
    if name not in {each.name for each in listed}:
        raise errors.OptionError('run', f'{name!r} is not known', 'Choose one of them')
    try:
        run = runs.read(Path(directory) / name)
    except errors.OptionError as problem:
        return LabReport(listed, name, problem=str(problem))
    unknown = [row.name for row in run.rows if row.name not in FIGURES]
    if unknown or not run.plan.policies or not run.parts:
        what = f'of another release: {unknown[0]}' if unknown else 'without results'
        return LabReport(listed, name, problem=f'{name} is {what}.')
    return LabReport(listed, name, run)
