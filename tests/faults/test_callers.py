# SPDX-License-Identifier: Apache-2.0
"""Callers that give up or die, and workers that are killed: no claim stays behind."""

from __future__ import annotations

import signal
import sys
import uuid
from pathlib import Path

import amqp
import pytest

from tests.faults import proxy
from tests.faults.conftest import CONF, PATIENT_S
from tests.functional.conftest import Host
from tests.live import wire as wire_
from tests.live.servers.process import Process, wait_until
from tests.live.servers.rabbitmq import RabbitMQ
from tests.live.wire import Wire

HOSTS = [Host('h1'), Host('h2')]
CLAIM = '^/allocations/'
QUEUE = 'scheduler'
WAIT_S = 60
LONG_S = 6
"""So long a request takes that the broker is asked whether its caller is there."""

NOVA_CONF = """
[DEFAULT]
transport_url = {transport_url}
host = killed
state_path = {directory}
[api_database]
connection = sqlite:///{directory}/api
[database]
connection = sqlite:///{directory}/cell0
[scheduler]
workers = 1
"""


@pytest.fixture(scope='module')
def rabbitmq(tmp_path_factory):
    """A broker with virtual hosts to give away."""
    server = RabbitMQ(tmp_path_factory.mktemp('callers'))
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Impatient(Wire):
    """Its messages expire soon, as those of a caller that waits no longer."""

    expires_s = 30

    def publish(self, body):
        self._channel.basic_publish(
            amqp.Message(
                body,
                content_type='application/json',
                content_encoding='utf-8',
                expiration=str(self.expires_s * 1000),
            ),
            exchange=wire_.EXCHANGE,
            routing_key=wire_.TOPIC,
        )


@pytest.fixture
def url(rabbitmq):
    return rabbitmq.create_vhost()


@pytest.fixture
def made(cloud, url):
    """A cloud whose schedulers serve the broker, one request at a time."""
    return cloud(
        HOSTS,
        DEFAULT={'transport_url': url, 'executor_thread_pool_size': 1},
        # So long a thread tries to answer who is gone.
        oslo_messaging_rabbit={'kombu_missing_consumer_retry_timeout': 1},
    )


@pytest.fixture
def connect(rabbitmq, url):
    """Make callers."""
    callers = []

    def caller(**attributes):
        callers.append(Impatient(rabbitmq, url))
        vars(callers[-1]).update(attributes)
        return callers[-1]

    yield caller
    for each in callers:
        each.close()


def boot(caller, timeout_s=None):
    """Ask for a host; return the uuid of the server, and the id of the call."""
    consumer = str(uuid.uuid4())
    inner = wire_.message(args=wire_.boot_args([consumer]))
    return consumer, caller.send(inner, timeout_s)


def until(check, what):
    return wait_until(check, WAIT_S, what)


@pytest.mark.parametrize(
    ('expires_s', 'timeout_s'),
    [
        pytest.param(2, None, id='it waits for an answer'),
        pytest.param(30, 2, id='it waits for a sign of life'),
    ],
)
def test_who_gave_up_before_his_turn_gets_no_claim(
    made, connect, caplog, expires_s, timeout_s
):
    made.proxy.on('PUT', CLAIM, proxy.delay(LONG_S))
    made.serve()
    first, late = connect(), connect(expires_s=expires_s)
    consumer, call = boot(first)
    until(lambda: made.proxy.asked('PUT', CLAIM), 'the first claim')
    refused, late_call = boot(late, timeout_s)
    assert first.answers(call)[-1]['failure'] is None
    assert 'Nobody waits for this request' in late.answers(late_call)[-1]['failure']
    assert set(made.held()) == {consumer}
    assert not made.proxy.asked('PUT', refused)
    said = [r for r in caplog.records if 'Nobody waits' in r.getMessage()]
    said = [r.levelname for r in said if r.name.startswith('novasched')]
    assert said == ['WARNING']


def test_the_claim_for_a_caller_that_died_is_undone(made, connect, rabbitmq, url):
    made.proxy.on('PUT', CLAIM, proxy.delay(LONG_S))
    made.serve()
    dying = Impatient(rabbitmq, url)
    consumer, _ = boot(dying)
    until(lambda: made.proxy.asked('PUT', consumer), 'the claim')
    dying.close()
    until(lambda: made.proxy.asked('DELETE', consumer), 'the end of the claim')
    until(lambda: made.held() == {}, 'no claim')


