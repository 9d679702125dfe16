# SPDX-License-Identifier: Apache-2.0
"""A tap: a copy of each message that the broker gives to schedulers. It answers none.

The queue is the tap's own. It ends with its connection, and is bounded in length and
age: a tap that is killed, paused or slow costs nobody anything.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import oslo_messaging  # type: ignore[import-untyped]
from kombu.connection import Connection
from oslo_config import cfg

from novasched.ports import Requests
from novasched.rpc.broker import UNANSWERED
from novasched.rpc.oslo_internals import rabbit_options, unpacked
from novasched.rpc.transport import CONTROL_EXCHANGE, as_driven
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

QUEUE = 'novasched_shadow.{}.{}'
"""The queue of a tap, by host and a uuid."""
LONGEST = 5000
"""Messages that may wait in the queue; the oldest of more are dropped."""
OLDEST_S = 60
"""Seconds after which a message that waits is dropped."""
RETRY_S = 2.0
POLL_S = 1.0


class Gap(NamedTuple):
    """A time, in seconds since 1970, in which nothing was tapped, and why."""

    since_s: float
    until_s: float
    problem: str


class Tapped(NamedTuple):
    """A message as a dispatcher of oslo.messaging takes it; nobody waits for it."""

    ctxt: dict[str, Any]
    message: dict[str, Any]
    client_timeout: None = None


class Tap:
    """Dispatches what the topic ``scheduler`` and its fanout exchange give, one message
    after the other.

    It has the methods of a server of oslo.messaging that a service starts and stops.
    ``connect`` makes a connection to the broker, ``exchange`` is nova's, and
    ``on_gap`` hears of times in which the tap was away.
    """

    drain_s: float = 0.0

    def __init__(
        self,
        connect: Callable[[], Connection],
        dispatcher: Any,
        requests: Requests,
        *,
        host: str,
        exchange: str,
        topic: str,
        on_gap: Callable[[Gap], None] = lambda gap: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._connect = connect
        self._dispatcher = dispatcher
        self.requests = requests
        self._exchanges = {exchange: topic, f'{topic}_fanout': ''}
        self._host = host
        self._on_gap = on_gap
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='tap', daemon=True)
        self._failing = LogOnce()
        self._away = (clock.time(), 'it had not begun')
        self.problem: str | None = self._away[1]
        """Why nothing is tapped now; None while the tap listens."""
        self.tapped = 0

    def start(self) -> None:
        """Begin to listen, and go on until the end, whatever becomes of the broker."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages."""
        self._ended.set()

    def wait(self) -> None:
        """Wait for the message under way."""
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except UNANSWERED as problem:
                self._lost(f'{type(problem).__name__}: {problem}')
                self._ended.wait(RETRY_S)

    def _listen(self, connection: Any) -> None:
        with connection.channel() as channel:
            self._bind(channel)
            self._found()
            since_s = self._clock.monotonic()
            while not self._ended.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=POLL_S)
                if self._clock.monotonic() - since_s >= POLL_S:
                    since_s = self._clock.monotonic()
                    connection.heartbeat_check()

    def _bind(self, channel: Any) -> None:
        """Have a queue of our own at the exchanges that are there.

        Raises amqp.NotFound while nova's is not: whether it lasts is nova's choice.
        """
        queue = QUEUE.format(self._host, uuid.uuid4())
        channel.queue_declare(
            queue,
            exclusive=True,
            auto_delete=True,
            arguments={
                'x-max-length': LONGEST,
                'x-overflow': 'drop-head',
                'x-message-ttl': OLDEST_S * 1000,
            },
        )
        for exchange, key in self._exchanges.items():
            channel.queue_bind(queue, exchange, key)
        channel.basic_consume(queue, no_ack=True, callback=self._take)

    def _take(self, raw: Any) -> None:
        """Dispatch a message; nothing that it says or does may end the tap."""
        self.tapped += 1
        try:
            context, message = unpacked(raw.body)
            self._dispatcher.dispatch(Tapped(context, message))
        except oslo_messaging.ExpectedException:
            pass  # it has its line in the log
        except Exception:
            LOG.exception('A message that was tapped has failed')

    def _found(self) -> None:
        since_s, problem = self._away
        self.problem = None
        self._on_gap(Gap(since_s, self._clock.time(), problem))
        if self._failing.ends():
            LOG.info('Messages for schedulers are tapped again')

    def _lost(self, problem: str) -> None:
        if self.problem is None:
            self._away = (self._clock.time(), problem)
        self.problem = problem
        if self._failing.begins():
            LOG.warning('Messages for schedulers cannot be tapped: %s', problem)


def from_conf(
    conf: cfg.ConfigOpts, dispatcher: Any, requests: Requests, host: str, topic: str
) -> Tap:
    """Return a tap at the broker of the transport URL, connected as the driver would.

    Raises errors.OptionError for options with which no connection can be made.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    options = rabbit_options(conf, url)
    as_driven(options, url)
    return Tap(
        lambda: as_driven(options, url),
        dispatcher,
        requests,
        host=host,
        exchange=conf.control_exchange or CONTROL_EXCHANGE,
        topic=topic,
    )
