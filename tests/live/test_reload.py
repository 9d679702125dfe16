# SPDX-License-Identifier: Apache-2.0
"""Signals under load: what is configured changes, workers die, nothing is lost."""

import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from tests.live.daemon import QUEUE
from tests.live.peer import PeerError
from tests.live.servers.process import free_port
from tests.live.steady import Steady
from tests.support.tables.combinations import BACKENDS

pytestmark = pytest.mark.ours

WORKERS = 2
STOP_S = 60
RELOADS = 4
TURNS = 5
SETTLED_S = 20
STOCK = 'ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter'
SSD = {'aggregate_instance_extra_specs:ssd': 'true'}
STRICT = f'{STOCK},AggregateInstanceExtraSpecsFilter'


class Reloading:
    """A daemon whose filters change while requests come all the time."""

    def __init__(self, start, cloud, broker, backend):
        self.port = free_port()
        uri = f'tcp://127.0.0.1:{self.port}'
        self._sections = {
            'DEFAULT': {'concurrency_backend': backend, 'report_interval': 1},
            'healthcheck': {'uri': uri},
            'novasched': {'metrics_uri': uri},
            'scheduler': {'workers': WORKERS},
        }
        self._cloud = cloud
        self._broker = broker
        self._start = start
        self.daemon = start(
            filter_scheduler={'enabled_filters': STOCK}, **self._sections
        )
        self.main = self.daemon.process.pid

    def configure(self, filters, signals=1):
        """Write other filters into the file, and tell the daemon."""
        self._sections['DEFAULT']['transport_url'] = self.daemon.url
        self._cloud.write_conf(
            self.daemon.process.argv[-1],
            filter_scheduler={'enabled_filters': filters},
            **self._sections,
        )
        for _ in range(signals):
            self.daemon.process.send(signal.SIGHUP)
            time.sleep(0.2)  # the kernel makes one of signals that come together

    def refuses(self):
        """Tell whether every worker has the strict filter now."""
        return all(self._finds() is False for _ in range(3 * WORKERS))

    def accepts(self):
        """Tell whether no worker has the strict filter any more."""
        return all(self._finds() for _ in range(3 * WORKERS))

    def _finds(self):
        try:
            self.daemon.client.select(level='4.3', flavor={'extra_specs': SSD})
        except PeerError as problem:
            return {'NoValidHost': False}[problem.name]
        return True

    def get(self, path):
        """Ask the process that shows; '' when it does not answer."""
        url = f'http://127.0.0.1:{self.port}{path}'
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            return ''

    def is_whole(self):
        """Tell whether all workers are there, and well."""
        text = self.get('/health')
        return '"workers": {"status": "pass"' in text

    def workers(self):
        """The pids of the workers: those whose sockets are served."""
        tasks = Path(f'/proc/{self.main}/task').iterdir()
        found = [int(p) for t in tasks for p in (t / 'children').read_text().split()]
        return sorted(found)[:WORKERS]

    def consumers(self):
        """How many workers take requests."""
        return self._broker.queue(self.daemon.url, QUEUE)[1]

    def start_another(self):
        """Start a second daemon on the same queue."""
        general = {
            **self._sections['DEFAULT'],
            'transport_url': self.daemon.url,
            'host': 'another',
        }
        return self._start(wait=False, DEFAULT=general, scheduler={'workers': WORKERS})


@pytest.fixture(params=BACKENDS)
def reloading(request, daemon, cloud, rabbitmq):
    """A daemon of two workers, observed, with either backend."""
    return Reloading(daemon, cloud, rabbitmq, request.param)


@pytest.fixture
def steady(reloading):
    """Requests that come until the end of the test; none may be lost."""
    made = Steady(reloading.daemon.client)
    yield made
    made.stop()
    assert made.lost == []


@pytest.mark.scenario('F6', 'I3', 'I7')
def test_no_request_is_lost_by_reloads_and_a_stop(reloading, steady, eventually):
    eventually(reloading.is_whole, 'all workers')
    eventually(steady.more(20), 'answers')
    assert reloading.accepts()
    reloading.configure(STRICT)
    eventually(reloading.refuses, 'the new filter')
    reloading.configure(STOCK, signals=4)
    eventually(reloading.accepts, 'the old filters')
    before = reloading.workers()
    reloading.configure('NoSuchFilter')
    eventually(
        lambda: reloading.daemon.log.count('Reloading failed') >= WORKERS,
        'a word about the filter that is not there',
    )
    eventually(steady.more(20), 'more answers')
    assert reloading.accepts()
    assert reloading.workers() == before
    eventually(reloading.is_whole, 'all workers, still')
    assert 'novasched_schedule_attempts_total{result="scheduled"}' in reloading.get(
        '/metrics'
    )
    assert 'Traceback' not in reloading.daemon.log
    assert 'killed by signal' not in reloading.daemon.log
    another = reloading.start_another()
    eventually(lambda: reloading.consumers() >= 2 * WORKERS, 'the other daemon', 60)
    reloading.daemon.process.send(signal.SIGTERM)
    assert reloading.daemon.process.wait(STOP_S) == 0
    eventually(steady.more(20), 'answers of the other daemon')
    assert another.log.count('Traceback') == 0


def test_a_worker_that_is_killed_is_replaced_whatever_the_file_says(
    reloading, eventually
):
    eventually(reloading.is_whole, 'all workers')
    reloading.configure('NoSuchFilter')
    eventually(
        lambda: reloading.daemon.log.count('Reloading failed') > WORKERS,
        'a word about the filter that is not there',
    )
    victim = reloading.workers()[0]
    os.kill(victim, signal.SIGKILL)
    eventually(
        lambda: victim not in reloading.workers() and reloading.is_whole(),
        'a new worker',
    )
    assert reloading.accepts()


@pytest.mark.parametrize('reloading', ['threading'], indirect=True)
def test_reloads_leave_nothing_behind(reloading, eventually):
    """Requests want a thread or a connection more now and then, up to a limit; what
    reloads left behind would get more for ever."""
    eventually(reloading.is_whole, 'all workers')
    assert reloading.accepts()
    assert any(_keep_to(reloading, eventually) for _ in range(TURNS))


def _keep_to(reloading, eventually):
    """Reload; tell whether the workers soon have less more than before than if each
    reload left one thing behind."""
    _reload(reloading, eventually)
    before = _held(reloading)
    for _ in range(RELOADS):
        _reload(reloading, eventually)
    most = before + RELOADS * len(reloading.workers()) - 1
    until = time.monotonic() + SETTLED_S
    while (now := _held(reloading)) > most and time.monotonic() < until:
        time.sleep(0.2)
    return now <= most


def _reload(reloading, eventually):
    done = reloading.daemon.log.count('Reloaded')
    reloading.configure(STOCK)
    eventually(lambda: reloading.daemon.log.count('Reloaded') > done, 'a reload')
    assert reloading.accepts()


def _held(reloading):
    """How many threads and open files the workers have."""
    pids = reloading.workers()
    threads = sum(len(list(Path(f'/proc/{pid}/task').iterdir())) for pid in pids)
    files = sum(len(list(Path(f'/proc/{pid}/fd').iterdir())) for pid in pids)
    return threads + files
