# SPDX-License-Identifier: Apache-2.0
"""A tap that is killed, paused or late, and its broker restarted: no call suffers.

The account of the tap has the permissions that `upgrade check --shadow` prints.
"""

import json
import signal
import sys
import time
from pathlib import Path

import amqp
import oslo_messaging
import pytest
from oslo_config import cfg

from novasched.process import opts
from novasched.rpc import tap_permissions
from tests.live.servers.process import Process, wait_until
from tests.live.servers.rabbitmq import vhost_of

pytestmark = pytest.mark.filterwarnings('ignore:unclosed <socket:ResourceWarning')

SCRIPT = Path(__file__).with_name('tapping.py')
ACCOUNT, SECRET = 'tapping', 'tap-secret'
START_S = 60
CALL_S = 30
CLASSIC = {}
QUORUM = {'rabbit_quorum_queue': True, 'amqp_durable_queues': True}
LONGEST = 20
BOUNDS = (
    '[{<<"x-max-length">>,signedint,5000},{<<"x-max-length-bytes">>,signedint,67108864},'
    '{<<"x-overflow">>,longstr,<<"drop-head">>},{<<"x-message-ttl">>,signedint,60000}]'
)
"""Of the queues of a tap, as Erlang writes them."""
LARGE = 'x' * 50_000
"""Some hundred such messages fill all buffers between the broker and a tap."""


class Endpoint:
    """Answers calls with their number."""

    def select_destinations(self, ctxt, number, text=''):
        return number

    def update_aggregates(self, ctxt, number):
        """Is cast to all schedulers."""


class Scheduler:
    """A server of oslo.messaging, as nova-scheduler is, and its client."""

    def __init__(self, url, **rabbit):
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('transport_url', url)
        for name, value in {'rabbit_interval_max': 1, **rabbit}.items():
            conf.set_override(name, value, 'oslo_messaging_rabbit')
        self.conf = conf
        self._transport = oslo_messaging.get_rpc_transport(conf)
        self._server = oslo_messaging.get_rpc_server(
            self._transport,
            oslo_messaging.Target(topic='scheduler', server='nova'),
            [Endpoint()],
            executor='threading',
        )
        self._client = oslo_messaging.get_rpc_client(
            self._transport, oslo_messaging.Target(topic='scheduler'), timeout=CALL_S
        )
        self._server.start()

    def call(self, *numbers, **arguments):
        """Call with each number, and see that it is answered."""
        for number in numbers:
            answer = self._client.call(
                {}, 'select_destinations', number=number, **arguments
            )
            assert answer == number

    def cast(self, number):
        self._client.prepare(fanout=True).cast({}, 'update_aggregates', number=number)

    def close(self):
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()


class TapProcess(Process):
    """A tap, and what it printed."""

    def said(self, kind):
        lines = [json.loads(each) for each in self.log.splitlines() if each[:1] == '[']
        return [words[0] if len(words) == 1 else words
                for name, *words in lines if name == kind]  # fmt: skip

    @property
    def tapped(self):
        return self.said('tapped')

    @property
    def began(self):
        """When each interval began in which all was tapped."""
        return sorted({since_s for since_s, _ in self.said('listened')})

    def wait_listening(self):
        wait_until(lambda: self.said('problem')[-1:] == [None], START_S, 'a tap', self)

    def wait_tapped(self, *numbers):
        wait_until(lambda: set(numbers) <= set(self.tapped), START_S, 'calls', self)


@pytest.fixture
def vhost(rabbitmq):
    """The transport URL of a virtual host that is new."""
    return rabbitmq.create_vhost()


@pytest.fixture(scope='module')
def account(rabbitmq):
    rabbitmq.add_user(ACCOUNT, SECRET)
    return ACCOUNT


