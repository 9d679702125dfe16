# SPDX-License-Identifier: Apache-2.0
"""Deadlines of work that cannot be interrupted: its loops look at the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from novasched import errors

Check = Callable[[], None]
"""Called in each round of a loop; raises where the work is to end."""


def never() -> None:
    """Let the work go on: it has no deadline."""


@dataclass(eq=False, repr=False)
class TookTooLong(errors.NovaschedError):
    """A dry run, or the work for a page, was ended at its deadline."""

    within_s: float

    def __str__(self) -> str:
        return (
            f'This was not worked out within {self.within_s:g} s, and was ended. Ask '
            'for fewer servers, flavors, hosts or changes at a time.'
        )


class Deadline:
    """Ends work that takes longer than ``within_s`` from now, by a monotonic clock."""

    def __init__(self, within_s: float, monotonic: Callable[[], float]) -> None:
        self._within_s = within_s
        self._monotonic = monotonic
        self._end = monotonic() + within_s

    def check(self) -> None:
        """Raise TookTooLong once the time is over."""
        if self._monotonic() > self._end:
            raise TookTooLong(self._within_s)
