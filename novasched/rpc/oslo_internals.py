# SPDX-License-Identifier: Apache-2.0
"""Private names of oslo.messaging: what its public interface does not offer.

A release of oslo.messaging that renames one is met here, and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import oslo_messaging  # type: ignore[import-untyped]
from kombu.connection import Connection
from oslo_config import cfg
from oslo_messaging._drivers import (  # type: ignore[import-untyped]
    amqp,
    amqpdriver,
    common,
    impl_rabbit,
)
from oslo_messaging._metrics import client as _metrics  # type: ignore[import-untyped]

try:
    from oslo_messaging._tracing import client as _tracing  # type: ignore[import-untyped]
except ImportError:  # it came with 18.0
    _tracing = None

LOG = logging.getLogger(__name__)

UNDELIVERABLE = (oslo_messaging.MessageUndeliverable, amqp.AMQPDestinationNotFound)
"""Raised where the reply queue of an answer is missing."""

GLOBAL_OPTS: dict[str, list[cfg.Opt]] = {
    'oslo_messaging_metrics': _metrics.oslo_messaging_metrics
}
"""Options that it registers as it reads them, in the global configuration alone."""
if _tracing is not None:
    GLOBAL_OPTS['oslo_messaging_tracing'] = _tracing.oslo_messaging_tracing

POLL_S = 0.25
"""Time until oslo.messaging polls again after a message; it doubles up to 5 s.

Its own 1 ms is for acknowledgements that other threads send, which servers of RPC never
do. These polls took a tenth of the CPU time of a request.
"""
# There is no option for it; where it has moved, there are more polls.
amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = POLL_S

_PARKABLE = ('listener', 'reply_q', 'orig_msg_id', '_send_reply')
"""What a message must have for its answer to be parked."""


class UnconnectedConnection(impl_rabbit.Connection):  # type: ignore[misc]
    """The driver's connection as its options make it, before it connects.

    Raises RuntimeError for options with which none can be made.
    """

    def __init__(self, options: Any, url: Any) -> None:
        super().__init__(options, url, common.PURPOSE_LISTEN)

    @property
    def driven(self) -> Connection:
        """The connection of kombu, which the driver would use."""
        made: Connection = self.connection
        return made

    def ensure_connection(self) -> None:
        """Connect to nothing."""


class CollectingConnection(UnconnectedConnection):
    """The driver's connection, which collects what it would declare."""

    def __init__(self, options: Any, url: Any) -> None:
        self.collected: list[Any] = []
        super().__init__(options, url)
        self._q_manager = None  # it counts names, for connections that listen

    def declare_consumer(self, consumer: Any) -> None:
        """Collect it."""
        self.collected.append(consumer)


def rabbit_options(conf: cfg.ConfigOpts, url: Any) -> Any:
    """Return the driver's options, those that a URL overrides with them."""
    return common.ConfigOptsProxy(conf, url, 'oslo_messaging_rabbit')


def driver_of(transport: Any) -> Any:
    return transport._driver


def unpacked(body: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the context and the message in the body of a message of RPC.

    Raises ValueError and oslo_messaging.MessagingException for what is none.
    """
    message = common.deserialize_msg(json.loads(body))
    if not isinstance(message, dict):
        raise ValueError('it is no message of RPC')
    context = amqp.unpack_context(message)
    for key in ('_unique_id', '_timestamp'):
        message.pop(key, None)
    return context.to_dict(), message


@contextlib.contextmanager
def borrowed(driver: Any, timeout_s: float) -> Iterator[Any]:
    """Lend kombu's connection to the broker; each answer is waited for so long."""
    with driver._get_connection() as lent:
        rabbit = lent.connection
        with rabbit._connection_lock:
            rabbit.set_transport_socket_timeout(timeout_s)
            try:
                yield rabbit.connection
            finally:
                rabbit.set_transport_socket_timeout()


def is_parkable(incoming: Any) -> bool:
    """Return whether the answer to a message can be sent later, or once more."""
    return all(hasattr(incoming, name) for name in _PARKABLE)


@contextlib.contextmanager
def reply_connection(incoming: Any) -> Iterator[Any]:
    """Lend a connection on which the answer to a message is sent."""
    with incoming.listener.driver._get_connection() as connection:
        yield connection


def send_reply(incoming: Any, connection: Any, reply: Any, failure: Any) -> None:
    """Send an answer. Raises one of UNDELIVERABLE where its queue is missing."""
    incoming._send_reply(connection, reply, failure)


def use_threads(server: Any, executor: type) -> None:
    """Have a server that works in threads use this executor for them."""
    if server.executor_type == 'threading':
        server._executor_cls = executor


def declare_topic_queue(transport: Any, adapter: Any, target: Any, name: str) -> None:
    """Have the listener of a server read one more queue of its topic."""
    listener = adapter._poll_style_listener
    exchange = transport._driver._get_exchange(target)
    listener.conn.declare_topic_consumer(exchange, name, listener)


def is_connected(server: Any) -> bool:
    """Return whether a server that runs over RabbitMQ is connected.

    Raises AttributeError for a server that does not listen.
    """
    driver = server.listener._poll_style_listener.conn.connection
    return bool(driver.connection.connected)  # kombu's


class RunningServer(NamedTuple):
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
