# SPDX-License-Identifier: Apache-2.0
"""The way to the broker: what makes no sense, and what does not answer."""

import contextlib
import re
import socket
from types import SimpleNamespace

import pytest
from oslo_config import cfg
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers.common import Timeout

from novasched import errors
from novasched.rpc import oslo_internals, transport
from tests.support.tables.cases import cases


@pytest.fixture
def opened():
    """Make the transport of a URL: `opened(url, **options of rabbit)`."""
    with contextlib.ExitStack() as stack:

        def make(url, **rabbit):
            conf = cfg.ConfigOpts()
            for group, listed in transport.OPTS.items():
                conf.register_opts(listed, None if group == 'DEFAULT' else group)
            conf([], default_config_files=[], default_config_dirs=[])
            conf.set_override('transport_url', url)
            for name, value in rabbit.items():
                conf.set_override(name, value, 'oslo_messaging_rabbit')
            made = transport.transport_from_conf(conf)
            stack.callback(made.cleanup)
            return made

        yield make


@pytest.fixture
def closed_port():
    with socket.socket() as taken:  # nobody listens, and nobody else can
        taken.bind(('127.0.0.1', 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize('url', ['riddle://', 'rabbit://host:port/'])
def test_invalid_url_is_named(opened, url):
    with pytest.raises(errors.OptionError) as raised:
        opened(url)
    assert str(raised.value).startswith('[DEFAULT] transport_url: ')
    assert 'rabbit://user:password@host' in str(raised.value)


@cases(
    'password',
    ('a slash', 'S3/cret'),
    ('a hash', 'S3#cret'),
    ('a question mark', 'S3?cret'),
    ('a bracket', 'S3[cret'),
    ('a comma', 'S3,cret'),
    ('a slash after digits', '77/cret'),
    ('a hash after digits', '77#cret'),
    ('a question mark after digits', '77?cret'),
    ('a comma after digits', '77,cret'),
)
def test_no_part_of_a_password_is_shown_that_is_not_encoded(
    opened, closed_port, password
):
    url = f'rabbit://localhost:{password}@127.0.0.1:{closed_port}/'
    with pytest.raises(errors.OptionError) as raised:
        transport.check(opened(url), retry_s=0.0)
    text = str(raised.value)
    assert 'percent-encoded: / as %2F' in text
    assert not {'S3', '77', 'cret'} & set(re.split(r'\W+', text))
    assert raised.value.__cause__ is None


@cases(
    'url, expected',
    ('in memory', 'fake://', 'fake:///'),
    (
        'two brokers',
        'rabbit://u:secret@h1:5673,u:secret@[::1]/nova',
        'rabbit://h1:5673,[::1]:5672/nova',
    ),
    ('the default', 'rabbit://u:secret@h1/', 'rabbit://h1:5672/'),
)
def test_an_address_has_no_secrets(opened, url, expected):
    assert transport.address(opened(url).conf) == expected


def test_messages_in_memory_need_no_broker(opened):
    transport.check(opened('fake://'))


def test_a_broker_that_does_not_answer_is_named_without_its_password(
    opened, closed_port
):
    made = opened(f'rabbit://user:secret@127.0.0.1:{closed_port}/')
    with pytest.raises(errors.OptionError) as raised:
        transport.check(made, retry_s=0.0)
    text = str(raised.value)
    assert f'127.0.0.1:{closed_port}: connection refused' in text
    assert 'secret' not in text


@cases(
    'url, options, expected',
    ('no host', 'rabbit://', {}, 'localhost:5672 guest'),
    ('a host', 'rabbit://mq/', {}, 'mq:5672 guest'),
    ('TLS', 'rabbit://mq/', {'ssl': True}, 'mq:5672 guest'),
    ('all', 'rabbit://a:b@mq:1/', {}, 'mq:1 a'),
)
def test_incomplete_url_has_defaults_of_oslo_messaging(opened, url, options, expected):
    (host,) = transport.brokers(opened(url, **options).conf)
    assert f'{host.hostname}:{host.port} {host.username}' == expected


@cases(
    'options, said',
    ('without a limit of messages', {}, 'rabbit_qos_prefetch_count'),
    (
        'without quorum queues',
        {'rabbit_qos_prefetch_count': 10},
        'rabbit_transient_quorum_queue',
    ),
)
def test_streams_that_cannot_be_made_are_named(opened, closed_port, options, said):
    url = f'rabbit://127.0.0.1:{closed_port}/?rabbit_stream_fanout=true'
    with pytest.raises(errors.OptionError) as raised:
        transport.check(opened(url, **options))
    assert 'rabbit_stream_fanout' in str(raised.value)
    assert said in str(raised.value)


def test_streams_with_all_that_they_want_are_left_to_the_broker(opened, closed_port):
    made = opened(
        f'rabbit://127.0.0.1:{closed_port}/?rabbit_qos_prefetch_count=10',
        rabbit_stream_fanout=True,
        rabbit_transient_quorum_queue=True,
    )
    with pytest.raises(errors.OptionError, match='no broker answers'):
        transport.check(made, retry_s=0.0)


class Silent:
    """A connection on which nothing comes; it tells how long it was waited for."""

    def __init__(self, most):
        self.waits = []
        self.listener = amqpdriver.RpcAMQPListener(
            SimpleNamespace(prefetch_size=0), self
        )
        self._most = most

    def consume(self, timeout):
        self.waits.append(timeout)
        if len(self.waits) == self._most:
            self.stop_consuming()
        raise Timeout

    def stop_consuming(self):
        self.listener._shutdown.set()


def test_a_server_is_not_polled_every_millisecond():
    connection = Silent(4)
    assert connection.listener.poll() == []
    most_s = amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MAX  # less in tests
    waits = [min(oslo_internals.POLL_S * n, most_s) for n in (1, 2, 4, 8)]
    assert connection.waits == waits
