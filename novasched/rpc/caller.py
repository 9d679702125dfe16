# SPDX-License-Identifier: Apache-2.0
"""The RPC caller of a request: whether it still waits for its answer.

oslo.messaging keeps most of this private. Where its attributes are not as expected,
nothing is known, and every request is served.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from novasched.ports import Caller, CallerGone
from novasched.rpc.broker import (
    CLOCK_EVERY_S,
    UNANSWERED,
    BrokerClock,
    stamp_s,
    waited_here_s,
)
from novasched.rpc.reply_queues import UNREAD, Readers, ReplyQueues
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

CLOCKS_DIFFER_S = 30.0
"""How far the clocks of the broker's nodes may be apart."""
CLOCK_IS_NEW_S = 5.0
"""No request is refused by an older comparison of the broker's clock with ours."""
SIGN_TAKES_S = 1.0
"""So long a sign of life may be on its way, and the request was on its own."""
FIRST_SIGN_S = 1.0
"""The first sign of life comes so soon, and the next one after one that failed."""

TRACE = ('traceparent', 'tracestate', 'trace_info')
"""Keys of a context, or headers, on the span that sent a message."""


class Patience(NamedTuple):
    """How long a caller waits for the answer, and for a sign of life; infinite: for
    ever, or it is not known."""

    answer_s: float
    sign_s: float

    @classmethod
    def of(cls, incoming: Any) -> Patience:
        """Read it off a message."""
        raw = getattr(incoming.message, '_raw_message', None)
        properties = getattr(raw, 'properties', None) or {}
        expires_ms = _positive(properties.get('expiration'))
        return cls(
            answer_s=expires_ms / 1000,
            sign_s=_positive(getattr(incoming, 'client_timeout', None)),
        )

    @property
    def sign_takes_s(self) -> float:
        """How long a sign of life is on its way."""
        return min(SIGN_TAKES_S, self.sign_s / 10)


