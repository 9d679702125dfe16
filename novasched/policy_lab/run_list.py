# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab in a directory, and what one of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from novasched import errors
from novasched.policy_lab.results import RunResult
from novasched.runtime.times import TIME, time_of

RESULT = 'result.json'
"""The file of a run's directory that has its result, once it is whole."""


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


def read_run(directory: Path) -> RunResult:
    """Return the result of a run. Raises errors.OptionError if there is none, or it
    cannot be read."""
    try:
        return RunResult.of_text((directory / RESULT).read_text())
    except FileNotFoundError as problem:
        raise errors.OptionError(
            str(directory),
            'there is no result of a run in it',
            'novasched lab run --to makes it, and goes on with one that was broken off',
        ) from problem
    except (OSError, LookupError, TypeError, ValueError) as problem:
        raise errors.OptionError(
            str(directory / RESULT), str(problem), 'Run novasched lab run once more'
        ) from problem


def lab_report(directory: str, name: str) -> LabReport:
    """Return the runs of a directory, and the result of the one of this name; '' is the
    newest. Raises errors.OptionError for a name that is none of them."""
    found = [] if not directory else list(Path(directory).glob(f'*/{RESULT}'))
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    runs = [
        ListedRun(path.parent.name, time_of(int(path.stat().st_mtime * 1e6), TIME))
        for path in found
    ]
    if not name and runs:
        name = runs[0].name
    if not name:
        return LabReport(runs)
    if name not in {each.name for each in runs}:
        raise errors.OptionError('run', f'{name!r} is not known', 'Choose one of them')
    return LabReport(runs, name, read_run(Path(directory) / name))
