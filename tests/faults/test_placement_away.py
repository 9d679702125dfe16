# SPDX-License-Identifier: Apache-2.0
"""A placement that is away, slow or wrong while requests come over the wire."""

from __future__ import annotations

import threading
import time

import pytest

from novasched import errors
from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host
from tests.live.servers.process import wait_until
from tests.support.tables.cases import cases

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
HOSTS = [Host('h1', memory_mb=9000, vcpus=16), Host('h2', vcpus=16)]
METHODS = ('GET', 'PUT', 'POST', 'DELETE')
CLAIMS = '^/allocations'
QUERY = '^/allocation_candidates'
OUTAGE_S = 1
EVERY_S = 0.3
IMPATIENT_S = 0.5
"""What a request waits for a placement that never answers."""
THREADS = 4
SETTLE_S = 30
"""Nothing is left to be done once a request is answered, but what a test delays."""
WAIT_S = 60


@pytest.fixture
def made(cloud, audit):
    audit.settle_s = SETTLE_S
    return cloud(HOSTS)


def until(ended, fault):
    """A fault that is none any more when an event is set."""

    def chosen(exchange):
        (proxy.passed if ended.is_set() else fault)(exchange)

    return chosen


@pytest.mark.scenario('F14', 'I2', 'I6', 'I7', 'I8')
@cases(
    'fault',
    ('a gateway says so', proxy.answers(503, b'<html>', 'text/html')),
    more=[
        ('connections break', proxy.drop),
        ('it does what it denies', proxy.answers(503, b'<html>', after=True)),
    ],
)
def test_an_outage_ends_without_a_restart(made, callers, audit, fault):
    made.serve()
    clients, ended = callers(made), threading.Event()
    audit.bounds = Bounds(latency_s=WAIT_S)
    for method in METHODS:
        made.proxy.on(method, '', until(ended, fault), times=9999)
    start = time.monotonic()
    during = []
    while time.monotonic() - start < OUTAGE_S:
        during.append(clients.boot())
        time.sleep(EVERY_S)
    ended.set()
    clients.wait()
    for _ in range(2):
        clients.boot(room=True)
        clients.wait()
    audit.check(*ALL)
    assert during[0].failure.name == 'NoValidHost'


def swallow(exchange):
    """Never answer, nor pass it on."""
    exchange.wait()
    exchange.hang_up()


FEW = {'executor_thread_pool_size': THREADS}


@pytest.mark.scenario('F15', 'I2', 'I6', 'I7')
def test_a_black_hole_takes_only_the_requests_that_fall_into_it(cloud, callers, audit):
    made = cloud(HOSTS, DEFAULT=FEW)
    made.serve()
    made.proxy.on('GET', f'{QUERY}.*VCPU%3A7', proxy.stuck, times=99)
    lost, living = callers(made), callers(made)
    inside = [lost.boot(vcpus=7) for _ in range(THREADS - 1)]
    wait_until(
        lambda: len(made.proxy.asked('GET', QUERY)) == len(inside), WAIT_S, 'queries'
    )
    for _ in range(4):
        living.boot(room=True)
        living.wait()
    assert not any(call.answers for call in inside)
    made.proxy.release()
    lost.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F15', 'I2', 'I7')
@cases(
    'method, pattern',
    ('queries', 'GET', QUERY),
    ('claims', 'PUT', CLAIMS),
)
def test_threads_come_back_from_a_black_hole(cloud, callers, audit, method, pattern):
    made = cloud(HOSTS, DEFAULT=FEW)
    made.serve()
    session = made.adapter.session
    patient_s, session.timeout = session.timeout, IMPATIENT_S
    clients, ended = callers(made), threading.Event()
    made.proxy.on(method, pattern, until(ended, swallow), times=999)
    audit.bounds = Bounds(latency_s=2 * WAIT_S)
    for _ in range(THREADS):
        clients.boot()
    clients.wait()
    ended.set()
    session.timeout = patient_s
    made.proxy.release()
    for _ in range(THREADS):
        clients.boot()
    clients.wait()
    clients.boot(room=True)
    clients.wait()
    audit.check(*ALL)


NONSENSE = (
    proxy.cut,
    proxy.answers(502, b'<html>', after=True),
    proxy.answers(409, b'{"errors": {}}'),
    proxy.answers(200, b'{"allocations": 7}'),
)
"""A body that breaks off, a page, an odd refusal, and another answer."""


@pytest.mark.scenario('F17', 'I2', 'I4', 'I8')
@cases(
    'methods, pattern',
    ('candidates', ['GET'], QUERY),
    ('claims', ['PUT', 'POST'], CLAIMS),
    ('claims and looks', ['PUT', 'POST', 'GET'], CLAIMS),
)
def test_nonsense_is_an_answer_of_novas_and_no_partial_claim(
    made, callers, audit, methods, pattern
):
    made.serve()
    clients = callers(made)
    for fault in NONSENSE:
        for count in (1, 3):
            for method in methods:
                made.proxy.on(method, pattern, fault)
            clients.boot(count)
            clients.wait()
        made.proxy.heal()
    clients.boot(room=True)
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F17', 'I2', 'I6')
@cases(
    'status',
    ('shows a page', 200),
    ('limits the rate', 429),
)
def test_request_waits_while_a_gateway_answers(cloud, callers, audit, status):
    made = cloud([Host('h1', vcpus=1)], novasched={'outage_patience': 30})
    made.serve()
    clients, ended = callers(made), threading.Event()
    page = proxy.answers(status, b'<html>back soon</html>', 'text/html')
    for method in METHODS:
        made.proxy.on(method, '', until(ended, page), times=9999)
    clients.boot(room=True)
    time.sleep(OUTAGE_S)
    ended.set()
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F17', 'I1')
def test_page_in_the_place_of_usages_is_no_proof_of_room(made, new_uuid):
    page = proxy.answers(200, b'<html>back soon</html>', 'text/html')
    made.proxy.on('GET', '/usages$', page, times=99)
    with pytest.raises(errors.AllocationUpdateFailed, match='over capacity'):
        made.ask(made.compose(), [new_uuid()], vcpus=8)
    assert made.held() == {}


# -- a token that ends


@pytest.mark.scenario('F18', 'I4', 'I6', 'I7')
@cases(
    'method, pattern',
    ('at a query', 'GET', QUERY),
    ('at a claim', 'PUT', CLAIMS),
)
def test_a_token_that_ended_is_replaced_once(
    made, callers, audit, by_password, method, pattern
):
    keystone = by_password(made)
    clients = callers(made)
    clients.boot(room=True)
    clients.wait()
    assert keystone.issued == 1
    made.proxy.on(method, pattern, proxy.answers(401, b'it has ended'))
    for _ in range(2):
        clients.boot(room=True)
        clients.wait()
    audit.check(*ALL)
    assert keystone.issued == 2
