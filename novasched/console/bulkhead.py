# SPDX-License-Identifier: Apache-2.0
"""Bulkhead executor of the console: questions of one kind, a few at a time.

However many clients ask, each question is worked out once. A waiting client holds a
thread of the server. Only some clients may wait for one kind, so a hung question leaves
threads for the other kinds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from novasched import errors
from novasched.inspection.texts.lines import counted
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor

T = TypeVar('T')

WITHIN_S = 10.0
"""How long a client waits for an answer; it is finished all the same."""
ERROR_FOR_S = 2.0
"""How long an error is kept at most."""
LATE_FOR_S = 30.0
"""How long an answer is kept at least for which a client did not wait to the end."""
MOST_KEPT = 64
MOST_CLIENTS = 4
"""Half of the threads that the server has by default."""


@dataclass
class _SharedAnswer:
    """The answer to a question, and when it came."""

    future: Future[Any]
    max_age_s: float
    answered_at: float | None = None


class Bulkhead:
    """Answers questions in ``at_once`` threads; concurrent equal questions share an
    answer.

    Errors name the questions ``kind``. ``most_waiting`` more questions may wait, and
    ``most_kept`` answers are kept. At most ``most_clients`` wait for answers, shared
    ones included. Threads may share it.
    """

    def __init__(
        self,
        kind: str,
        at_once: int,
        most_waiting: int = MOST_KEPT,
        most_kept: int = MOST_KEPT,
        most_clients: int = MOST_CLIENTS,
        within_s: float = WITHIN_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._kind = kind
        self._at_once = at_once
        self._most = at_once + most_waiting
        self._most_kept = most_kept
        self._most_clients = most_clients
        self._within_s = within_s
        self._clock = clock
        self._executor = BulkheadExecutor(kind, at_once)
        self._lock = threading.Lock()
        self._asked: dict[Hashable, _SharedAnswer] = {}
        self._clients = 0

    def ask(
        self,
        key: Hashable,
        question: Callable[[], T],
        max_age_s: float = 0.0,
        within_s: float | None = None,
    ) -> T:
        """Return the answer to the question that ``key`` identifies.

        An answer that is being worked out, or is not older than ``max_age_s``, is
        shared. This client waits ``within_s`` at most; a later answer is kept for the
        next client. Raises errors.Busy if too many are waiting, or it takes too long.
        Raises what the question raises.
        """
        within_s = self._within_s if within_s is None else within_s
        with self._lock:
            self._forget_old()
            asked = self._asked.get(key)
            waits = asked is None or not asked.future.done()
            if waits and self._clients >= self._most_clients:
                waiting = counted(self._clients, 'client')
                said = f'{waiting} waiting for {self._kind} already; '
                raise errors.Busy(self._at_once, f'{said}try again in a moment')
            asked = asked or self._begin(key, question, max_age_s)
            self._clients += waits
        try:
            return cast(T, asked.future.result(within_s))
        except TimeoutError:
            if asked.future.done():  # the question may raise one, too
                return cast(T, asked.future.result())
            asked.max_age_s = max(asked.max_age_s, LATE_FOR_S)
            raise errors.Busy(
                self._at_once,
                f'This takes longer than {within_s:g} s and is still being worked '
                'out; load the page again',
            ) from None
        finally:
            with self._lock:
                self._clients -= waits

    def start(
        self, key: Hashable, question: Callable[[], T], max_age_s: float = 0.0
    ) -> Future[T]:
        """Return the answer to come, for one that is no client; see ask().

        Raises errors.Busy.
        """
        with self._lock:
            self._forget_old()
            asked = self._asked.get(key) or self._begin(key, question, max_age_s)
            return asked.future

    def _begin(
        self, key: Hashable, question: Callable[[], Any], max_age_s: float
    ) -> _SharedAnswer:
        under_way = sum(each.answered_at is None for each in self._asked.values())
        if under_way >= self._most:
            raise errors.Busy(
                self._at_once,
                f'{under_way} {self._kind} are being worked out already; '
                'try again in a moment',
            )
        asked = _SharedAnswer(self._executor.submit(question), max_age_s)
        self._asked[key] = asked
        asked.future.add_done_callback(lambda future: self._answered(asked, future))
        return asked

    def _answered(self, asked: _SharedAnswer, future: Future[Any]) -> None:
        if future.exception() is not None:
            asked.max_age_s = min(asked.max_age_s, ERROR_FOR_S)
        asked.answered_at = self._clock.monotonic()

    def _forget_old(self) -> None:
        """Forget answers that are too old, and the oldest where there are too many."""
        now = self._clock.monotonic()
        for key, asked in list(self._asked.items()):
            if asked.answered_at is not None and (
                now - asked.answered_at >= asked.max_age_s
                or len(self._asked) >= self._most_kept
            ):
                del self._asked[key]

    def close(self) -> None:
        """Let the threads end with what they are working on."""
        self._executor.close()
