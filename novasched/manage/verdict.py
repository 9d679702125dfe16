# SPDX-License-Identifier: Apache-2.0
"""Verdicts of the checks of novasched-status."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class CheckCode(enum.IntEnum):
    """How a check ends, and the exit code of all of them: the highest."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


class CheckVerdict(NamedTuple):
    """The outcome of a check; ``details`` say what was found and what to do.

    It is not ``expected`` where the check itself failed. ``commands`` are lines, of a
    shell or of SQL, that mend what was found.
    """

    code: CheckCode
    details: str | None = None
    expected: bool = True
    commands: Sequence[str] = ()


SUCCESS = CheckVerdict(CheckCode.SUCCESS)


def failure(details: str, commands: Iterable[str] = ()) -> CheckVerdict:
    """Return the verdict that something stops an upgrade."""
    return CheckVerdict(CheckCode.FAILURE, details, commands=tuple(commands))


def warned(lines: Iterable[str], commands: Iterable[str] = ()) -> CheckVerdict:
    """Return a warning of these lines, and success where there are none."""
    text = ' '.join(lines)
    if not text:
        return SUCCESS
    return CheckVerdict(CheckCode.WARNING, text, commands=tuple(commands))
