# SPDX-License-Identifier: Apache-2.0
"""A broker that is killed, started again and paused, and what it delivers twice."""

from __future__ import annotations

import json
import signal
import time
import uuid

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds, Failure
from tests.functional.conftest import Host
from tests.live import wire as wire_
from tests.live.servers.process import wait_until
from tests.live.wire import Wire

pytestmark = pytest.mark.filterwarnings('ignore:unclosed <socket:ResourceWarning')

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
HOSTS = [Host('h1', memory_mb=9000), Host('h2')]
CLAIM = '^/allocations/'
RECONNECT_S = 60
HEARTBEAT_S = 2
PAUSE_S = 3 * HEARTBEAT_S
PATIENCE_S = 4
"""So long a caller waits for a sign of life; less than the pause."""


@pytest.fixture
def made(cloud, url):
    """A cloud on a virtual host of its own whose programs notice a silent broker."""
    return cloud(
        HOSTS,
        DEFAULT={
            'transport_url': url,
            'rpc_response_timeout': 60,
            'long_rpc_timeout': 60,
        },
        oslo_messaging_rabbit={'heartbeat_timeout_threshold': HEARTBEAT_S},
    )


@pytest.fixture
def patient(made):
    """Sections for daemons that notice a silent broker, too."""
    return {'oslo_messaging_rabbit': {'heartbeat_timeout_threshold': HEARTBEAT_S}}


def restart(broker):
    broker.kill()
    broker.run()


@pytest.mark.exhaustive('amid a claim, too, it is found again by who is idle')
@pytest.mark.scenario('F7', 'I3', 'I4', 'I7')
def test_a_broker_that_is_killed_while_all_are_idle_is_found_again(
    made, broker, daemons, callers, audit, patient
):
    processes = daemons(made, **patient)
    processes.start()
    clients = callers(made)
    clients.boot(room=True)
    clients.wait()
    restart(broker)
    wait_until(processes.consumers, RECONNECT_S, 'the daemon at the broker')
    audit.bounds = Bounds(latency_s=RECONNECT_S)
    clients.boot(room=True)
    clients.wait()
    audit.check(*ALL)
    assert len(made.proxy.asked('PUT', CLAIM)) == 2


@pytest.mark.scenario('F7', 'I2', 'I3', 'I4', 'I7')
def test_a_claim_that_outlives_its_broker_is_made_once_and_answered(
    made, broker, daemons, callers, audit, patient
):
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    processes, clients = daemons(made, **patient), callers(made)
    processes.start()
    call = clients.boot(room=True)
    wait_until(lambda: made.proxy.asked('PUT', CLAIM), 30, 'the claim')
    restart(broker)
    made.proxy.release()
    clients.wait(RECONNECT_S)
    assert call.nodes
    assert len(made.proxy.asked('PUT', CLAIM)) == 1
    wait_until(processes.consumers, RECONNECT_S, 'the daemon at the broker')
    clients.boot(room=True)
    clients.wait()
    audit.check(*ALL)
    assert len(made.proxy.asked('PUT', CLAIM)) == 2


@pytest.mark.exhaustive('a broker and an outage, one at a time, are in the first tier')
@pytest.mark.scenario('F7', 'I2', 'I3', 'I4', 'I6', 'I7')
def test_a_broker_that_is_restarted_amid_an_outage_fails_no_request(
    made, broker, daemons, callers, audit, patient
):
    for method in ('GET', 'PUT', 'POST'):
        made.proxy.on(method, '', proxy.answers(503), times=9999)
    clients = callers(made)
    daemon = daemons(made, novasched={'outage_patience': 30}, **patient).start()
    for _ in range(3):
        clients.boot(room=True)
    wait_until(lambda: 'Requests wait for placement' in daemon.log, 30, 'the outage')
    restart(broker)
    made.proxy.heal()
    clients.wait(RECONNECT_S)
    audit.bounds = Bounds(latency_s=RECONNECT_S)
    audit.check(*ALL)


