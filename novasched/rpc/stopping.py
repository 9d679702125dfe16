# SPDX-License-Identifier: Apache-2.0
"""How a server stops: no request that the broker has sent is lost."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from oslo_messaging.rpc.server import RPCServer  # type: ignore[import-untyped]

from novasched.ports import Requests
from novasched.rpc.caller import calling
from novasched.rpc.transport import CONNECTION_ERRORS, is_rabbit

LOG = logging.getLogger(__name__)

GONE: tuple[type[BaseException], ...] = (OSError, *CONNECTION_ERRORS)


class Server(RPCServer):  # type: ignore[misc]
    """Knows the callers of what it serves, and stops without losing requests.

    oslo.messaging stops reading, but never tells the broker. What the broker sends
    until the connection closes is acknowledged while it closes, and forgotten.
    ``requests`` knows which are under way.
    """

    requests: Requests

    @functools.wraps(RPCServer.stop)  # with the mark of what is done in order
    def stop(self) -> None:
        """Take no more requests; those that came already are still served."""
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

    def _process_incoming(self, incoming: Any) -> None:
        with calling(incoming[0]):
            super()._process_incoming(incoming)


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
