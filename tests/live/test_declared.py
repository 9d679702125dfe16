# SPDX-License-Identifier: Apache-2.0
"""The exchange and the queues at the broker are compared with those to be declared."""

import kombu
import pytest

from novasched import errors
from novasched.rpc import transport
from novasched.rpc.server import TOPIC
from novasched.rpc.shared_picks import FANOUT
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours


@pytest.fixture
def url(rabbitmq):
    return rabbitmq.create_vhost()


@pytest.fixture
def check(url):
    """Compare them, with options of [oslo_messaging_rabbit]."""
    opened = []

    def run(**options):
        conf = make_conf()
        conf.set_override('transport_url', url)
        for name, value in options.items():
            conf.set_override(name, value, 'oslo_messaging_rabbit')
        opened.append(transport.transport_from_conf(conf))
        transport.check_queues(opened[-1], (TOPIC, FANOUT), 'h1')

    yield run
    for each in opened:
        each.cleanup()


def declare(url, **exchange):
    """Declare the exchange and the queue as a service of nova does."""
    with kombu.Connection(url.replace('rabbit:', 'amqp:')) as connection:
        made = kombu.Exchange('nova', 'topic', durable=False, **exchange)
        queue = kombu.Queue('scheduler', made, 'scheduler', durable=False, **exchange)
        queue(connection.default_channel).declare()


def test_nothing_is_made(rabbitmq, url, check):
    check()
    assert rabbitmq.queue(url, 'scheduler') is None


@cases(
    'declared, options',
    ('by default', {}, {}),
    ('deleted when unused', {'auto_delete': True}, {'amqp_auto_delete': True}),
    ('durable or not is for the driver', {}, {'amqp_durable_queues': True}),
)
def test_the_same_passes(url, check, declared, options):
    declare(url, **declared)
    check(**options)


def test_another_is_named_with_its_option(url, check):
    declare(url, auto_delete=True)
    with pytest.raises(errors.OptionError) as refused:
        check()
    assert refused.value.option == '[oslo_messaging_rabbit] amqp_auto_delete'
    assert "arg 'auto_delete' for exchange 'nova'" in refused.value.problem


def test_exchange_of_shared_picks_is_compared(url, check):
    with kombu.Connection(url.replace('rabbit:', 'amqp:')) as connection:
        name = f'{FANOUT}_fanout'
        made = kombu.Exchange(name, 'fanout', durable=False, auto_delete=False)
        made(connection.default_channel).declare()
    with pytest.raises(errors.OptionError, match=f"exchange '{name}'"):
        check()


def test_a_broker_that_is_away_says_nothing(url):
    conf = make_conf()
    conf.set_override('transport_url', 'rabbit://127.0.0.1:1/')
    opened = transport.transport_from_conf(conf)
    transport.check_queues(opened, (TOPIC, FANOUT), 'h1')
    opened.cleanup()
