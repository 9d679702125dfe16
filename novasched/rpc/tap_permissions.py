# SPDX-License-Identifier: Apache-2.0
"""The permissions that a tap needs at the broker, tried without doing any harm."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import errors
from novasched.ports import Requests
from novasched.rpc import tap
from novasched.rpc.broker import UNANSWERED
from novasched.rpc.oslo_internals import rabbit_options
from novasched.rpc.server import TOPIC
from novasched.rpc.transport import CONTROL_EXCHANGE, OPTION, REMEDY, as_driven, brokers

ACCOUNT = 'novasched_shadow'
FOREIGN = ('scheduler.{}', 'reply_{}', '{}')
"""Names, with a uuid, of queues that a tap has nothing to do with."""


def grant(conf: cfg.ConfigOpts, account: str = ACCOUNT) -> str:
    """Return the command that gives an account the permissions of a tap, and no more.

    They are patterns of names that it may configure, write and read.
    """
    exchange = conf.control_exchange or CONTROL_EXCHANGE
    vhost = oslo_messaging.TransportURL.parse(conf).virtual_host or '/'
    own = tap.QUEUE.partition('{')[0].replace('.', '[.]')
    readable = f'^({exchange}$|{TOPIC}_fanout$|{own})'
    given = f"'^{own}' '^{own}' '{readable}'"
    return f'rabbitmqctl set_permissions -p {vhost} {account} {given}'


def account(conf: cfg.ConfigOpts) -> str:
    """Return the account that the transport URL names."""
    return str(brokers(conf)[0].username)


class _Nowhere:
    """A dispatcher that drops messages."""

    def dispatch(self, incoming: tap.Tapped) -> None:
        """Drop a message."""


def problem(conf: cfg.ConfigOpts, requests: Requests, host: str) -> str | None:
    """Tap for a moment as a shadow does; return the problem of that, or None."""
    tried = tap.from_conf(
        conf,
        _Nowhere(),
        requests,
        host=host,
        topic=TOPIC,
        observer=tap.TapObserver(),
    )
    tried.start()
    tried.stop()
    tried.wait()
    return tried.problem


def excess(conf: cfg.ConfigOpts) -> list[str]:
    """Return in words the permissions of an account that no tap needs. Raises
    errors.OptionError.

    The queues that are named are not there; one that may be made ends with the
    connection. A source of messages is refused before it is looked for.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    exchange = conf.control_exchange or CONTROL_EXCHANGE
    tries: dict[str, Callable[[Any, str], object]] = {
        'read other queues': lambda channel, name: channel.basic_get(name),
        'write to other queues': lambda channel, name: channel.queue_bind(
            name, exchange, name
        ),
        'make other queues': lambda channel, name: channel.queue_declare(
            name, exclusive=True, auto_delete=True
        ),
        f'publish to the exchange {exchange}': lambda channel, name: (
            channel.exchange_bind(exchange, name)
        ),
    }
    names = [each.format(uuid.uuid4()) for each in FOREIGN]
    try:
        with as_driven(rabbit_options(conf, url), url) as connection:
            return [
                said
                for said, attempt in tries.items()
                if any(_may(connection, attempt, name) for name in names)
            ]
    except UNANSWERED as unanswered:
        raise errors.OptionError(OPTION, str(unanswered), REMEDY) from unanswered


def _may(connection: Any, attempt: Callable[[Any, str], object], name: str) -> bool:
    """Try on a channel of its own, which a refusal closes."""
    try:
        with connection.channel() as channel:
            attempt(channel, name)
    except amqp.NotFound:
        return True  # permissions come first
    except amqp.AccessRefused:
        return False
    return True
