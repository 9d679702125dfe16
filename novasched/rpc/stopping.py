# SPDX-License-Identifier: Apache-2.0
"""A graceful stop of an RPC server: no request that the broker has sent is lost."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from oslo_messaging.rpc.server import RPCServer  # type: ignore[import-untyped]

from novasched.clock import SYSTEM_CLOCK
from novasched.ports import Requests
from novasched.rpc.answers import Answers, Incoming
from novasched.rpc.broker import Broker, BrokerClock
from novasched.rpc.caller import RpcCaller, calling
from novasched.rpc.reply_queues import ReplyQueues
from novasched.rpc.transport import CONNECTION_ERRORS, is_rabbit
from novasched.rpc.waiting import Unobserved, waited_s

LOG = logging.getLogger(__name__)

LAST_PART = 0.8
"""The rest of a server's time to stop is for undoing claims of unread answers."""

GONE: tuple[type[BaseException], ...] = (OSError, *CONNECTION_ERRORS)


class StoppableServer(RPCServer):  # type: ignore[misc]
    """Knows the callers of what it serves, and stops without losing requests.

    oslo.messaging stops reading, but never cancels its consumer. What the broker sends
    until the connection closes is acknowledged while it closes, and forgotten.
    ``requests`` knows which wait and which are under way; parked answers wait for their
    callers, but not for longer than ``drain_s`` once the server stops. ``clock`` is the
    broker's.
    """

    requests: Requests = Unobserved()
    drain_s: float = float('inf')

    def __init__(self, transport: Any, target: Any, dispatcher: Any) -> None:
        super().__init__(transport, target, dispatcher)
        driver = transport._driver
        broker = Broker(driver)
        retry_s = getattr(driver, 'missing_destination_retry_timeout', None) or 0
        self.clock = BrokerClock(broker.clock_behind_s)
        self._queues = ReplyQueues(broker.consumers, retry_s)
        self._answers = Answers(self._queues)

    @functools.wraps(RPCServer.stop)  # with the mark of what is done in order
    def stop(self) -> None:
        """Take no more requests; those that came already are still served."""
        self._answers.end_by(SYSTEM_CLOCK.monotonic() + self.drain_s * LAST_PART)
        inside = Inside.of(self) if is_rabbit(self.transport.conf) else None
        super().stop()
        if inside is None:
            return
        try:
            with inside.lock:
                for consumer, tag in inside.consumers.items():
                    consumer.cancel(tag)
        except GONE as problem:
            LOG.warning('The broker could not be told to send no more: %s', problem)
        while incoming := inside.poll():
            inside.serve(incoming)

    @functools.wraps(RPCServer.wait)
    def wait(self) -> None:
        """Wait for requests under way, and for their answers."""
        super().wait()
        self._answers.drain()
        self._queues.stop()
        self._answers.close()
        self.clock.close()

    def _on_incoming(self, incoming: Any) -> None:
        self.requests.queued(id(incoming), waited_s(incoming[0]) or 0.0)
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Any) -> None:
        self.requests.taken(id(incoming))
        caller = RpcCaller(
            incoming[0], self._queues, self._answers.has_room, self.clock
        )
        with calling(caller):
            answering = Incoming(incoming[0], caller, self._answers)
            super()._process_incoming([answering])


class Inside(NamedTuple):
    """What oslo.messaging keeps to itself of a server that is running."""

    lock: Any
    consumers: Mapping[Any, Any]
    poll: Callable[[], Any]
    serve: Callable[[Any], None]

    @classmethod
    def of(cls, server: Any) -> Self | None:
        """Look it up; None if the server is not running, or it has moved."""
        try:
            if not server._started:
                return None
            listener = server.listener._poll_style_listener
            connection = listener.conn
            return cls(
                lock=connection._connection_lock,
                consumers=connection._consumers,
                poll=listener.poll,
                serve=server._on_incoming,
            )
        except AttributeError as problem:
            LOG.warning(
                'Requests that arrive while the service stops may be lost: this '
                'oslo.messaging is not as expected: %s',
                problem,
            )
            return None
