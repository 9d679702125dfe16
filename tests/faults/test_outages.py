# SPDX-License-Identifier: Apache-2.0
"""An outage that ends soon fails no request, and leaves nothing behind."""

from __future__ import annotations

import pathlib
import signal
import threading
import time

import pytest

from novasched import outages as patience
from novasched.decisions.worker_state import read
from novasched.outages import MOST_ALONE
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.faults.callers import boot, until
from tests.faults.resources import Resources
from tests.functional.conftest import Host
from tests.live.servers.process import wait_until
from tests.support.tables.cases import cases

HOSTS = [Host(f'h{n}', vcpus=64, memory_mb=1048576, disk_gb=9999) for n in (1, 2, 3)]
METHODS = ('GET', 'PUT', 'POST', 'DELETE')
CLAIMS = '^/allocations'
PATIENT = {'outage_patience': 30}
UNHURRIED = {'outage_patience': 120}
"""On a busy machine much of an outage passes until many requests wait."""
OUTAGE_S, EVERY_S, SETTLE_S, WAIT_S = 3, 0.4, 60, 90
ENDS_WITHIN_S = 5
"""After its patience a request ends so soon, and so one that waited does after an
outage."""
POOL, CONNECTIONS = 64, 30
"""Threads and connections to the broker that a worker keeps, by default."""
AT_ONCE, MANY, VERY_MANY, SPARE, MOST_MB = 8, 30, 500, 16, 1.0
PING = {
    'method': 'ping',
    'args': {'arg': 'are you there'},
    'version': '1.0',
    'namespace': 'baseapi',
}
GATEWAY = proxy.answers(503, b'<html>sorry</html>', 'text/html')
ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')


@pytest.fixture
def patient(cloud, audit):
    """A cloud whose scheduler waits for placement; it serves."""
    audit.settle_s = SETTLE_S
    audit.bounds = Bounds(latency_s=WAIT_S)
    made = cloud(HOSTS, novasched=PATIENT)
    made.serve()
    return made


class Outage:
    """Spoils all that placement is asked, or what it is asked of some kind, until it
    ``ends``; what comes ``after`` is passed on."""

    def __init__(self, made, fault, methods=METHODS, pattern='', after=proxy.passed):
        self.ended = threading.Event()
        self._made, self._after = made, after
        for method in methods:
            made.proxy.on(method, pattern, self._spoil, times=9999)
        self._fault = fault

    def _spoil(self, exchange):
        (self._after if self.ended.is_set() else self._fault)(exchange)

    def ends(self):
        self.ended.set()
        self._made.proxy.release()


LATE = []
"""The claims that are on their way."""


def passed_on_late(exchange):
    """A gateway gives up on a claim, which arrives a second later."""
    if b'"allocations": {}' in exchange.asked.body:  # an undo
        return proxy.passed(exchange)
    LATE.append(threading.Timer(1, exchange.forward))
    LATE[-1].start()
    return proxy.answers(504, b'<html>', 'text/html')(exchange)


@pytest.mark.scenario('F14', 'I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
@cases(
    'fault, methods, pattern',
    ('a gateway says so', GATEWAY, METHODS, ''),
    (
        'it does what it denies',
        proxy.answers(503, b'<html>', after=True),
        METHODS,
        '',
    ),
    ('claims arrive late', passed_on_late, ('PUT', 'POST'), CLAIMS),
    more=[
        ('connections break', proxy.drop, METHODS, ''),
        ('its database is away', proxy.answers(500, b'{}'), METHODS, CLAIMS),
    ],
)
def test_no_request_of_an_outage_fails(
    patient, callers, audit, fault, methods, pattern
):
    clients, start = callers(patient), time.monotonic()
    outage = Outage(patient, fault, methods, pattern)
    while time.monotonic() - start < OUTAGE_S:
        clients.boot(1, room=True)
        time.sleep(EVERY_S)
        clients.boot(2, room=True)
        time.sleep(EVERY_S)
    outage.ends()
    clients.wait()
    while LATE:
        LATE.pop().join()
    audit.check(*ALL)


@pytest.mark.scenario('F14', 'I2', 'I7', 'I8')
def test_one_whose_time_is_over_ends_as_it_would_have_at_once(
    cloud, callers, audit, monkeypatch
):
    monkeypatch.setattr(patience, 'LEAST_WAIT_S', 1)
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, novasched={'outage_patience': 1})
    made.serve()
    clients, start = callers(made), time.monotonic()
    outage = Outage(made, GATEWAY)
    call = clients.boot()
    clients.wait()
    assert call.failure.name == 'NoValidHost'
    assert 1 <= time.monotonic() - start < WAIT_S
    outage.ends()
    clients.boot(room=True)
    clients.wait()
    audit.check('I2', 'I4', 'I7', 'I8')


