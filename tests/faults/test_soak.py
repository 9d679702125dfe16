# SPDX-License-Identifier: Apache-2.0
"""Requests for as long as asked for, while faults of all kinds come at random.

`--soak-minutes` says for how long; half a minute where nothing else is said.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.faults.resources import Resources
from tests.functional.conftest import Host
from tests.live.servers.process import wait_until

pytestmark = pytest.mark.filterwarnings('ignore:unclosed <socket:ResourceWarning')

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
HOSTS = [Host(f'h{n}', vcpus=8, memory_mb=9000 + n) for n in range(4)]
WORKERS = 2
EVERY_S = 0.6
HARM_EVERY_S = 2
PATIENCE_S = 20
"""A caller waits so long for a sign of life; no harm takes as long."""
KEEP = 12
"""So many servers live at a time; the oldest is deleted then."""
SETTLE_S = 150
"""Longer than a killed worker's claim may be on its way."""
BAD_REQUEST, NOT_FOUND = 400, 404
QUIET_S = 60
GROWTH_MB = 80
GROWTH_FILES = 20
TIMEOUT_S = 3
OPTIONS = {'oslo_messaging_rabbit': {'heartbeat_timeout_threshold': 6}}

CLAIM_FAULTS = (
    proxy.drop,
    proxy.lose,
    proxy.delay(1),
    proxy.answers(500, b'', after=True),
    proxy.answers(503, b'<html>', 'text/html', after=True),
)
QUERY_FAULTS = (
    proxy.drop,
    proxy.cut,
    proxy.delay(1),
    proxy.answers(503, b'<html>', 'text/html'),
)


class Harm:
    """Hurts a cloud at random; each kind ends by itself, or with the next requests."""

    def __init__(self, rng, made, broker, processes, daemon):
        self._rng = rng
        self._made = made
        self._broker = broker
        self._processes = processes
        self._daemon = daemon
        self._kinds = [
            *[self._hurt_placement] * 4,
            self._kill_worker,
            self._pause_worker,
            self._reload,
            self._restart_broker,
            self._pause_broker,
        ]
        self.done = []
        self.broker_hurt_s = []
        """When the broker was hurt: it may lose answers then."""

    def act(self):
        """Do one thing; no kind comes again before all have come."""
        turn = len(self.done) % len(self._kinds)
        if not turn:
            self._rng.shuffle(self._kinds)
        kind = self._kinds[turn]
        self.done.append(kind.__name__.strip('_'))
        kind()

    def _hurt_placement(self):
        claims, queries = self._rng.choice(CLAIM_FAULTS), self._rng.choice(QUERY_FAULTS)
        for method in ('PUT', 'POST'):
            self._made.proxy.on(method, '^/allocations', claims, times=2)
        self._made.proxy.on('GET', '^/allocation_candidates', queries)

    def _worker(self):
        return self._rng.choice(self._processes.workers(self._daemon)[:WORKERS])

    def _kill_worker(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._worker(), signal.SIGKILL)

    def _pause_worker(self):
        pid = self._worker()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(pid, signal.SIGCONT)

    def _reload(self):
        self._daemon.send(signal.SIGHUP)

    def _restart_broker(self):
        self.broker_hurt_s.append(time.monotonic())
        self._broker.kill()
        self._broker.run()

    def _pause_broker(self):
        self.broker_hurt_s.append(time.monotonic())
        self._broker.send(signal.SIGSTOP)
        time.sleep(3)
        self._broker.send(signal.SIGCONT)

    def cost(self, call):
        """Tell whether the broker was hurt while the caller of a request waited."""
        ended_s = call.gave_up_s
        return ended_s and any(
            call.sent_s - PATIENCE_S < at_s < ended_s for at_s in self.broker_hurt_s
        )


class Load:
    """Boots a server every now and then, and deletes the oldest."""

    def __init__(self, made, clients, audit):
        self._made = made
        self._clients = clients
        self._audit = audit
        self._living = []
        self.calls = []

    def boot(self):
        """Ask for a server or two, and make room."""
        call = self._clients.boot(2 if len(self.calls) % 5 == 4 else 1)
        self.calls.append(call)
        self._living.append(call)
        while len(self._living) > KEEP:
            self._delete(self._living.pop(0))

    def _delete(self, call):
        for consumer in call.nodes:
            release = Release(self._made.placement, consumer)
            try:
                wait_until(release.attempt, QUIET_S, 'release')
            except AssertionError as late:
                raise AssertionError(release.failures[-3:]) from late
            self._audit.released(consumer)


class Release:
    """Attempts to delete what a consumer holds: SQLite may have another writer.

    Placement deletes the allocations, and then the consumer. An attempt that failed
    between the two has released it, and the next one finds nothing.
    """

    def __init__(self, placement, consumer):
        self._placement = placement
        self._consumer = consumer
        self.failures = []

    def attempt(self):
        """Say whether it holds nothing any more."""
        status, answer = self._placement.send(
            'DELETE', f'/allocations/{self._consumer}'
        )
        if status < BAD_REQUEST:
            return True
        is_released = status == NOT_FOUND and any(
            earlier != NOT_FOUND for earlier, _ in self.failures
        )
        self.failures.append((status, answer))
        return is_released


@pytest.mark.scenario('F32', 'I1', 'I2', 'I3', 'I4', 'I7', 'I8')
def test_a_soak_leaves_nothing_behind(
    cloud, url, broker, daemons, callers, audit, request, record_property
):
    minutes = request.config.getoption('--soak-minutes')
    minutes = minutes or (0.5 if request.config.getoption('--all') else 0.2)
    soak_s = 60 * minutes
    seed = random.randrange(10**6)
    general = {
        'transport_url': url,
        'rpc_response_timeout': PATIENCE_S,
        'long_rpc_timeout': 3 * PATIENCE_S,
    }
    made = cloud(HOSTS, DEFAULT=general, **OPTIONS)
    processes, clients = daemons(made, **OPTIONS), callers(made)
    daemon = processes.start(workers=WORKERS, timeout_s=TIMEOUT_S)
    harm = Harm(random.Random(seed), made, broker, processes, daemon)
    load = Load(made, clients, audit)
    audit.logs.append(lambda: f'seed {seed}, harm done: {harm.done}')
    audit.settle_s = SETTLE_S

    def used():
        return Resources.of_all([daemon.pid, *processes.workers(daemon)])

    for _ in range(3 * WORKERS):
        load.boot()
    clients.wait()
    before, start_s, harmed_s = used(), time.monotonic(), 0.0
    while (now_s := time.monotonic()) < start_s + soak_s:
        load.boot()
        if now_s > harmed_s + HARM_EVERY_S:
            harm.act()
            harmed_s = time.monotonic()
        time.sleep(EVERY_S)
    clients.wait(4 * PATIENCE_S)
    wait_until(lambda: processes.consumers() == WORKERS, QUIET_S, 'all workers', daemon)
    audit.left_by(*[call for call in load.calls if harm.cost(call)])
    audit.bounds = Bounds(latency_s=3 * PATIENCE_S)
    audit.check(*ALL)
    record_property('harm', (seed, harm.done))
    record_property('left behind', audit.left_behind())
    after = used()
    assert after.memory_mb < before.memory_mb + GROWTH_MB
    assert after.files < before.files + GROWTH_FILES
    made.proxy.heal()  # of what was to be spoiled, some was not asked
    load.boot()
    clients.wait()
    assert load.calls[-1].nodes, load.calls[-1]
    assert daemon.poll() is None
