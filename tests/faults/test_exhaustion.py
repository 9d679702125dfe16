# SPDX-License-Identifier: Apache-2.0
"""More requests than threads, and a slow placement: it shows, and it ends."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections import Counter

import pytest

from novasched.observability.instrumentation import Instrumentation
from novasched.observability.settings import Settings
from novasched.runtime.clock import SystemClock
from tests.faults import proxy
from tests.functional.conftest import Host
from tests.live import wire as wire_
from tests.live.servers.process import wait_until
from tests.live.wire import Wire
from tests.unit.observability.recorder import FakeRecorder

THREADS = 2
REQUESTS = 20
BOUND_S = 60
HOSTS = [
    Host(f'h{number}', vcpus=256, memory_mb=1 << 20, disk_gb=1 << 16)
    for number in range(8)
]
IN_FLIGHT = ('novasched_requests_in_flight',)
POOL = ('novasched_request_threads',)
WAITING = ('novasched_messages_waiting',)
OLDEST = ('novasched_oldest_waiting_message_seconds',)


class Patient(Wire):
    """A caller with many calls under way, whose answers may come in any order."""

    def failures(self, calls):
        """Wait for the final answers of calls; return what each failed with."""
        found, end = {}, time.monotonic() + BOUND_S
        while not calls <= found.keys():
            assert time.monotonic() < end, f'{len(found)} of {len(calls)} answers'
            with contextlib.suppress(TimeoutError):
                self._connection.drain_events(timeout=1)
            while self._answers:
                body = json.loads(self._answers.pop(0).body)
                answer = json.loads(body['oslo.message'])
                if answer['ending']:
                    found[answer['_msg_id']] = answer['failure']
        return set(found.values())


class Measured:
    """A scheduler of two threads over the broker, and what its metrics are now."""

    def __init__(self, cloud, url):
        self.cloud = cloud(
            HOSTS,
            DEFAULT={
                'transport_url': url,
                'executor_thread_pool_size': THREADS,
                'service_down_time': 3600,
            },
        )
        self._recorder, clock = FakeRecorder(), SystemClock()
        self._instrumentation = Instrumentation(
            self._recorder,
            clock,
            Settings(threads=THREADS, patience_s=BOUND_S, check_interval_s=BOUND_S),
        )
        self.requests = self._instrumentation.requests
        self.server = self.cloud.serve(instrumentation=self._instrumentation).server

    def values(self):
        self._instrumentation.measure(time.time())
        return Counter({**self._recorder.gauges, **self._recorder.counts})


@pytest.fixture
def made(cloud, url):
    return Measured(cloud, url)


@pytest.fixture
def caller(made, rabbitmq):
    caller = Patient(rabbitmq, made.cloud.conf.transport_url)
    yield caller
    caller.close()


def boot(caller):
    consumer = str(uuid.uuid4())
    return consumer, caller.send(wire_.message(args=wire_.boot_args([consumer])))


@pytest.mark.scenario('F30', 'I7')
def test_more_requests_than_threads_show_wait_their_turn_and_are_answered(made, caller):
    made.cloud.proxy.on('GET', '^/allocation_candidates', proxy.stuck, times=REQUESTS)
    started = time.monotonic()
    calls = dict(boot(caller) for _ in range(REQUESTS))

    def is_exhausted():
        now = made.values()
        return now[IN_FLIGHT] == now[POOL] == THREADS and now[WAITING] >= REQUESTS / 2

    wait_until(is_exhausted, BOUND_S, 'as many requests as threads')
    oldest_s = made.values()[OLDEST]
    wait_until(lambda: made.values()[OLDEST] > oldest_s, BOUND_S, 'a longer wait')
    assert max(made.requests.under_way()) < BOUND_S
    made.cloud.proxy.release()

    assert caller.failures(set(calls.values())) == {None}
    assert time.monotonic() - started < BOUND_S
    assert set(made.cloud.held()) == set(calls)

    later, call = boot(caller)
    assert caller.failures({call}) == {None}
    assert later in made.cloud.held()
    wait_until(
        lambda: not made.requests.under_way(), BOUND_S, 'the end of all requests'
    )
    now = made.values()
    assert (now[IN_FLIGHT], now[WAITING], now[OLDEST]) == (0, 0, 0)
    assert now['novasched_servers_placed_total',] == REQUESTS + 1
    assert made.requests.finished() == REQUESTS + 1
    made.server.stop()
    ending = threading.Thread(target=made.server.wait, daemon=True)
    ending.start()
    ending.join(BOUND_S)
    assert not ending.is_alive(), 'a thread of the pool is stuck'
