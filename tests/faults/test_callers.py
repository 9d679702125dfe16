# SPDX-License-Identifier: Apache-2.0
"""Callers that give up or die: no claim stays behind."""

from __future__ import annotations

import threading
import time

import pytest

from novasched.rpc import reply_queues
from tests.faults import proxy
from tests.faults.callers import CLAIM, WAIT_S, Impatient, boot, until
from tests.functional.conftest import Host
from tests.support.tables.cases import cases

HOSTS = [Host('h1'), Host('h2')]
GONE_S = 1
"""A caller is taken to be gone after that, where a test waits for it."""
LONG_S, SHORT_S = 2.5 * GONE_S, 0.4
"""So long a request takes: longer than its caller is missed, or than one look holds."""
LOOKS = {'LOOK_EVERY_S': 0.1, 'FRESH_S': 0.3}
"""Reply queues are looked at more often than they are as it comes."""
QUICK = {'manager_shutdown_timeout': 25}
"""A scheduler that stops has five seconds for what is under way."""
UNTRIED = {'kombu_missing_consumer_retry_timeout': 1}
"""So long a thread tries to answer who is gone: a caller has its least time."""
AWAY_S = 0.5
"""So long a caller may be away; it is looked for several times meanwhile."""
MISSED_S = 60
NO_CONTENT = 204
SOON_S = 30
"""Sooner than a caller is taken to be gone, on a busy machine."""


@pytest.fixture(autouse=True)
def _looks(monkeypatch):
    for name, seconds in LOOKS.items():
        monkeypatch.setattr(reply_queues, name, seconds)


@pytest.fixture
def made(cloud, url, monkeypatch):
    """A cloud whose schedulers serve the broker, one request at a time."""
    monkeypatch.setattr(reply_queues, 'GONE_FOR_S', GONE_S)
    return cloud(
        HOSTS,
        DEFAULT={'transport_url': url, 'executor_thread_pool_size': 1},
        oslo_messaging_rabbit=UNTRIED,
    )


def gone(caplog):
    """How many callers the log names as gone."""
    return sum('the caller is gone' in line for line in caplog.messages)


class Grant:
    """A fault that passes a claim on when the proxy releases it, and waits for its
    grant: a busy machine may look at placement when the claim is undone already."""

    def __init__(self):
        self._is_given = threading.Event()

    def __call__(self, exchange):
        exchange.wait()
        answer = exchange.forward()
        if answer.status == NO_CONTENT:
            self._is_given.set()
        exchange.answer(answer)

    def wait(self):
        assert self._is_given.wait(WAIT_S)


def let_go(made, takes_s=SHORT_S):
    """Let a claim that is stuck take so long."""
    time.sleep(takes_s)
    made.proxy.release()


@cases(
    'expires_s, timeout_s',
    ('it waits for an answer', 1, None),
    ('it waits for a sign of life', 30, 1),
)
@pytest.mark.scenario('F11', 'I2')
def test_caller_that_gave_up_in_the_queue_gets_no_claim(
    made, connect, caplog, expires_s, timeout_s
):
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    made.serve()
    first, late = connect(), connect(expires_s=expires_s)
    consumer, call = boot(first)
    until(lambda: made.proxy.asked('PUT', CLAIM), 'the first claim')
    refused, late_call = boot(late, timeout_s)
    let_go(made, LONG_S)
    assert first.answers(call)[-1]['failure'] is None
    assert 'No caller waits for this request' in late.answers(late_call)[-1]['failure']
    assert set(made.held()) == {consumer}
    assert not made.proxy.asked('PUT', refused)
    said = [r for r in caplog.records if 'No caller waits' in r.getMessage()]
    said = [r.levelname for r in said if r.name.startswith('novasched')]
    assert said == ['WARNING']