@pytest.mark.scenario('F14', 'I2', 'I7')
def test_stop_ends_all_waits(cloud, url, connect, daemons, audit):
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, DEFAULT={'transport_url': url})
    daemon = daemons(made, novasched=PATIENT).start()
    caller = connect()
    outage = Outage(made, GATEWAY)
    _, call = boot(caller)
    until(lambda: 'Requests wait for placement' in daemon.log, 'a request that waits')
    start = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert 'NoValidHost' in caller.answers(call)[-1]['failure']
    assert time.monotonic() - start < PATIENT['outage_patience'] / 2
    outage.ends()


@pytest.mark.scenario('F14', 'I6', 'I7')
def test_waiting_requests_delay_no_others(cloud, url, connect, daemons, audit):
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, DEFAULT={'transport_url': url})
    running = daemons(
        made,
        novasched=UNHURRIED,
        DEFAULT={'executor_thread_pool_size': 2},
    )
    daemon = running.start()
    (worker,) = running.workers(daemon)
    caller = connect()
    assert caller.answers(boot(caller)[1])[-1]['failure'] is None  # all threads run
    before = Resources.of(worker)
    outage = Outage(made, GATEWAY)
    others = [connect(expires_s=600) for _ in range(MANY)]
    calls = [(other, boot(other)[1]) for other in others]
    until(lambda: Resources.of(worker).threads >= before.threads + MANY, 'all to wait')
    assert caller.call(PING) == ({'arg': 'are you there', 'service': 'scheduler'}, None)
    files = running.state / 'decisions'
    found = lambda: [each['outages'] for each in read(files, SYSTEM_CLOCK)]  # noqa: E731
    (shown,) = until(lambda: any(found()) and found(), 'what top shows')
    assert [each['service'] for each in shown] == ['placement']
    height = Resources.of(worker)
    assert height.threads - before.threads <= MANY + SPARE
    assert (height.memory_mb - before.memory_mb) / MANY < MOST_MB
    outage.ends()
    for other, call in calls:
        assert other.answers(call)[-1]['failure'] is None
    until(
        lambda: Resources.of(worker).threads <= before.threads + SPARE,
        'the threads to end',
    )


@pytest.mark.scenario('F14', 'I2', 'I6')
def test_a_reload_may_end_an_outage(cloud, url, connect, daemons, audit):
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, DEFAULT={'transport_url': url})
    daemon = daemons(made, novasched=UNHURRIED).start()
    outage = Outage(made, GATEWAY)
    waiting = [connect(expires_s=600) for _ in range(3)]
    calls = [(caller, boot(caller)[1]) for caller in waiting]
    until(lambda: 'Requests wait for placement' in daemon.log, 'a request that waits')
    conf = pathlib.Path(daemon.argv[-1])
    text = conf.read_text().replace(made.proxy.url, made.placement.url)
    conf.write_text(text)
    daemon.send(signal.SIGHUP)
    for caller, call in calls:
        final = caller.answers(call)[-1]
        assert final['failure'] is None, final['failure']
    outage.ends()


@pytest.mark.scenario('F14', 'I2', 'I6', 'I7')
@pytest.mark.scenario('F15', 'I6', 'I7')
def test_requests_that_waited_are_answered_while_one_takes_long(cloud, callers, audit):
    """Its claim falls into a black hole."""
    audit.settle_s = SETTLE_S
    audit.bounds = Bounds(latency_s=WAIT_S)
    made = cloud(HOSTS, novasched=PATIENT)
    outages, clients = made.serve().outages, callers(made)

    def after(exchange):
        is_slow = exchange.asked.method == 'PUT' and consumer in exchange.asked.path
        (proxy.stuck if is_slow else proxy.passed)(exchange)

    outage = Outage(made, GATEWAY, after=after)
    slow = clients.boot(room=True)
    (consumer,) = slow.consumers
    until(outages.now, 'the outage')
    others = [clients.boot(room=True) for _ in range(AT_ONCE)]
    until(lambda: outages.now()[0].waiting == 1 + AT_ONCE, 'all to wait')
    outage.ended.set()
    until(lambda: all(each.answers for each in others), 'their answers')
    assert not slow.answers
    made.proxy.release()
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F44', 'I4', 'I6')
@cases('status', ('keystone says so', 503), ('a gateway shows a page', 200))
def test_a_token_that_cannot_be_had_is_waited_for(
    cloud, callers, audit, by_password, status
):
    made = cloud(HOSTS, novasched=PATIENT)
    keystone = by_password(made)
    keystone.answers = status
    clients = callers(made)
    clients.boot(room=True)
    clients.wait()
    keystone.is_unavailable = True
    outage = Outage(made, proxy.answers(401, b'it has ended'))
    calls = [clients.boot(room=True) for _ in range(AT_ONCE)]
    time.sleep(OUTAGE_S / 3)
    assert not any(call.answers for call in calls)
    keystone.is_unavailable = False
    outage.ends()
    clients.wait()
    audit.check(*ALL)


