# SPDX-License-Identifier: Apache-2.0
"""The transport of messages, and a check of its broker."""

from __future__ import annotations

import re
import socket
from typing import Any

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from kombu.connection import Connection
from oslo_config import cfg
from oslo_messaging import opts as messaging
from oslo_messaging._drivers import amqpdriver  # type: ignore[import-untyped]
from oslo_messaging._metrics import client as _metrics  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors

try:
    from oslo_messaging._tracing import client as _tracing  # type: ignore[import-untyped]
except ImportError:  # it came with 18.0
    _tracing = None

OPTION = '[DEFAULT] transport_url'
HOW_TO_WRITE = (
    'Write it as rabbit://user:password@host:5672/, and what is special in user and '
    'password percent-encoded: / as %2F, # as %23, ? as %3F, @ as %40, a comma as %2C.'
)
CONNECT_TIMEOUT_S = 5.0
RETRY_S = 2.0
CONTROL_EXCHANGE = 'nova'
CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    *amqp.connection.Connection.connection_errors,
    *amqp.connection.Connection.channel_errors,
)

POLL_S = 0.25
"""After each message oslo.messaging polls again after so long, twice as long, and so on
up to 5 s. Its own 1 ms is for acknowledgements that other threads send, which servers
of RPC never do; the polls took a tenth of the CPU time of a request."""

oslo_messaging.set_transport_defaults(CONTROL_EXCHANGE)
# There is no option for it; where it has moved, there are more polls.
amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = POLL_S


OPTS: dict[str, list[cfg.Opt]] = {
    group or 'DEFAULT': list(opts) for group, opts in messaging.list_opts()
}
# Those two it registers as it reads them, and in the global configuration alone.
OPTS['oslo_messaging_metrics'] = _metrics.oslo_messaging_metrics
if _tracing is not None:
    OPTS['oslo_messaging_tracing'] = _tracing.oslo_messaging_tracing


def transport_from_conf(
    conf: cfg.ConfigOpts, url: str | None = None, option: str = OPTION
) -> Any:
    """Make the RPC transport; it connects when it is first used.

    ``url`` is that of another broker, which ``option`` names. Raises
    errors.OptionError for a URL that makes no sense.
    """
    try:
        return oslo_messaging.get_rpc_transport(conf, url=url)
    except (
        oslo_messaging.InvalidTransportURL,
        oslo_messaging.DriverLoadFailure,
    ) as problem:
        raise errors.OptionError(option, str(problem), HOW_TO_WRITE) from problem
    except ValueError:  # its text may hold a part of the password
        raise errors.OptionError(
            option, 'it makes no sense as a URL', HOW_TO_WRITE
        ) from None


def is_rabbit(conf: cfg.ConfigOpts) -> bool:
    """Say whether messages go through RabbitMQ."""
    url = oslo_messaging.TransportURL.parse(conf)
    return bool(url.transport.startswith(('rabbit', 'kombu')))


def brokers(conf: cfg.ConfigOpts) -> list[Any]:
    """Return the hosts of the URL, with oslo.messaging's defaults where it has gaps.

    The port is the same over TLS; without any host it is this machine.
    """
    host = oslo_messaging.TransportHost
    return [
        host(
            hostname=each.hostname or 'localhost',
            port=each.port or 5672,
            username=each.username or 'guest',
            password=each.password or 'guest',
        )
        for each in oslo_messaging.TransportURL.parse(conf).hosts or [host()]
    ]


def address(conf: cfg.ConfigOpts) -> str:
    """Return where messages go, without user and password."""
    url = oslo_messaging.TransportURL.parse(conf)
    hosts = ''
    if is_rabbit(conf):
        hosts = ','.join(
            f'{f"[{each.hostname}]" if ":" in each.hostname else each.hostname}'
            f':{each.port}'
            for each in brokers(conf)
        )
    return f'{url.transport}://{hosts}/{url.virtual_host or ""}'


def check(transport: Any, retry_s: float = RETRY_S) -> None:
    """Connect to the broker once. Raises errors.OptionError if none answers.

    A broker that refuses the connection is tried once more after ``retry_s``. Only
    RabbitMQ is asked for its opinion of user and password, and not over TLS, whose
    settings are oslo.messaging's own.
    """
    if not is_rabbit(transport.conf):
        return
    url = oslo_messaging.TransportURL.parse(transport.conf)
    _check_queues(url, transport.conf)
    problems = [
        _problem(host, url, transport.conf, retry_s) for host in brokers(transport.conf)
    ]
    if not all(problems):
        return
    if _cuts_password(transport.conf.transport_url):
        problem = 'no broker answers, and an @ stands behind what seems to be the host'
        raise errors.OptionError(OPTION, problem, HOW_TO_WRITE)
    raise errors.OptionError(
        OPTION,
        f'no broker answers: {"; ".join(p for p in problems if p)}',
        'Check that RabbitMQ runs there, and user, password and virtual host.',
    )


def _cuts_password(url: str) -> bool:
    """Say whether a host may be a user, and its port a part of the password.

    So it is where a password holds a character that ends it.
    """
    first = re.split('[/?#,]', url.partition('://')[2], maxsplit=1)[0]
    return '@' not in first and '@' in url


def connection_to(host: Any, url: Any) -> Connection:
    """Return a connection without TLS to a broker of a URL; nothing connects yet."""
    return Connection(  # type: ignore[no-untyped-call]
        hostname=host.hostname,
        port=host.port,
        userid=host.username,
        password=host.password,
        virtual_host=url.virtual_host or '/',
        transport='pyamqp',
        connect_timeout=CONNECT_TIMEOUT_S,
    )


def _problem(host: Any, url: Any, conf: cfg.ConfigOpts, retry_s: float) -> str | None:
    """Return why a broker cannot be used, or None."""
    place = f'{host.hostname}:{host.port}'
    try:
        if _is_on('ssl', url, conf):
            address = host.hostname, host.port
            socket.create_connection(address, CONNECT_TIMEOUT_S).close()
            return None
        with connection_to(host, url) as connection:
            connection.ensure_connection(
                max_retries=1,
                interval_start=retry_s,
                reraise_as_library_errors=False,
            )
    except OSError as problem:
        return f'{place}: {problem.strerror or problem}'
    except CONNECTION_ERRORS as problem:
        return f'{place}: {problem}'
    return None


def _check_queues(url: Any, conf: cfg.ConfigOpts) -> None:
    """Find out what would keep the driver from making its queues later."""
    if not _is_on('rabbit_stream_fanout', url, conf):
        return
    prefetch = 'rabbit_qos_prefetch_count'
    wanted = url.query.get(prefetch, conf.oslo_messaging_rabbit[prefetch])
    quorum = 'rabbit_transient_quorum_queue'
    if int(wanted) < 1:
        problem, remedy = 'it wants a limit of messages', f'Set {prefetch} to 10 or so.'
    elif not _is_on(quorum, url, conf):
        problem, remedy = 'it wants quorum queues', f'Set {quorum} to true.'
    else:
        return
    option = '[oslo_messaging_rabbit] rabbit_stream_fanout'
    raise errors.OptionError(option, problem, remedy)


def _is_on(name: str, url: Any, conf: cfg.ConfigOpts) -> bool:
    """Read an option of the driver; the URL may set any of them."""
    value = url.query.get(name, conf.oslo_messaging_rabbit[name])
    return strutils.bool_from_string(value)
