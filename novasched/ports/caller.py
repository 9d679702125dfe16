# SPDX-License-Identifier: Apache-2.0
"""Who waits for an answer, as those see him who work at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from novasched import errors


class CallerGone(errors.RequestError):
    """Nobody waits for the answer: what was claimed for it must not stay."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f'Nobody waits for this request any more: {self.why}'


class Caller(Protocol):
    """The caller of one request."""

    def check(self) -> None:
        """Raise CallerGone when nobody waits for the answer any more.

        Returns soon where somebody waits, and where nobody can tell.
        """

    def when_answered(self, done: Callable[[], None]) -> None:
        """Have ``done`` called when the answer has been handed over."""