def _positive(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.inf
    return number if number > 0 else math.inf


class RpcCaller(Caller):
    """The caller of one request over oslo.messaging.

    ``queues`` knows the readers of answers, ``has_room`` whether one more answer may be
    parked. ``resting`` lets another thread work while the request's thread waits.
    """

    def __init__(
        self,
        incoming: Any,
        queues: ReplyQueues | None = None,
        has_room: Callable[[], bool] = lambda: True,
        broker_clock: BrokerClock | None = None,
        clock: Clock = SYSTEM_CLOCK,
        resting: Callable[
            [], contextlib.AbstractContextManager[None]
        ] = contextlib.nullcontext,
    ) -> None:
        self._resting = resting
        self._incoming = incoming
        self._queue = getattr(incoming, 'reply_q', None) or ''
        self._queues = queues if self._queue else None
        self._has_room = has_room
        self.broker_clock = broker_clock or BrokerClock()
        self._patience = Patience.of(incoming)
        self._before_s = self._waited_before_s()
        self._clock = clock
        self._sign_at: float | None = None
        self._done: list[Callable[[], None]] = []
        self._undo: list[Callable[[], None]] = []
        self.is_open = False

    def _waited_before_s(self, within_s: float = CLOCK_EVERY_S) -> float:
        """Return how long it waited at the broker, at least: a time stamp proves
        nothing before the broker's clock was compared with ours."""
        sent_s = stamp_s(self._incoming.message)
        if sent_s is None or not self.broker_clock.is_known(within_s):
            return 0.0
        before_s = self.broker_clock() - sent_s - self._here_s() - CLOCKS_DIFFER_S
        # What expired at the broker never comes here: a node's clock is wrong.
        return before_s if 0 < before_s <= self._patience.answer_s else 0.0

    def trace_parent(self) -> dict[str, Any]:
        """Return the keys in TRACE of the message's context and headers."""
        raw = getattr(self._incoming.message, '_raw_message', None)
        said = {**self._incoming.ctxt, **(getattr(raw, 'headers', None) or {})}
        return {key: said[key] for key in TRACE if key in said}

    def _here_s(self) -> float:
        return waited_here_s(self._incoming) or 0.0

    @property
    def waits_s(self) -> float:
        """How long the caller waits already, at least."""
        return self._before_s + self._here_s()

    @property
    def silent_s(self) -> float:
        """How long ago the last sign of life was sent, or else the request, at least.

        A sign counts that the broker took for a caller that had not given up.
        """
        if self._sign_at is None:
            return self.waits_s
        return self._clock.monotonic() - self._sign_at

    @property
    def has_timed_out(self) -> bool:
        """Return whether the caller has given up, or will before an answer is there."""
        return self._is_unsigned or self.waits_s > self._patience.answer_s

    @property
    def _is_unsigned(self) -> bool:
        return self.silent_s > self._patience.sign_s - self._patience.sign_takes_s

    def check_turn(self) -> None:
        """Raise CallerGone when the request waited longer than its caller.

        A request that has waited long gets a sign of life at once. Under overload the
        next request is always one whose caller is about to give up.
        """
        if self._queues is not None:
            self._queues.expect(self._queue)
        sign_takes_s = self._patience.sign_takes_s
        if self._is_late(sign_takes_s) and self._before_s:
            self._before_s = self._waited_before_s(CLOCK_IS_NEW_S)
        self._raise_if_late(sign_takes_s)
        if self.waits_s > self._patience.sign_s / 2:
            self._tell()
            self._raise_if_late(0.0)

    def _is_late(self, sign_takes_s: float) -> bool:
        answer_s, sign_s = self._patience
        return self.waits_s > min(answer_s, sign_s - sign_takes_s)

    def _raise_if_late(self, sign_takes_s: float) -> None:
        if self._is_late(sign_takes_s):
            raise CallerGone(
                f'it came to its turn after {self.waits_s:.0f} s, and its caller waits '
                f'{min(self._patience):.0f} s'
            )

    def check(self) -> None:
        waits_s = self.waits_s
        if waits_s > self._patience.answer_s:
            raise CallerGone(
                f'it took {waits_s:.0f} s, and its caller waits '
                f'{self._patience.answer_s:.0f} s'
            )
        if self._is_unsigned:
            raise CallerGone(
                f'its caller got no sign of life for {self.silent_s:.0f} s, and waits '
                f'{self._patience.sign_s:.0f} s for one'
            )
        readers = Readers.UNKNOWN
        if self._queues is not None:
            readers = self._queues.readers(self._queue)
        if readers is Readers.GONE:
            raise CallerGone('its caller does not read answers any more', logged=True)
        if readers is Readers.ABSENT and not self._has_room():
            raise CallerGone(
                'its caller reads no answers now, and too many wait for that already'
            )

    def patience_left_s(self) -> float | None:
        """The last sign of life may be half of the time old that they may be apart, or
        older where signs failed."""
        answer_s, sign_s = self._patience
        left_s = min(answer_s - self.waits_s, sign_s / 2, sign_s - self.silent_s)
        return None if math.isinf(left_s) else max(0.0, left_s)

    def resting(self) -> contextlib.AbstractContextManager[None]:
        return self._resting()

    def answer_left_s(self) -> float:
        return self._patience.answer_s - self.waits_s

    def reassure(self, event: Any) -> None:
        """Send heartbeats: the first one soon, as the caller may have waited for long.

        None is sent once ``event`` is set, as the request is answered, nor to a caller
        that has given up. Where one fails, the next one comes soon.
        """
        sign_s = self._patience.sign_s
        if math.isinf(sign_s):
            return
        wait_s = soon_s = min(FIRST_SIGN_S, sign_s / 2)
        while not event.wait(wait_s) and not self.has_timed_out:
            self._tell()
            if self._sign_at is not None:
                wait_s = max(soon_s, sign_s / 2 - self.silent_s)

    def _tell(self) -> None:
        """Send a sign of life, if somebody reads it. It counts as sent when it began,
        and not at all if it took too long."""
        at = self._clock.monotonic()
        if self._queues is not None and self._queues.readers(self._queue) in UNREAD:
            return
        try:
            self._incoming.heartbeat()
        except UNANSWERED as problem:
            LOG.debug('The caller cannot be notified that it is served: %s', problem)
            return
        if not self.has_timed_out:
            self._sign_at = at

    def when_answered(self, done: Callable[[], None]) -> None:
        self._done.append(done)

    def if_undeliverable(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    @property
    def has_claims(self) -> bool:
        """Return whether something is to be done once the answer is there, or lost."""
        return bool(self._done or self._undo)

    def keep_open(self) -> None:
        """Take in that the answer waits, and will be there or lost later."""
        self.is_open = True

    def answered(self) -> None:
        """The answer has been handed over, or may have been."""
        self._call(self._done)

    def undeliverable(self) -> None:
        """The answer reached no reader, for certain."""
        self._call(self._undo)

    def _call(self, called: list[Callable[[], None]]) -> None:
        self._done, self._undo = [], []
        for each in called:
            each()


_calling: ContextVar[RpcCaller | None] = ContextVar('calling', default=None)


def current() -> RpcCaller | None:
    """Return the caller that waits for this thread, or None if it is not known."""
    return _calling.get()


def trace_parent() -> dict[str, Any]:
    """Return the keys on the sender's span in the message of this thread.

    oslo.messaging and osprofiler write them into the context.
    """
    waiting = _calling.get()
    return {} if waiting is None else waiting.trace_parent()


@contextlib.contextmanager
def calling(caller: RpcCaller) -> Iterator[None]:
    """Serve a message of a caller within, and answer it."""
    token = _calling.set(caller)
    try:
        yield
    finally:
        _calling.reset(token)
        if not caller.is_open:
            caller.answered()
