# SPDX-License-Identifier: Apache-2.0
"""The virtual host of RabbitMQ that a demo has to itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import errors
from novasched.rpc.transport import (
    CONNECTION_ERRORS,
    brokers,
    check,
    connection_to,
    is_rabbit,
    transport_from_conf,
)
from novasched_lab.rpc_api import COMPUTE, CONDUCTOR, SCHEDULER

OPTION = '--broker'
TOPICS = (SCHEDULER, CONDUCTOR, COMPUTE)
EXCHANGE = 'novasched-demo'


class DemoBroker:
    """Looks at the queues of the virtual host; ``url`` is that of oslo.messaging."""

    def __init__(self, url: str) -> None:
        self._conf = conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        oslo_messaging.TransportURL.parse(conf)  # registers transport_url
        conf.set_override('transport_url', url.replace('$', '$$'))

    def check(self) -> None:
        """Raise errors.OptionError if its virtual host is in use."""
        transport = transport_from_conf(self._conf)
        try:
            if not is_rabbit(self._conf):
                raise errors.OptionError(
                    OPTION,
                    'it is no RabbitMQ',
                    'Write rabbit://user:password@host/vhost',
                )
            check(transport)
        finally:
            transport.cleanup()
        used = [topic for topic in TOPICS if self.consumers(topic) is not None]
        if used:
            raise errors.OptionError(
                OPTION,
                f'its virtual host is in use: there is a queue {used[0]}',
                'Make one for the demo, with rabbitmqctl add_vhost and set_permissions',
            )

    def consumers(self, queue: str) -> int | None:
        """Return how many listen to a queue; None if there is none."""
        with self._channel() as channel:
            try:
                return int(channel.queue_declare(queue, passive=True).consumer_count)
            except amqp.NotFound:
                return None

    def clear(self, hosts: list[str]) -> None:
        """Delete the queues and exchanges of the demo that have no consumer left."""
        with (
            contextlib.suppress(OSError, *CONNECTION_ERRORS),
            self._channel() as channel,
        ):
            for queue in (*TOPICS, *(f'{COMPUTE}.{host}' for host in hosts)):
                channel.queue_delete(queue, if_unused=True)
            for topic in TOPICS:
                channel.exchange_delete(f'{topic}_fanout')
            channel.exchange_delete(EXCHANGE)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[amqp.Channel]:
        host = brokers(self._conf)[0]
        url = oslo_messaging.TransportURL.parse(self._conf)
        with connection_to(host, url) as connection:
            yield connection.channel()
