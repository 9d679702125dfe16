# SPDX-License-Identifier: Apache-2.0
"""Requests for many servers whose worker is killed, or whose caller dies."""

from __future__ import annotations

import threading
import uuid

import pytest

from novasched.placement.rollback import TOGETHER
from novasched.rpc import reply_queues
from tests.faults import proxy
from tests.faults.callers import Impatient
from tests.functional.conftest import Host
from tests.live import wire as wire_
from tests.live.servers.process import wait_until
from tests.support.tables.cases import cases

ALL = ('I1', 'I2', 'I3', 'I4', 'I7', 'I8')
ROOMY = [Host(f'h{n}', vcpus=128, memory_mb=600_000, disk_gb=9000) for n in range(2)]
JOINT = '^/allocations$'
CLAIM = '^/allocations/'
MANY = 20
VERY_MANY = 120
"""They are claimed in two chunks."""
STOP_S = 60
SETTLE_S = 60
DELAY_S = GONE_S = 1
UNDONE_LATER = 'They stay in the journal'
LONG_S = 600
"""A caller that waits as long lets a machine be slow."""


@pytest.fixture
def made(cloud, audit, url):
    audit.settle_s = SETTLE_S
    answers = {'kombu_missing_consumer_retry_timeout': 1}
    return cloud(ROOMY, DEFAULT={'transport_url': url}, oslo_messaging_rabbit=answers)


def boot(caller, audit, count):
    """Ask for many servers, and never read the answer; return the Call."""
    uuids = [str(uuid.uuid4()) for _ in range(count)]
    args = wire_.changed(wire_.boot_args(uuids), 'spec.num_instances', count)
    call = audit.sent(uuids)
    caller.send(wire_.message(args=args))
    audit.gave_up(call)
    return call


@pytest.mark.scenario('F4', 'I2')
@cases(
    'fault, nth, count, left',
    ('half was lost', proxy.drop, 2, VERY_MANY, VERY_MANY // 2),
    more=(
        ('it was granted', proxy.late, 1, MANY, MANY),
        ('it was lost', proxy.drop, 1, MANY, 0),
    ),
)
def test_a_joint_claim_of_a_killed_worker_is_whole_or_not_there(
    made, daemons, connect, audit, fault, nth, count, left
):
    def held_up(exchange):
        if fault is proxy.drop:
            exchange.wait()
        fault(exchange)

    processes = daemons(made)
    made.proxy.on('POST', JOINT, held_up, nth=nth)
    killed = processes.start()
    boot(connect(expires_s=LONG_S), audit, count)
    wait_until(lambda: made.proxy.asked('POST', JOINT)[nth - 1 :], STOP_S, 'the claims')
    wait_until(lambda: len(made.held()) == left, STOP_S, 'what is claimed')
    processes.kill(killed)
    assert len(made.held()) == left
    processes.start()
    audit.check(*ALL)
    assert made.held() == {}


@pytest.mark.scenario('F4', 'I2')
def test_claims_one_by_one_of_a_killed_worker_are_all_undone(
    made, daemons, connect, audit
):
    processes = daemons(made)
    made.proxy.on('POST', JOINT, proxy.answers(400, b'{}'), times=9)
    made.proxy.on('PUT', CLAIM, proxy.late, nth=MANY // 2)
    killed = processes.start()
    boot(connect(expires_s=LONG_S), audit, MANY)
    wait_until(lambda: len(made.held()) == MANY // 2, STOP_S, 'half of the claims')
    processes.kill(killed)
    assert len(made.held()) == MANY // 2
    processes.start()
    audit.check(*ALL)
    assert made.held() == {}


@pytest.mark.exhaustive(
    'one claim: test_callers.py; many by few requests: test_claims.py'
)
@pytest.mark.scenario('F4', 'I2')
def test_all_claims_for_a_caller_that_died_are_undone_together(
    made, rabbitmq, url, audit, monkeypatch
):
    monkeypatch.setattr(reply_queues, 'GONE_FOR_S', GONE_S)
    made.proxy.on('POST', JOINT, proxy.delay(DELAY_S), nth=2)
    made.serve()
    dying = Impatient(rabbitmq, url)
    boot(dying, audit, VERY_MANY)
    wait_until(lambda: made.proxy.asked('POST', JOINT)[1:], STOP_S, 'the claims')
    dying.close()
    wait_until(lambda: made.proxy.asked('POST', JOINT)[2:], STOP_S, 'the end of them')
    audit.check(*ALL)
    assert made.held() == {}
    assert len(made.proxy.asked('POST', JOINT)) == 2 + VERY_MANY // TOGETHER
    assert not made.proxy.asked('DELETE', CLAIM)
    assert not made.proxy.asked('PUT', CLAIM)


@pytest.mark.scenario('F40', 'I2')
def test_claims_whose_answer_an_outage_took_are_undone_after_it(
    made, daemons, connect, audit
):
    away, back = threading.Event(), threading.Event()

    def outage(exchange):
        if away.is_set() and not back.is_set():
            proxy.answers(503, b'<html>', 'text/html')(exchange)
        else:
            proxy.passed(exchange)

    def lost(exchange):
        away.set()
        proxy.lose(exchange)

    made.proxy.on('POST', JOINT, lost)
    for method in ('GET', 'PUT', 'POST'):
        made.proxy.on(method, '', outage, times=9999)
    daemon = daemons(made).start()
    boot(connect(expires_s=LONG_S), audit, MANY)
    wait_until(away.is_set, STOP_S, 'the claims')
    # If placement is back while the request looks whether it has the claims, it has.
    wait_until(lambda: daemon.log.count(UNDONE_LATER) == MANY, STOP_S, 'its end')
    assert len(made.held()) == MANY
    back.set()
    audit.check(*ALL)
    assert made.held() == {}
