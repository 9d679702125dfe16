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
ROOMY = [
    Host('h1', vcpus=256, memory_mb=260_000, disk_gb=1000),
    Host('h2', vcpus=256, memory_mb=250_000, disk_gb=1000),
]
CLAIM = '^/allocations/'
LOAD = 12
EVERY_S = 0.4
STOP_S = 60
CLOSES_S = 2
"""How long a scheduler takes at most to close its connections."""
AT_ONCE = {'manager_shutdown_timeout': 20}
"""Requests get no time at a stop."""
SETTLE_S = 30


@pytest.fixture
def made(cloud, url, audit):
    audit.settle_s = SETTLE_S
    general = {'transport_url': url, 'rpc_response_timeout': 60}
    return cloud(ROOMY, DEFAULT=general)


class Load:
    """Asks for servers all the time that it waits for something."""

    def __init__(self, clients):
        self._clients = clients
        self.calls = []

    def boot(self):
        self.calls.append(self._clients.boot(room=True))

    def until(self, check, what):
        def boot_and_check():
            self.boot()
            return check()

        wait_until(boot_and_check, STOP_S, what, every_s=EVERY_S)


@pytest.mark.scenario('F6', 'I2', 'I3', 'I4', 'I6', 'I7')
@pytest.mark.scenario('F5', 'I2', 'I3', 'I4', 'I6', 'I7')
def test_reloads_and_a_stop_under_load_cost_no_request(made, daemons, callers, audit):
    processes, clients, slow = daemons(made), callers(made), threading.Event()

    def claim(exchange):
        if slow.is_set():
            exchange.wait(1)
        proxy.passed(exchange)

    made.proxy.on('PUT', CLAIM, claim, times=9999)
    audit.bounds = Bounds(latency_s=STOP_S)
    stopped = processes.start(workers=2)
    load = Load(clients)
    for reloads in (1, 2):
        stopped.send(signal.SIGHUP)
        load.until(lambda n=reloads: stopped.log.count('Reloaded') >= n, 'the reload')
    # What was before a reload takes no more requests, a moment after it.
    wait_until(lambda: processes.consumers() == 2, STOP_S, 'the end of old consumers')
    processes.start(workers=1)
    slow.set()
    for _ in range(4):
        load.boot()
    stopped.send(signal.SIGTERM)
    load.until(lambda: stopped.poll() is not None, 'the end')
    assert stopped.wait(STOP_S) == 0
    clients.wait()
    audit.check(*ALL)
    assert all(call.nodes for call in load.calls)


@pytest.mark.scenario('F6', 'I2', 'I3', 'I4', 'I6')
def test_request_that_outlives_a_reload_is_answered(made, daemons, callers, audit):
    audit.bounds = Bounds(latency_s=STOP_S)
    daemon = daemons(made, DEFAULT=AT_ONCE).start()
    clients = callers(made)
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    clients.boot(room=True)
    wait_until(lambda: made.proxy.asked('PUT', CLAIM), STOP_S, 'the claim')
    daemon.send(signal.SIGHUP)
    wait_until(lambda: 'Reloaded' in daemon.log, STOP_S, 'the reload')
    clients.boot(room=True)
    time.sleep(1)
    made.proxy.release()
    clients.wait()
    audit.check(*ALL)


@pytest.mark.scenario('F6', 'I2')
def test_claim_whose_caller_waits_no_more_after_a_reload_is_undone(
    made, daemons, callers
):
    daemon = daemons(made, DEFAULT={**AT_ONCE, 'long_rpc_timeout': 1}).start()
    made.proxy.on('PUT', CLAIM, proxy.late)
    callers(made).boot(room=True)
    wait_until(made.held, STOP_S, 'the claim')
    daemon.send(signal.SIGHUP)
    wait_until(lambda: 'Requests are still under way' in daemon.log, STOP_S, 'its end')
    time.sleep(CLOSES_S)
    made.proxy.release()
    wait_until(lambda: not made.held(), STOP_S, 'the undo')
