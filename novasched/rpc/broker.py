# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ itself: the readers of a queue, its time of day, the age of a message.

Questions borrow a connection of oslo.messaging's pool. What it keeps to itself may
change; then the answer is unknown.
"""

from __future__ import annotations

import concurrent.futures
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from kombu import exceptions as kombu

from novasched.rpc.oslo_internals import borrowed
from novasched.rpc.transport import CONNECTION_ERRORS
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

BROKERS_TIME = 'timestamp_in_ms'
"""A header that RabbitMQ, if so configured, adds when it gets a message."""
BROKER_S = 2.0
"""How long one answer of the broker is waited for."""
CLOCK_EVERY_S = 60.0
"""The broker's clock is compared with ours again after that."""
CLOCK_NAMED_S = 60.0
"""Clocks that differ by more are named in the log: computes would be down by then."""

UNANSWERED: tuple[type[Exception], ...] = (
    AttributeError,
    OSError,
    kombu.KombuError,
    oslo_messaging.MessagingException,
    *CONNECTION_ERRORS,
)
"""Errors that say nothing about the queue that was asked for."""


class Broker:
    """The broker behind a driver of oslo.messaging."""

    def __init__(self, driver: Any, clock: Clock = SYSTEM_CLOCK) -> None:
        self._driver = driver
        self._clock = clock

    def consumers(self, names: Iterable[str]) -> dict[str, int | None]:
        """Count the consumers of queues: 0 without such a queue, None if unknown."""
        found: dict[str, int | None] = dict.fromkeys(names)
        try:
            with borrowed(self._driver, BROKER_S) as connection:
                for name in found:
                    found[name] = _consumers(connection, name)
        except UNANSWERED as problem:
            LOG.debug('The broker does not tell who reads answers: %s', problem)
        return found

    def clock_behind_s(self) -> float | None:
        """Return how far the broker's clock is behind ours, by a message of our own.

        None if the broker stamps no messages, or does not let us make a queue.
        """
        try:
            with (
                borrowed(self._driver, BROKER_S) as connection,
                connection.channel() as channel,
            ):
                queue = channel.queue_declare('', exclusive=True).queue
                since_s = self._clock.time()
                message = amqp.Message(b'')  # to our own queue
                channel.basic_publish(message, routing_key=queue)
                stamped = channel.basic_get(queue, no_ack=True)
                until_s = self._clock.time()
                channel.queue_delete(queue)
        except UNANSWERED as problem:
            LOG.debug('The broker does not tell its time: %s', problem)
            return None
        sent_s = stamp_s(stamped)
        return None if sent_s is None else (since_s + until_s) / 2 - sent_s


def _consumers(connection: Any, name: str) -> int | None:
    """Ask on a channel of its own, which an error closes.

    A queue that is locked is there for the connection that made it, as long as that is.
    """
    try:
        with connection.channel() as channel:
            return int(channel.queue_declare(name, passive=True).consumer_count)
    except amqp.NotFound:
        return 0
    except amqp.ResourceLocked:
        return 1
    except amqp.ChannelError as problem:
        LOG.debug('The broker does not tell who reads %s: %s', name, problem)
        return None


class BrokerClock:
    """The broker's time of day: ours, less what its clock was found to be behind.

    It is compared with ours in a thread of its own, and only where messages bear the
    broker's time. ``behind_s`` compares; it is waited for ``within_s``.
    """

    def __init__(
        self,
        behind_s: Callable[[], float | None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
        within_s: float = BROKER_S,
    ) -> None:
        self._within_s = within_s
        self._measure = behind_s
        self._clock = clock
        self._executor = BulkheadExecutor('broker clock', 1)
        self._lock = threading.Lock()
        self._measuring: Future[None] | None = None
        self._measured_at = -math.inf
        self._behind_s: float | None = None
        self._named = LogOnce()

    def __call__(self) -> float:
        """Return the broker's time; our own where it is not known."""
        return self._clock.time() - (self._behind_s or 0.0)

    def is_known(self, within_s: float = CLOCK_EVERY_S) -> bool:
        """Return whether the clocks were compared, not longer ago than that.

        The first comparison is waited for, and one that is asked for early; else it
        goes on in the background, and the last one holds.
        """
        with self._lock:
            age_s = self._clock.monotonic() - self._measured_at
            if age_s > within_s and (not self._measuring or self._measuring.done()):
                self._measuring = self._executor.submit(self._compare)
            measuring = self._measuring
        if measuring and (math.isinf(age_s) or within_s < CLOCK_EVERY_S):
            concurrent.futures.wait([measuring], self._within_s)
        return self._behind_s is not None

    def close(self) -> None:
        """Let the thread end; nothing is compared any more."""
        self._executor.close()

    def _compare(self) -> None:
        behind_s = self._measure()
        with self._lock:
            self._measured_at, self._behind_s = self._clock.monotonic(), behind_s
        if behind_s is None or abs(behind_s) <= CLOCK_NAMED_S:
            self._named.ends()
        elif self._named.begins():
            side = 'behind' if behind_s > 0 else 'ahead of'
            LOG.warning(
                'The clock of the broker is %.0f s %s ours', abs(behind_s), side
            )


def waited_s(
    incoming: Any, now_s: Callable[[], float] = SYSTEM_CLOCK.time
) -> float | None:
    """Return how long an incoming message of oslo.messaging has waited, if known.

    ``now_s`` returns the broker's time. It counts if the broker stamped the message;
    else it is since a thread of ours took the message from the queue.
    """
    sent_s = stamp_s(incoming.message)
    return waited_here_s(incoming) if sent_s is None else max(0.0, now_s() - sent_s)


def waited_here_s(incoming: Any) -> float | None:
    """Return how long ago a thread of ours took a message from its queue."""
    stopwatch = getattr(incoming, 'stopwatch', None)
    return None if stopwatch is None else float(stopwatch.elapsed())


def stamp_s(message: Any) -> float | None:
    """Return the broker's time when it got a message; None if it does not say."""
    headers = getattr(getattr(message, '_raw_message', message), 'headers', None)
    stamp_ms = headers.get(BROKERS_TIME) if isinstance(headers, Mapping) else None
    return stamp_ms / 1000 if isinstance(stamp_ms, int | float) else None