@pytest.fixture
def tap(rabbitmq, vhost, account, tmp_path):
    """Start taps by the account: `tap(host, longest)`."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('transport_url', vhost)
    rabbitmq.set_permissions(tap_permissions.grant(conf, account))
    url = f'rabbit://{ACCOUNT}:{SECRET}@{vhost.rpartition("@")[2]}'
    started = []

    def start(host='one', longest=5000, wait=True):
        words = [sys.executable, '-W', 'ignore', SCRIPT, url, host, longest]
        made = TapProcess(words, tmp_path / f'{host}.log')
        started.append(made)
        if wait:
            made.wait_listening()
        return made

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def scheduler(vhost):
    """Start a scheduler: `scheduler(**options)`."""
    made = []

    def start(**rabbit):
        made.append(Scheduler(vhost, **rabbit))
        return made[-1]

    yield start
    for each in made:
        each.close()


def of_taps(rabbitmq, vhost):
    """Messages in each queue of taps."""
    queues = rabbitmq.messages(vhost)
    return {name: n for name, n in queues.items() if name.startswith('novasched_sh')}


@pytest.mark.scenario('F12')
@pytest.mark.parametrize(
    'queues',
    [
        pytest.param(CLASSIC, id='classic'),
        pytest.param(
            QUORUM,
            id='quorum',
            marks=pytest.mark.exhaustive('the queues of a tap are the same'),
        ),
    ],
)
def test_two_taps_get_every_call_that_the_scheduler_answers(
    rabbitmq, vhost, tap, scheduler, queues
):
    nova = scheduler(**queues)
    taps = tap('one'), tap('two')
    nova.call(*range(5))
    nova.cast(5)
    for each in taps:
        each.wait_tapped(*range(6))
        assert sorted(each.tapped) == list(range(6))
    names = of_taps(rabbitmq, vhost)
    assert len(names) == 6
    arguments = rabbitmq.arguments(vhost)
    assert {arguments[name] for name in names} == {BOUNDS}
    with rabbitmq.connect(vhost_of(vhost)) as connection:
        for name in names:
            with pytest.raises(amqp.ResourceLocked):
                connection.channel().queue_declare(name, passive=True)


@pytest.mark.scenario('F48', 'I3', 'I7')
def test_killed_tap_leaves_no_queue_and_costs_no_call(rabbitmq, vhost, tap, scheduler):
    nova, killed = scheduler(), tap()
    nova.call(1)
    killed.wait_tapped(1)
    killed.kill()
    nova.call(*range(2, 7))
    wait_until(lambda: not of_taps(rabbitmq, vhost), START_S, 'no queue of a tap')


@pytest.mark.scenario('F49', 'I3', 'I7')
def test_full_queue_of_a_paused_tap_drops_the_oldest_and_costs_no_call(
    rabbitmq, vhost, tap, scheduler
):
    nova, paused = scheduler(), tap(longest=LONGEST)
    nova.call(0)
    paused.wait_tapped(0)
    paused.send(signal.SIGSTOP)
    last = 0
    while max(of_taps(rabbitmq, vhost).values()) < LONGEST:
        nova.call(*range(last + 1, last + 101), text=LARGE)
        last += 100
    nova.call(*range(last + 1, last + LONGEST + 1), text=LARGE)
    last += LONGEST
    assert max(of_taps(rabbitmq, vhost).values()) == LONGEST
    paused.send(signal.SIGCONT)
    paused.wait_tapped(last)
    assert set(range(last - LONGEST + 1, last + 1)) <= set(paused.tapped)
    assert len(paused.tapped) < last
    wait_until(lambda: len(paused.began) == 2, START_S, 'a gap that is told', paused)


@pytest.mark.scenario('F50', 'I7')
def test_tap_listens_again_after_a_restart_of_the_broker(broker, vhost, tap, scheduler):
    nova, again = scheduler(), tap()
    nova.call(1)
    again.wait_tapped(1)
    broker.kill()
    broker.run()
    wait_until(lambda: len(again.began) == 2, START_S, 'a gap that is told', again)
    nova.call(2)
    again.wait_tapped(2)


@pytest.mark.scenario('F51', 'I7')
def test_tap_waits_for_the_exchange_with_no_queue(rabbitmq, vhost, tap, scheduler):
    early = tap(wait=False)
    missing = "no exchange 'nova'"
    wait_until(lambda: missing in str(early.said('problem')), START_S, missing, early)
    time.sleep(1.5)
    assert len(of_taps(rabbitmq, vhost)) == 0
    nova = scheduler()
    early.wait_listening()
    nova.call(1)
    early.wait_tapped(1)