def test_the_claim_for_a_caller_that_waits_long_stays(made, connect):
    made.proxy.on('PUT', CLAIM, proxy.delay(LONG_S))
    made.serve()
    waiting = connect()
    consumer, call = boot(waiting, 20)
    first, *_, last = waiting.answers(call)
    assert first['ending'] is False
    assert last['failure'] is None
    assert set(made.held()) == {consumer}


# -- workers that are killed


class Workers:
    """Daemons with one worker each, that are started one after another."""

    def __init__(self, made, broker, url, directory):
        self._broker = broker
        self._url = url
        self._directory = directory
        self._conf = directory / 'nova.conf'
        served = CONF.format(url=made.proxy.url, timeout_s=PATIENT_S)
        text = NOVA_CONF.format(transport_url=url, directory=directory)
        self._conf.write_text(text + served)
        self._running = []

    def start(self):
        """Start a daemon; wait until it serves."""
        program = Path(sys.executable).parent / 'novasched-scheduler'
        log = self._directory / f'daemon-{len(self._running)}.log'
        daemon = Process([program, '--config-file', self._conf], log)
        self._running.append(daemon)
        wait_until(self._serves, WAIT_S, 'the daemon', daemon)
        return daemon

    def _serves(self):
        found = self._broker.queue(self._url, QUEUE)
        return found is not None and found[1] > 0

    def kill(self, daemon):
        """Kill a daemon and its worker; wait until the broker has noticed."""
        daemon.kill()
        until(lambda: not self._serves(), 'the end of the daemon')

    def journals(self):
        """The files of the journal."""
        return list((self._directory / 'novasched').glob('*.journal'))

    def stop(self):
        for daemon in self._running:
            daemon.stop(signal.SIGTERM)


@pytest.fixture
def workers(made, rabbitmq, url, tmp_path):
    found = Workers(made, rabbitmq, url, tmp_path)
    yield found
    made.proxy.release()
    found.stop()


def test_a_claim_of_a_killed_worker_is_undone_at_the_next_start(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.late)
    killed = workers.start()
    consumer, _ = boot(connect())
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(killed)
    assert set(made.held()) == {consumer}
    again = workers.start()
    until(lambda: made.held() == {}, 'no claim')
    until(lambda: f'for {consumer} is undone' in again.log, 'a line of the log')
    until(lambda: workers.journals() == [], 'the end of the journal')


def test_a_claim_that_was_answered_stays(made, connect, workers):
    killed = workers.start()
    caller = connect()
    consumer, call = boot(caller)
    assert caller.answers(call)[-1]['failure'] is None
    workers.kill(killed)
    assert workers.journals()
    workers.start()
    until(lambda: workers.journals() == [], 'the end of the journal')
    assert set(made.held()) == {consumer}


def test_what_a_move_held_before_is_restored(made, connect, workers):
    consumer = str(uuid.uuid4())
    made.hold(consumer, h1={'VCPU': 2})
    # The first is refused, as it does not know of the other host.
    made.proxy.on('PUT', CLAIM, proxy.late, nth=2)
    killed = workers.start()
    args = wire_.boot_args([consumer])
    args = wire_.changed(args, 'spec.ignore_hosts', ['h1'])
    connect().send(wire_.message(args=args))
    until(lambda: set(made.held()[consumer]) == {'h1', 'h2'}, 'the claim')
    workers.kill(killed)
    workers.start()
    until(lambda: made.amounts(consumer) == {'h1': {'VCPU': 2}}, 'what was before')


def test_a_claim_that_was_made_again_meanwhile_stays(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.late)
    killed = workers.start()
    consumer, _ = boot(connect())
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(killed)
    held = made.amounts(consumer)
    made.hold(consumer, **held)
    workers.start()
    until(lambda: made.proxy.asked('GET', consumer), 'a look at the claim')
    workers.stop()
    assert made.amounts(consumer) == held


def test_placement_may_be_away_when_a_claim_is_to_be_undone(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.late)
    killed = workers.start()
    consumer, _ = boot(connect())
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(killed)
    made.proxy.on('GET', CLAIM, proxy.answers(503), times=2)
    waiting = workers.start()
    until(lambda: 'kept for later' in waiting.log, 'a line of the log')
    assert set(made.held()) == {consumer}
    workers.kill(waiting)
    workers.start()
    until(lambda: made.held() == {}, 'no claim')
