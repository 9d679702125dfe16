# SPDX-License-Identifier: Apache-2.0
"""The RPC caller of a request, as manager and drivers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from novasched import errors


class CallerGone(errors.RequestError):
    """The caller no longer waits for the answer: its claims must not stay.

    ``logged``: the log has a line on this caller already, for all of its requests.
    """

    def __init__(self, why: str, logged: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.logged = logged

    def __str__(self) -> str:
        return f'Nobody waits for this request any more: {self.why}'


class Caller(Protocol):
    """The caller of one request."""

    def check(self) -> None:
        """Raise CallerGone when the caller no longer waits for the answer.

        Returns soon where it waits, and where that is unknown; also where the
        caller may be reconnecting, as its answer can wait for it.
        """

    def patience_left_s(self) -> float | None:
        """Return for how long from now the caller certainly still waits, even if this
        process dies now and sends no further sign of life. None: unknown."""

    def when_answered(self, done: Callable[[], None]) -> None:
        """Have ``done`` called when the answer has been handed over."""

    def if_undeliverable(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called in the place of ``done`` when the answer certainly
        reached no reader. It may run in another thread, and minutes later: until then
        the answer waits for a caller that reconnects."""
