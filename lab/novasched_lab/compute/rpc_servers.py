# SPDX-License-Identifier: Apache-2.0
"""RPC servers of simulated hosts; those of one broker share a connection."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_messaging.rpc.server import RPCServer  # type: ignore[import-untyped]

from novasched.rpc.server import BaseEndpoint, Dispatcher, Serializer
from novasched.rpc.stopping import StoppableServer
from novasched.rpc.transport import is_rabbit
from novasched_lab.rpc_api import COMPUTE

HOST = 'host'
"""The argument that says which host a message is for."""


class HostDispatcher(Dispatcher):
    """Adds the host that a message is for to its arguments.

    The queue that it came through says so; without one, it is for ``default``.
    """

    def __init__(self, endpoints: list[Any], default: str) -> None:
        super().__init__(endpoints, Serializer())
        self._default = default

    def dispatch(self, incoming: Any) -> Any:
        message = incoming.message
        if isinstance(message, dict) and 'namespace' not in message:
            arguments = message.setdefault('args', {})
            if isinstance(arguments, dict):
                arguments[HOST] = host_of(message) or self._default
        return super().dispatch(incoming)


def host_of(message: Any) -> str | None:
    """Return the host whose queue a message of RabbitMQ came through."""
    raw = getattr(message, '_raw_message', None)
    key = (getattr(raw, 'delivery_info', None) or {}).get('routing_key') or ''
    topic, _, host = key.partition('.')
    return host if topic == COMPUTE and host else None


class ManyHosts(StoppableServer):
    """Listens for several hosts over one connection to RabbitMQ."""

    def __init__(self, transport: Any, hosts: Sequence[str], dispatcher: Any) -> None:
        target = oslo_messaging.Target(topic=COMPUTE, server=hosts[0])
        super().__init__(transport, target, dispatcher)
        self._others = hosts[1:]

    @functools.wraps(RPCServer._create_listener)
    def _create_listener(self) -> Any:
        listener = super()._create_listener()
        inside = listener._poll_style_listener
        exchange = self.transport._driver._get_exchange(self._target)
        for host in self._others:
            inside.conn.declare_topic_consumer(
                exchange_name=exchange, topic=f'{COMPUTE}.{host}', callback=inside
            )
        return listener


def servers(transport: Any, hosts: Sequence[str], endpoint: Any) -> list[Any]:
    """Return RPC servers, not started, for hosts that share a broker.

    It is one for all; one each where messages stay in this process and name no queue.
    """
    endpoints = [endpoint, BaseEndpoint()]
    if is_rabbit(transport.conf):
        return [ManyHosts(transport, hosts, HostDispatcher(endpoints, hosts[0]))]
    return [
        StoppableServer(
            transport,
            oslo_messaging.Target(topic=COMPUTE, server=host),
            HostDispatcher(endpoints, host),
        )
        for host in hosts
    ]
