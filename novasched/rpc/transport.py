# SPDX-License-Identifier: Apache-2.0
"""The transport of messages, and a check of its broker."""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from kombu.connection import Connection
from kombu.entity import Queue
from oslo_config import cfg
from oslo_messaging import opts as messaging
from oslo_utils import netutils

from novasched import errors
from novasched.rpc import oslo_internals
from novasched.rpc.oslo_internals import CollectingConnection, UnconnectedConnection
from novasched.runtime import connections

OPTION = '[DEFAULT] transport_url'
NOTIFICATIONS = '[oslo_messaging_notifications] transport_url'
RABBIT = '[oslo_messaging_rabbit]'
HOW_TO_WRITE = (
    'Write it as rabbit://user:password@host:5672/, and what is special in user and '
    'password percent-encoded: / as %2F, # as %23, ? as %3F, @ as %40, a comma as %2C.'
)
REMEDY = (
    'Check that RabbitMQ runs there, and user, password and virtual host; '
    '[oslo_messaging_rabbit] ssl says whether TLS is spoken, rabbit_login_method how '
    'to log in.'
)
CONNECT_TIMEOUT_S = 5.0
RETRY_S = 2.0
CONTROL_EXCHANGE = 'nova'
CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    *amqp.connection.Connection.connection_errors,
    *amqp.connection.Connection.channel_errors,
)

oslo_messaging.set_transport_defaults(CONTROL_EXCHANGE)

OPTS: dict[str, list[cfg.Opt]] = {
    group or 'DEFAULT': list(opts) for group, opts in messaging.list_opts()
} | oslo_internals.GLOBAL_OPTS


def transport_from_conf(
    conf: cfg.ConfigOpts, url: str | None = None, option: str = OPTION
) -> Any:
    """Make the RPC transport; it connects when it is first used.

    ``url`` leads to another broker, and ``option`` names it. Raises errors.OptionError
    for an invalid URL, and for options of the driver that keep it from being loaded.
    """
    try:
        return oslo_messaging.get_rpc_transport(conf, url=url)
    except (
        oslo_messaging.DriverLoadFailure,
        oslo_messaging.InvalidTransportURL,
    ) as problem:
        if 'conn_pool' in str(getattr(problem, 'ex', '')):
            raise errors.OptionError(
                f'{RABBIT} rpc_conn_pool_size',
                'it is below conn_pool_min_size',
                'Raise it, or lower the other',
            ) from problem
        raise errors.OptionError(option, str(problem), HOW_TO_WRITE) from problem
    except cfg.NoSuchOptError as problem:
        raise errors.OptionError(
            option,
            f'behind its ? stands {problem.opt_name}, which is no option of {RABBIT}',
            'Correct its name',
        ) from problem
    except ValueError:  # its text may hold a part of the password
        raise errors.OptionError(option, 'it is no valid URL', HOW_TO_WRITE) from None


def is_rabbit(conf: cfg.ConfigOpts, url: str | None = None) -> bool:
    """Return whether messages go through RabbitMQ."""
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    return bool(parsed.transport.startswith(('rabbit', 'kombu')))


def notifications_url(conf: cfg.ConfigOpts) -> str | None:
    """Return the URL of a broker that is for notifications alone.

    None if there is none, or nothing is sent to it.
    """
    group = conf.oslo_messaging_notifications
    sends = any(name.startswith('messaging') for name in group.driver)
    return group.transport_url if sends else None