@cases(
    'takes_s, stays',
    ('in a long request', LONG_S, False),
    ('in a short request', SHORT_S, False),
    ('and left its reply queue behind', SHORT_S, True),
)
@pytest.mark.scenario('F9', 'I2')
def test_the_claim_for_a_caller_that_died_is_undone(
    made, rabbitmq, url, caplog, takes_s, stays
):
    grant = Grant()
    made.proxy.on('PUT', CLAIM, grant)
    made.serve()
    dying = Impatient(rabbitmq, url, stays)
    consumer, _ = boot(dying)
    until(lambda: made.proxy.asked('PUT', consumer), 'the claim')
    dying.close()
    let_go(made, takes_s)
    grant.wait()
    until(lambda: made.held() == {}, 'no claim')
    assert gone(caplog) == 1


@pytest.mark.scenario('F9', 'I7')
def test_neither_the_living_nor_a_stop_wait_for_the_dead(
    cloud, rabbitmq, url, connect, caplog, monkeypatch
):
    monkeypatch.setattr(reply_queues, 'GONE_FOR_S', MISSED_S)
    options = {'executor_thread_pool_size': 2, **QUICK}
    made = cloud(HOSTS, DEFAULT={'transport_url': url, **options})
    made.proxy.on('PUT', CLAIM, proxy.stuck, times=2)
    scheduler = made.serve()
    dying, living = Impatient(rabbitmq, url), connect()
    consumers = {boot(dying)[0] for _ in range(2)}
    until(lambda: len(made.proxy.asked('PUT', CLAIM)) == 2, 'the claims')
    dying.close()
    let_go(made)
    until(lambda: set(made.held()) == consumers, 'the claims')
    since = time.monotonic()
    consumer, call = boot(living)
    assert living.answers(call)[-1]['failure'] is None
    assert time.monotonic() - since < SOON_S
    assert set(made.held()) == consumers | {consumer}
    assert gone(caplog) == 0
    scheduler.stop()
    assert set(made.held()) == {consumer}


@cases(
    'stays',
    ('to a new queue', False),
    ('to the queue that it had', True),
)
def test_a_caller_that_reconnects_gets_its_answer_and_keeps_its_claim(
    cloud, rabbitmq, url, stays, monkeypatch
):
    monkeypatch.setattr(reply_queues, 'GONE_FOR_S', MISSED_S)
    general = {'transport_url': url, **QUICK}
    made = cloud(HOSTS, DEFAULT=general, oslo_messaging_rabbit=UNTRIED)
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    made.serve()
    caller = Impatient(rabbitmq, url, stays)
    consumer, call = boot(caller)
    until(lambda: made.proxy.asked('PUT', consumer), 'the claim')
    caller.close()
    let_go(made)
    until(lambda: consumer in made.held(), 'the claim')
    time.sleep(AWAY_S)
    caller.connect()
    assert caller.answers(call)[-1]['failure'] is None
    assert set(made.held()) == {consumer}
    caller.close()


@pytest.mark.scenario('F9', 'I2')
def test_a_claim_is_undone_when_the_reply_queue_vanishes_before_the_answer(
    made, connect
):
    caller = connect()

    class Vanishing:
        """Notifies as the last thing before the answer."""

        def select_destinations(self, context, spec, phase):
            if phase == 'end':
                caller.close()

        def of_release(self, release):
            return self

    grant = Grant()
    made.proxy.on('PUT', CLAIM, grant)
    made.proxy.release()
    made.serve(notifier=Vanishing())
    boot(caller)
    grant.wait()
    until(lambda: made.held() == {}, 'no claim')


@pytest.mark.parametrize(
    'behind_s', [pytest.param(90, id='behind'), pytest.param(-90, id='ahead')]
)
@pytest.mark.scenario('F11', 'I6')
def test_skewed_clock_of_the_broker_refuses_no_request(made, connect, behind_s):
    made.serve()
    caller = connect(behind_s=behind_s)
    for _ in range(2):
        _, call = boot(caller, 60)
        assert caller.answers(call)[-1]['failure'] is None


def test_the_claim_for_a_caller_that_waits_long_stays(made, connect):
    made.proxy.on('PUT', CLAIM, proxy.delay(LONG_S))
    made.serve()
    waiting = connect()
    consumer, call = boot(waiting, 20)
    first, *_, last = waiting.answers(call)
    assert first['ending'] is False
    assert last['failure'] is None
    assert set(made.held()) == {consumer}
