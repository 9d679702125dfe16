# SPDX-License-Identifier: Apache-2.0
"""The waiting time of messages, and the health of the broker."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from novasched.clock import SYSTEM_CLOCK

BROKERS_TIME = 'timestamp_in_ms'
"""A header that RabbitMQ, if so configured, adds when it gets a message."""


class Unobserved:
    """Knows how long requests have been under way, and how many were answered.
    Satisfies ports.Requests."""

    def __init__(self) -> None:
        self._names = itertools.count()
        self._since: dict[int, float] = {}
        self._finished = 0
        self._counting = threading.Lock()

    def arrived(self, waited_s: float) -> None: ...

    def queued(self, message: int, waited_s: float) -> None: ...

    def taken(self, message: int) -> None: ...

    def placed(self, servers: int) -> None: ...

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        name = next(self._names)
        self._since[name] = SYSTEM_CLOCK.monotonic()
        try:
            yield
        finally:
            del self._since[name]
            with self._counting:
                self._finished += 1

    def finished(self) -> int:
        return self._finished

    def under_way(self) -> list[float]:
        now = SYSTEM_CLOCK.monotonic()
        return [now - since for since in list(self._since.values())]


def waited_s(
    incoming: Any, now_s: Callable[[], float] = SYSTEM_CLOCK.time
) -> float | None:
    """Return how long an incoming message of oslo.messaging has waited, in seconds.

    ``now_s`` returns the broker's time. It counts if the broker stamped the message;
    else it is since a thread of ours took the message from the queue.
    """
    sent_ms = _sent_ms(incoming)
    if sent_ms is not None:
        return max(0.0, now_s() - sent_ms / 1000)
    stopwatch = getattr(incoming, 'stopwatch', None)
    return None if stopwatch is None else float(stopwatch.elapsed())


def is_stamped(incoming: Any) -> bool:
    """Say whether the broker has given a message its time."""
    return _sent_ms(incoming) is not None


def _sent_ms(incoming: Any) -> float | None:
    raw = getattr(incoming.message, '_raw_message', None)
    headers = getattr(raw, 'headers', None)
    sent_ms = headers.get(BROKERS_TIME) if isinstance(headers, Mapping) else None
    return sent_ms if isinstance(sent_ms, int | float) else None


def problem_of(server: Any) -> str | None:
    """Return why a server that runs over RabbitMQ gets no messages now, or None."""
    try:
        driver = server.listener._poll_style_listener.conn.connection
        connected = driver.connection.connected  # kombu's
    except AttributeError:
        return 'the server does not listen'
    return None if connected else 'the connection to the broker is lost'
