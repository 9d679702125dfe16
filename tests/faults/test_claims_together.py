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
LARGE = [Host(f'h{n}', vcpus=256, memory_mb=1 << 20, disk_gb=1 << 16) for n in '123']
"""No claim is refused."""
CLAIM, TOGETHER, QUERY = '^/allocations/', '^/allocations$', '^/allocation_candidates'
WAIT_S = 60
AWAY_S, HANGING_S = 2, 10
DECIDED_S = 0.5
"""How long requests take, as a rule, from the answer of a query to their claims."""


def held_until(event):
    """A fault that passes a request on once an event is set."""

    def fault(exchange):
        assert event.wait(WAIT_S)
        proxy.passed(exchange)

    return fault


@pytest.fixture
def made(cloud, audit, monkeypatch):
    """A cloud whose first claim is held back until ``claimed`` is set."""
    # However long a busy machine takes, the claims wait for the first one.
    monkeypatch.setattr(writes, 'SLOW_S', WAIT_S)
    audit.bounds = Bounds(latency_s=2 * WAIT_S)
    made = cloud(HOSTS)
    made.writes = made.serve().manager.attempts._placement._writes
    made.claimed = threading.Event()

    made.proxy.on('PUT', CLAIM, held_until(made.claimed))
    return made


def gather(made, clients, count, room=True):
    """Boot a server whose claim is held back, and others whose claims wait for it."""
    clients.boot(room=room)
    wait_until(lambda: made.proxy.asked('PUT', CLAIM), WAIT_S, 'first claim')
    for _ in range(count):
        clients.boot(room=room)
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

    made.proxy.on('POST', TOGETHER, held_until(ended))
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


@pytest.mark.scenario('F47', 'I1', 'I2', 'I3', 'I4', 'I6')
def test_placement_away_then_hanging_amid_posts_leaves_no_claim(
    made, callers, audit, monkeypatch
):
    clients, ended = callers(made), threading.Event()

    gather(made, clients, 5, room=False)
    monkeypatch.setattr(writes, 'SLOW_S', SLOW_S)
    for fault, lasts_s in ((proxy.drop, AWAY_S), (held_until(ended), HANGING_S)):
        made.proxy.heal()
        for method in ('GET', 'PUT', 'POST', 'DELETE'):
            made.proxy.on(method, '', fault, times=9999)
        made.claimed.set()
        for _ in range(3):
            clients.boot()
        time.sleep(lasts_s)
    made.proxy.heal()
    ended.set()
    clients.wait()
    assert sizes(made)[0] > 1
    for _ in range(4):
        clients.boot(room=True)
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F47', 'I2', 'I3', 'I4')
@cases(
    'count, fault',
    ('one, after the claims', 1, proxy.late),
    ('two, after the claims', 2, proxy.late),
    ('two, before the claims', 2, proxy.stuck),
)
def test_claims_of_workers_killed_amid_posts_are_undone(
    cloud, url, daemons, connect, count, fault
):
    made = cloud(LARGE, DEFAULT={'transport_url': url, 'executor_thread_pool_size': 8})
    workers = daemons(made)
    killed = workers.start(count)
    caller = connect(expires_s=600)
    release = threading.Event()

    made.proxy.on('PUT', CLAIM, held_until(release), times=count)
    made.proxy.on('POST', TOGETHER, fault, times=4 * count)
    calls = dict(boot(caller)[::-1] for _ in range(4 * count))
    wait_until(
        lambda: len(made.proxy.asked('GET', QUERY)) >= len(calls), WAIT_S, 'queries'
    )
    time.sleep(DECIDED_S)
    release.set()
    answered = set()

    def are_all_there():
        answered.update(calls[each] for each in caller.ended())
        return answered.union(*posted(made)) == set(calls.values())

    wait_until(are_all_there, WAIT_S, 'claims')
    held = answered if fault is proxy.stuck else set(calls.values())
    wait_until(lambda: set(made.held()) == held, WAIT_S, 'allocations')
    assert answered < set(calls.values())
    workers.kill(killed)
    workers.start()
    made.proxy.release()
    wait_until(lambda: not workers.journals(), WAIT_S, 'recovery')
    assert set(made.held()) == answered
