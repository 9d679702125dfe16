# SPDX-License-Identifier: Apache-2.0
"""Claims of several requests in one POST that fails, is lost or outlives a worker."""

from __future__ import annotations

import json
import threading
import time

import pytest

from novasched.placement import writes
from novasched.placement.writes import SLOW_S
from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.faults.callers import boot
from tests.functional.conftest import Host
from tests.live.servers.process import wait_until
from tests.support.tables.cases import cases

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
HOSTS = [Host('h1', vcpus=16), Host('h2', vcpus=16), Host('h3', vcpus=16)]
CLAIM, TOGETHER, QUERY = '^/allocations/', '^/allocations$', '^/allocation_candidates'
WAIT_S = 60
HANGING_S = 10
DECIDED_S = 0.5
"""How long requests take, as a rule, from the answer of a query to their claims."""


@pytest.fixture
def made(cloud, audit, monkeypatch):
    """A cloud whose first claim is held back until ``claimed`` is set."""
    # However long a busy machine takes, the claims wait for the first one.
    monkeypatch.setattr(writes, 'SLOW_S', WAIT_S)
    audit.bounds = Bounds(latency_s=2 * WAIT_S)
    made = cloud(HOSTS)
    made.writes = made.serve().manager.attempts._placement._writes
    made.claimed = threading.Event()

    def held_back(exchange):
        assert made.claimed.wait(WAIT_S)
        proxy.passed(exchange)

    made.proxy.on('PUT', CLAIM, held_back)
    return made


def gather(made, clients, count):
    """Boot a server whose claim is held back, and others whose claims wait for it."""
    clients.boot(room=True)
    wait_until(lambda: made.proxy.asked('PUT', CLAIM), WAIT_S, 'first claim')
    for _ in range(count):
        clients.boot(room=True)
    wait_until(lambda: made.writes.waiting == count, WAIT_S, 'all others to wait')


def posted(made):
    """Return the consumers of each POST."""
    return [{*json.loads(asked.body)} for asked in made.proxy.asked('POST', TOGETHER)]


def sizes(made):
    """Return of how many consumers each POST was."""
    return [*map(len, posted(made))]


@pytest.mark.scenario('F47', 'I2', 'I3', 'I4', 'I6')
@cases(
    'fault',
    ('nothing', proxy.passed),
    ('the answer is lost', proxy.lose),
    ('the request is lost', proxy.drop),
    ('the server fails', proxy.answers(500, b'<html>', 'text/html')),
    ('it does what it denies', proxy.answers(503, b'<html>', after=True)),
    ('it refuses', proxy.answers(409, b'{"errors": {}}')),
    ('the answer breaks off', proxy.cut),
)
def test_requests_of_one_post_each_get_a_host(made, callers, audit, fault):
    clients = callers(made)
    made.proxy.on('POST', TOGETHER, fault)
    gather(made, clients, 5)
    made.claimed.set()
    clients.wait()
    audit.check(*ALL)
    assert sizes(made)[0] > 1


@pytest.mark.scenario('F47', 'I2', 'I7')
def test_placement_that_hangs_delays_claims_once(made, callers, audit, monkeypatch):
    """No claim waits for a write that hangs, and no claim is left behind."""
    clients, ended = callers(made), threading.Event()

    def hang(exchange):
        ended.wait(WAIT_S)
        proxy.passed(exchange)

    made.proxy.on('POST', TOGETHER, hang)
    gather(made, clients, 4)
    monkeypatch.setattr(writes, 'SLOW_S', SLOW_S)
    made.claimed.set()
    wait_until(lambda: sizes(made), WAIT_S, 'claims that hang')
    living = callers(made)
    began = time.monotonic()
    living.boot(room=True)
    living.wait()
    assert time.monotonic() - began < HANGING_S
    ended.set()
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F47', 'I2', 'I3', 'I4')
def test_claims_of_a_worker_killed_amid_a_post_are_undone(cloud, url, daemons, connect):
    made = cloud(HOSTS, DEFAULT={'transport_url': url, 'executor_thread_pool_size': 8})
    workers = daemons(made)
    killed = workers.start()
    caller = connect(expires_s=600)
    release = threading.Event()

    def held_back(exchange):
        assert release.wait(WAIT_S)
        proxy.passed(exchange)

    made.proxy.on('PUT', CLAIM, held_back)
    made.proxy.on('POST', TOGETHER, proxy.late)
    consumers = {boot(caller)[0] for _ in range(4)}
    wait_until(
        lambda: len(made.proxy.asked('GET', QUERY)) >= len(consumers), WAIT_S, 'queries'
    )
    time.sleep(DECIDED_S)
    release.set()
    wait_until(lambda: sizes(made), WAIT_S, 'claims')
    wait_until(lambda: set(made.held()) == consumers, WAIT_S, 'allocations')
    # A claim that was not ready in time goes by itself, and is answered.
    unanswered = set().union(*posted(made))
    assert len(unanswered) > 1
    workers.kill(killed)
    workers.start()
    wait_until(lambda: unanswered.isdisjoint(made.held()), WAIT_S, 'recovery')