@pytest.mark.scenario('F8', 'I2', 'I3', 'I4', 'I7')
def test_a_broker_that_is_paused_holds_no_thread(
    made, broker, daemons, callers, audit, patient
):
    made.conf.set_override('rpc_response_timeout', PATIENCE_S)
    processes = daemons(made, **patient)
    daemon = processes.start()
    clients = callers(made)
    clients.boot(room=True)
    clients.wait()
    audit.watch('worker', processes.workers(daemon)[0])
    # Its pool begins a thread where all that it has are at work, and keeps it.
    audit.bounds = Bounds(latency_s=PAUSE_S + RECONNECT_S, threads=8)
    made.proxy.on('PUT', CLAIM, proxy.delay(2))
    made.proxy.forget()
    during = clients.boot(room=True)
    wait_until(lambda: made.proxy.asked('PUT', CLAIM), 30, 'the claim')
    broker.send(signal.SIGSTOP)
    try:
        time.sleep(PAUSE_S)
    finally:
        broker.send(signal.SIGCONT)
    clients.boot(room=True)
    clients.wait()
    if during.gave_up_s is not None:
        # The caller lives: nothing tells the scheduler that it waits no longer.
        audit.left_by(during)
    audit.check(*ALL)
    assert set(audit.left_behind()) <= set(during.consumers)


# -- one request, delivered twice


class Repeating(Wire):
    """Publishes one call as often as there are ids of messages."""

    def send_each(self, inner, unique_ids):
        return self.send_again(uuid.uuid4().hex, inner, unique_ids)

    def send_again(self, msg_id, inner, unique_ids):
        for unique_id in unique_ids:
            ids = {
                '_msg_id': msg_id,
                '_reply_q': self._reply_queue,
                '_timeout': None,
                '_unique_id': unique_id,
            }
            self.publish(wire_.envelope({**inner, **ids}))
        return msg_id


@pytest.fixture
def repeating(broker, made):
    found = Repeating(broker, made.conf.transport_url)
    yield found
    found.close()


def gather(audit, caller, call, msg_id, count):
    """Note the next answers to a call in the journal."""
    for _ in range(count):
        answer = caller.answers(msg_id)[-1]
        if answer['failure']:
            told = json.loads(answer['failure'])
            failure = told['class'], told['module'], told['message'], told['kwargs']
            audit.failed(call, Failure(*failure))
        else:
            audit.answered(call, answer['result'])


@pytest.mark.scenario('F10', 'I3')
def test_the_same_message_delivered_twice_is_served_once(
    made, daemons, repeating, audit
):
    daemons(made).start()
    consumer = str(uuid.uuid4())
    call = audit.sent([consumer], deliveries=2, room=True)
    inner = wire_.message(args=wire_.boot_args([consumer]))
    msg_id = repeating.send_each(inner, ['one id'] * 2)
    gather(audit, repeating, call, msg_id, 1)
    other = str(uuid.uuid4())
    after = audit.sent([other], room=True)
    inner = wire_.message(args=wire_.boot_args([other]))
    gather(audit, repeating, after, repeating.send(inner), 1)
    audit.check(*ALL)
    assert len(made.proxy.asked('PUT', consumer)) == 1


@pytest.mark.scenario('F10', 'I3', 'I4')
def test_two_schedulers_that_get_one_request_give_one_host(
    made, daemons, repeating, audit
):
    """The first copy fills the host that the second one would have; its answer, which
    is late, still comes first."""
    made.proxy.on('PUT', CLAIM, proxy.late)
    processes = daemons(made)
    started = [processes.start(), processes.start()]
    stranger, consumer = (str(uuid.uuid4()) for _ in range(2))
    made.hold(stranger, h1={'VCPU': made.hosts['h1'].vcpus - 1})
    audit.stranger(stranger)
    call = audit.sent([consumer], deliveries=2)
    inner = wire_.message(args=wire_.boot_args([consumer]))
    msg_id = repeating.send_each(inner, ['one id'])
    wait_until(lambda: consumer in made.held(), RECONNECT_S, 'the first claim')
    repeating.send_again(msg_id, inner, ['another id'])
    wait_until(
        lambda: any('delivered twice' in daemon.log for daemon in started),
        RECONNECT_S,
        'the second claim',
    )
    made.proxy.release()
    gather(audit, repeating, call, msg_id, 2)
    audit.check(*ALL)
    assert len(made.held()[consumer]) == 1
    assert [bool(answer.failure) for answer in call.answers] == [False, True]
