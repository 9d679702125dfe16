# SPDX-License-Identifier: Apache-2.0
"""Whether the caller of a request still waits for its answer.

Much of what tells it oslo.messaging keeps to itself. Where that is not as expected,
nothing is known, and every request is served.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from kombu import exceptions as kombu

from novasched.ports import CallerGone
from novasched.rpc.transport import CONNECTION_ERRORS
from novasched.rpc.waiting import waited_s

LOG = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 30.0
"""How far the clocks of the broker and of this machine may be apart."""
LOOK_AFTER_S = 5.0
"""Only for requests that took so long the broker is asked whether somebody waits."""
GONE_FOR_S = 5.0
"""A caller that is connecting anew consumes its reply queue again within that time,
or the longer one for which oslo.messaging tries to answer who is not there."""
LOOK_EVERY_S = 0.5
SIGN_TAKES_S = 1.0
"""So long a sign of life may be on its way, and the request was on its own."""
BROKER_S = 2.0
"""How long the answer of the broker is waited for."""

_UNANSWERED = (
    AttributeError,
    OSError,
    kombu.KombuError,
    oslo_messaging.MessagingException,
    *CONNECTION_ERRORS,
)


class Patience(NamedTuple):
    """How long a caller waits for the answer, and for a sign of life; None: for ever
    or nobody knows."""

    answer_s: float | None
    sign_s: float | None

    @classmethod
    def of(cls, incoming: Any) -> Patience:
        """Read it off a message."""
        raw = getattr(incoming.message, '_raw_message', None)
        properties = getattr(raw, 'properties', None) or {}
        expires_ms = _positive(properties.get('expiration'))
        sign_s = _positive(getattr(incoming, 'client_timeout', None))
        return cls(None if expires_ms is None else expires_ms / 1000, sign_s)


def _positive(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number > 0 else None


class RpcCaller:
    """The caller of one request over oslo.messaging. Satisfies ports.Caller.

    ``consumers`` counts those who read its reply queue, None: unknown; ``clock`` gives
    the time of day.
    """

    def __init__(
        self,
        incoming: Any,
        consumers: Callable[[], int | None] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._incoming = incoming
        self._consumers = consumers or (lambda: _within(BROKER_S, _counting(incoming)))
        self._sleep = sleep
        self._patience = Patience.of(incoming)
        self._before_s = self._waited_before_s(clock)
        self._done: list[Callable[[], None]] = []

    def _waited_before_s(self, clock: Callable[[], float]) -> float:
        """Return how long it waited at the broker: at least, lest clocks that differ
        have it refused. What expired there never comes here."""
        told_s = waited_s(self._incoming, clock)
        if told_s is None:
            return 0.0
        before_s = told_s - self._here_s() - CLOCKS_DIFFER_S
        if before_s > (self._patience.answer_s or float('inf')):
            return 0.0
        return max(0.0, before_s)

    def _here_s(self) -> float:
        stopwatch = getattr(self._incoming, 'stopwatch', None)
        return 0.0 if stopwatch is None else float(stopwatch.elapsed())

    @property
    def waits_s(self) -> float:
        """How long the caller waits already, at least."""
        return self._before_s + self._here_s()

    def check_turn(self) -> None:
        """Raise CallerGone when the request waited longer than its caller.

        Who waits for long already gets a sign of life at once. Where more is asked for
        than can be done, the next one is always one whose caller is about to give up.
        """
        sign_s = self._patience.sign_s or float('inf')
        self._check_turn(min(SIGN_TAKES_S, sign_s / 10))
        if self.waits_s > sign_s / 2:
            _tell(self._incoming)
            self._check_turn(0.0)

    def _check_turn(self, sign_takes_s: float) -> None:
        waits_s = self.waits_s
        answer_s, sign_s = (limit or float('inf') for limit in self._patience)
        longest_s = min(answer_s, sign_s)
        if waits_s > min(answer_s, sign_s - sign_takes_s):
            raise CallerGone(
                f'it came to its turn after {waits_s:.0f} s, and its caller waits '
                f'{longest_s:.0f} s'
            )

    def check(self) -> None:
        waits_s, longest_s = self.waits_s, self._patience.answer_s
        if longest_s is not None and waits_s > longest_s:
            raise CallerGone(
                f'it took {waits_s:.0f} s, and its caller waits {longest_s:.0f} s'
            )
        if waits_s > LOOK_AFTER_S and self._is_gone():
            raise CallerGone('its caller does not read answers any more')

    def _is_gone(self) -> bool:
        """Look whether nobody reads the answer, and go on looking for a while."""
        if not getattr(self._incoming, 'reply_q', None):
            return False
        for _ in range(int(self._gone_for_s() / LOOK_EVERY_S)):
            if self._consumers() != 0:
                return False
            self._sleep(LOOK_EVERY_S)
        return self._consumers() == 0

    def _gone_for_s(self) -> float:
        driver = getattr(getattr(self._incoming, 'listener', None), 'driver', None)
        retry_s = _positive(getattr(driver, 'missing_destination_retry_timeout', None))
        return max(GONE_FOR_S, retry_s or 0.0)

    def when_answered(self, done: Callable[[], None]) -> None:
        self._done.append(done)

    def answered(self) -> None:
        """The answer has been handed over."""
        for done in self._done:
            done()
        self._done.clear()


_calling: ContextVar[RpcCaller | None] = ContextVar('calling', default=None)


@contextlib.contextmanager
def calling(incoming: Any) -> Iterator[None]:
    """Serve a message within, and answer it."""
    caller = RpcCaller(incoming)
    token = _calling.set(caller)
    try:
        yield
    finally:
        _calling.reset(token)
        caller.answered()


def current() -> RpcCaller | None:
    """Return who waits for what this thread does, or None if nobody is known."""
    return _calling.get()


def reassure(event: Any, incoming: Any) -> None:
    """Send the caller the first sign of life: soon, lest it waited for long already.

    None is sent once ``event`` is set: the request is answered.
    """
    if Patience.of(incoming).sign_s is not None and not event.wait(1.0):
        _tell(incoming)


def _tell(incoming: Any) -> None:
    try:
        incoming.heartbeat()
    except _UNANSWERED as problem:
        LOG.debug('The caller could not be told that it is served: %s', problem)


def _counting(incoming: Any) -> Callable[[], int | None]:
    """Return what asks the broker for the number of consumers of the reply queue.

    A connection of oslo.messaging is borrowed, and a channel opened, as asking for a
    queue that is gone closes it.
    """

    def count() -> int | None:
        try:
            with incoming.listener.driver._get_connection() as borrowed:
                lock = borrowed.connection._connection_lock
                with lock, borrowed.connection.connection.channel() as channel:
                    found = channel.queue_declare(incoming.reply_q, passive=True)
                    return int(found.consumer_count)
        except amqp.NotFound:
            return 0
        except _UNANSWERED as problem:
            LOG.debug('The broker does not tell who reads the answer: %s', problem)
            return None

    return count


def _within(seconds: float, ask: Callable[[], int | None]) -> int | None:
    """Return an answer, or None if it does not come within a time."""
    answers: list[int | None] = []
    asking = threading.Thread(
        target=lambda: answers.append(ask()), name='caller', daemon=True
    )
    asking.start()
    asking.join(seconds)
    return answers[0] if answers else None