def brokers(conf: cfg.ConfigOpts, url: str | None = None) -> list[Any]:
    """Return the hosts of a URL, with oslo.messaging's defaults where it has gaps.

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
        for each in oslo_messaging.TransportURL.parse(conf, url).hosts or [host()]
    ]


def address(conf: cfg.ConfigOpts) -> str:
    """Return where messages go, without user and password."""
    url = oslo_messaging.TransportURL.parse(conf)
    found = brokers(conf) if is_rabbit(conf) else []
    named = (f'{netutils.escape_ipv6(each.hostname)}:{each.port}' for each in found)
    hosts = ','.join(named)
    return f'{url.transport}://{hosts}/{url.virtual_host or ""}'


def check(
    transport: Any,
    retry_s: float = RETRY_S,
    *,
    url: str | None = None,
    option: str = OPTION,
) -> None:
    """Connect to the broker once, as the driver does. Raises errors.OptionError if none
    answers.

    A broker that refuses the connection is tried once more after ``retry_s``. Only
    RabbitMQ is tried. ``url`` leads to another broker, and ``option`` names it.
    """
    conf = transport.conf
    if not is_rabbit(conf, url):
        return
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    options = oslo_internals.rabbit_options(conf, parsed)
    _check_queues(options.oslo_messaging_rabbit)
    driven = as_driven(options, parsed)
    problems = [_problem(host, parsed, driven, retry_s) for host in brokers(conf, url)]
    found = [each for each in problems if each is not None]
    if len(found) == len(problems):
        raise _unreachable(found, url or conf.transport_url, option)


def _unreachable(
    found: Sequence[_Problem], url: str, option: str
) -> errors.OptionError:
    if _cuts_password(url):
        problem = 'no broker answers, and an @ stands behind what seems to be the host'
        return errors.OptionError(option, problem, HOW_TO_WRITE)
    named = {each.option for each in found}
    return errors.OptionError(
        (named.pop() if len(named) == 1 else None) or option,
        f'no broker answers: {"; ".join(each.text for each in found)}',
        next((each.remedy for each in found if each.option), REMEDY),
    )


def _cuts_password(url: str) -> bool:
    """Return whether a host may be a user, and its port a part of the password.

    So it is where a password holds a character that ends it.
    """
    first = re.split('[/?#,]', url.partition('://')[2], maxsplit=1)[0]
    return '@' not in first and '@' in url


def check_queues(transport: Any, topics: Iterable[str], host: str) -> None:
    """Compare what is at the broker with what servers of topics will declare there.

    What is not there is not made. Raises errors.OptionError for an exchange or queue
    that another service declared otherwise: the driver would try it for ever. A broker
    that cannot be asked says nothing.
    """
    conf = transport.conf
    if not is_rabbit(conf):
        return
    parsed = oslo_messaging.TransportURL.parse(conf)
    options = oslo_internals.rabbit_options(conf, parsed)
    made = CollectingConnection(options, parsed)
    for topic in topics:
        for queue in (topic, f'{topic}.{host}'):
            exchange = conf.control_exchange or CONTROL_EXCHANGE
            made.declare_topic_consumer(exchange, queue)
        made.declare_fanout_consumer(topic, None)
    for broker in brokers(conf):
        opened = contextlib.closing(connection_to(broker, parsed, made.driven))
        with contextlib.suppress(OSError, *CONNECTION_ERRORS), opened as connection:
            for consumer in made.collected:
                _compare(connection, consumer)
            return


def _compare(connection: Any, consumer: Any) -> None:
    """Raise errors.OptionError if the exchange or the queue of a consumer is there and
    is another. That it is durable or not is left to the driver, which adapts."""
    queue: Any = Queue(  # type: ignore[no-untyped-call]
        consumer.queue_name,
        consumer.exchange,
        durable=consumer.durable,
        auto_delete=consumer.queue_auto_delete,
        queue_arguments=consumer.queue_arguments,
    )
    for declare in (consumer.exchange.declare, queue.queue_declare):
        try:
            # A passive declaration compares no arguments; only where there is such a
            # thing it is declared, which then makes nothing.
            for passive in (True, False):
                with connection.channel() as channel:
                    declare(channel=channel, passive=passive)
        except amqp.NotFound:
            continue
        except amqp.PreconditionFailed as problem:
            if "arg 'durable'" not in str(problem):
                raise _inequivalent(problem) from problem


_OPTIONS = {
    'auto_delete': 'amqp_auto_delete',
    'x-expires': 'rabbit_transient_queues_ttl',
    'x-queue-type': 'rabbit_quorum_queue',
    'x-max-in-memory-bytes': 'rabbit_quorum_max_memory_bytes',
    'x-max-in-memory-length': 'rabbit_quorum_max_memory_length',
    'x-delivery-limit': 'rabbit_quorum_delivery_limit',
}
"""By argument of a queue, the option that it comes from."""


def _inequivalent(problem: Exception) -> errors.OptionError:
    said = getattr(problem, 'reply_text', None) or str(problem)
    found = re.search(r"inequivalent arg '([\w-]+)'", said)
    option = _OPTIONS.get(found[1], '') if found else ''
    return errors.OptionError(
        f'{RABBIT} {option}'.rstrip(),
        said,
        'Set it as the other services of the cloud have it: what they declared is '
        'there already',
    )


def as_driven(options: Any, url: Any) -> Connection:
    """Return a connection with all that the driver's options say of it.

    Raises errors.OptionError for options with which none can be made.
    """
    group = options.oslo_messaging_rabbit
    if not group.heartbeat_rate:
        raise errors.OptionError(
            f'{RABBIT} heartbeat_rate', 'it is 0', 'Set it to 1 or more'
        )
    if group.ssl:
        connections.check_authorities(f'{RABBIT} ssl_ca_file', group.ssl_ca_file)
        cert, key = f'{RABBIT} ssl_cert_file', f'{RABBIT} ssl_key_file'
        connections.check_certificate(
            cert, group.ssl_cert_file, key, group.ssl_key_file
        )
    try:
        return UnconnectedConnection(options, url).driven
    except RuntimeError as problem:
        raise errors.OptionError(
            f'{RABBIT} ssl_version',
            str(problem),
            'Leave it out: the newest that both sides know is used then',
        ) from problem


def connection_to(host: Any, url: Any, driven: Connection | None = None) -> Connection:
    """Return a connection to a broker of a URL; nothing connects yet.

    It is without TLS, or as ``driven`` is, the connection of the driver.
    """
    made: dict[str, Any] = {}
    if driven is not None:
        made = {
            'ssl': driven.ssl,
            'login_method': driven.login_method,
            'heartbeat': driven.heartbeat,
            'transport_options': driven.transport_options,
        }
    return Connection(  # type: ignore[no-untyped-call]
        hostname=host.hostname,
        port=host.port,
        userid=host.username,
        password=host.password,
        virtual_host=url.virtual_host or '/',
        transport='pyamqp',
        connect_timeout=CONNECT_TIMEOUT_S,
        **made,
    )


class _Problem(NamedTuple):
    """Why a broker cannot be used; ``option`` is the one that decides it, if known."""

    text: str
    option: str | None = None
    remedy: str = REMEDY


def _problem(
    host: Any, url: Any, driven: Connection, retry_s: float
) -> _Problem | None:
    """Return why a broker cannot be used, or None."""
    place = f'{host.hostname}:{host.port}'
    try:
        with connection_to(host, url, driven) as connection:
            connection.ensure_connection(
                max_retries=1, interval_start=retry_s, reraise_as_library_errors=False
            )
    except ssl.SSLCertVerificationError as problem:
        return _Problem(
            f'{place}: {connections.reason(problem)}',
            f'{RABBIT} ssl_ca_file',
            'Name the certificate of the authority that vouches for the broker, and '
            'in transport_url the host that its certificate names',
        )
    except OSError as problem:
        text = f'{place}: {connections.reason(problem)}'
        if driven.ssl and isinstance(problem, ssl.SSLError | ConnectionResetError):
            remedy = 'Check that the broker expects TLS at this port, and its versions'
            return _Problem(text, f'{RABBIT} ssl', remedy)
        return _Problem(text)
    except CONNECTION_ERRORS as problem:
        said = getattr(problem, 'reply_text', None) or str(problem)
        text = f'{place}: {connections.phrase(said) or said}'
        if 'auth mechanism' in text:
            remedy = 'Name one that the broker offers'
            return _Problem(text, f'{RABBIT} rabbit_login_method', remedy)
        return _Problem(text)
    return None


def _check_queues(group: Any) -> None:
    """Find out what would keep the driver from making its queues later."""
    if not group.rabbit_stream_fanout:
        return
    prefetch = 'rabbit_qos_prefetch_count'
    quorum = 'rabbit_transient_quorum_queue'
    if group[prefetch] < 1:
        problem, remedy = 'it wants a limit of messages', f'Set {prefetch} to 10 or so.'
    elif not group[quorum]:
        problem, remedy = 'it wants quorum queues', f'Set {quorum} to true.'
    else:
        return
    raise errors.OptionError(f'{RABBIT} rabbit_stream_fanout', problem, remedy)