@pytest.mark.exhaustive('that time ends, and that a token is waited for, are there')
@pytest.mark.scenario('F44', 'I2', 'I4', 'I7', 'I8')
def test_two_minutes_without_keystone(cloud, callers, audit, by_password):
    audit.settle_s = SETTLE_S
    audit.bounds = Bounds(latency_s=PATIENT['outage_patience'] + ENDS_WITHIN_S)
    made = cloud(HOSTS, novasched=PATIENT)
    keystone, clients = by_password(made), callers(made)
    clients.boot(room=True)
    clients.wait()
    keystone.is_unavailable, start = True, time.monotonic()
    outage, early, late = Outage(made, proxy.answers(401, b'it has ended')), [], []
    for sent_s in range(0, 120, 4):
        wait_until(lambda at=start + sent_s: time.monotonic() > at, WAIT_S, 'its turn')
        if sent_s < 85:
            early.append(clients.boot(2))
        elif sent_s > 95:
            late.append(clients.boot(2, room=True))
    wait_until(lambda: time.monotonic() > start + 120, WAIT_S, 'the end')
    keystone.is_unavailable = False
    outage.ends()
    clients.wait()
    assert {call.failure.name for call in early} == {'NoValidHost'}
    assert [call.failure for call in late] == [None] * len(late)
    audit.check(*ALL)


@pytest.mark.scenario('F14', 'I2')
def test_a_worker_that_is_killed_while_it_waits_leaves_no_claim(
    cloud, url, connect, daemons, audit, placement
):
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, DEFAULT={'transport_url': url})
    running = daemons(made, novasched=PATIENT)
    daemon = running.start()
    caller = connect()
    outage = Outage(made, proxy.answers(503, after=True), ('PUT', 'POST'), CLAIMS)
    looks = Outage(made, GATEWAY, ('GET',), CLAIMS)
    consumer, _ = boot(caller)
    until(lambda: 'Requests wait for placement' in daemon.log, 'a request that waits')
    assert placement.allocations(consumer)
    running.kill(daemon)
    outage.ends()
    looks.ends()
    running.start()
    wait_until(
        lambda: not placement.allocations(consumer), WAIT_S, 'the claim to be undone'
    )


@pytest.mark.exhaustive('that time ends, and that many wait, are in the first tier')
@pytest.mark.scenario('F14', 'I1', 'I2', 'I7', 'I8')
def test_an_outage_of_a_minute_and_a_half_with_many_who_wait(
    cloud, url, daemons, callers, audit
):
    audit.settle_s = SETTLE_S
    made = cloud(HOSTS, DEFAULT={'transport_url': url, 'long_rpc_timeout': 600})
    running = daemons(made, novasched=PATIENT)
    (worker,) = running.workers(running.start())
    clients = callers(made)
    clients.boot(room=True)
    clients.wait()
    before, start = Resources.of(worker), time.monotonic()
    outage = Outage(made, GATEWAY)
    early = [clients.boot() for _ in range(VERY_MANY)]
    most = before.threads + 2 * VERY_MANY  # each has one for its signs of life
    until(lambda: Resources.of(worker).threads > most, 'all')
    height = Resources.of(worker)
    wait_until(lambda: time.monotonic() > start + 55, WAIT_S, 'some that fail')
    early += [clients.boot() for _ in range(MANY)]
    wait_until(lambda: time.monotonic() > start + 70, WAIT_S, 'some that do not')
    late = [clients.boot(room=True) for _ in range(MANY)]
    wait_until(lambda: time.monotonic() > start + 90, WAIT_S, 'the end')
    outage.ends()
    clients.wait()
    assert {call.failure.name for call in early} == {'NoValidHost'}
    assert [call.failure for call in late] == [None] * MANY
    kept = POOL + CONNECTIONS + SPARE
    most = before.threads + kept
    until(lambda: Resources.of(worker).threads <= most, 'the threads to end')
    after = Resources.of(worker)
    assert (height.memory_mb - before.memory_mb) / VERY_MANY < MOST_MB / 2
    assert max(height.files, after.files) - before.files <= kept
    audit.check('I1', 'I2', 'I3', 'I4', 'I7', 'I8')


@pytest.mark.scenario('F14', 'I7')
def test_a_query_that_placement_alone_fails_to_answer_is_decided_a_few_times(
    patient, callers
):
    """As it meets a defect there, while placement answers all else."""
    patient.proxy.on('GET', '^/allocation_cand', proxy.answers(500, b'{}'), times=9999)
    clients, start = callers(patient), time.monotonic()
    call = clients.boot()
    clients.wait()
    assert call.failure.name == 'NoValidHost'
    assert time.monotonic() - start < PATIENT['outage_patience'] / 2
    asked = patient.proxy.asked('GET', '^/allocation_cand')
    assert 1 < len(asked) <= MOST_ALONE + 1
