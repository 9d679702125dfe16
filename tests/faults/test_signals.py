# SPDX-License-Identifier: Apache-2.0
"""Daemons that are reloaded and stopped while they claim."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host
from tests.live.servers.process import wait_until

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
ROOMY = [Host('h1', vcpus=64, memory_mb=65536), Host('h2', vcpus=64, memory_mb=60000)]
CLAIM = '^/allocations/'
LOAD = 12
EVERY_S = 0.15
STOP_S = 60
SETTLE_S = 30


@pytest.fixture
def made(cloud, broker, audit):
    audit.settle_s = SETTLE_S
    general = {'transport_url': broker.create_vhost(), 'rpc_response_timeout': 60}
    return cloud(ROOMY, DEFAULT=general)


def load(clients):
    """Ask for servers for a while; return the calls."""
    calls = []
    for _ in range(LOAD):
        calls.append(clients.boot(room=True))
        time.sleep(EVERY_S)
    return calls


@pytest.mark.scenario('F6', 'I2', 'I3', 'I4', 'I6', 'I7')
@pytest.mark.scenario('F5', 'I2', 'I3', 'I4', 'I6', 'I7')
def test_reloads_and_a_stop_under_load_cost_no_request(made, daemons, callers, audit):
    processes, clients, slow = daemons(made), callers(made), threading.Event()
    in_turn = proxy.one_at_a_time()

    def claim(exchange):
        """SQLite has one writer at a time."""
        if slow.is_set():
            exchange.wait(1)
        in_turn(exchange)

    made.proxy.on('PUT', CLAIM, claim, times=9999)
    audit.bounds = Bounds(latency_s=STOP_S)
    stopped = processes.start(workers=2)
    calls = load(clients)
    for _ in range(2):
        before = stopped.log.count('Reloaded')
        stopped.send(signal.SIGHUP)
        calls += load(clients)
        wait_until(
            lambda before=before: stopped.log.count('Reloaded') > before,
            STOP_S,
            'the reload',
            stopped,
        )
    # What was before a reload takes no more requests, a moment after it.
    wait_until(lambda: processes.consumers() == 2, STOP_S, 'the end of old consumers')
    processes.start(workers=1)
    slow.set()
    calls += [clients.boot(room=True) for _ in range(4)]
    stopped.send(signal.SIGTERM)
    calls += load(clients)
    assert stopped.wait(STOP_S) == 0
    clients.wait()
    audit.check(*ALL)
    assert all(call.nodes for call in calls)
