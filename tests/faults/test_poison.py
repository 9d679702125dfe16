# SPDX-License-Identifier: Apache-2.0
"""Requests on which a plugin misbehaves or ends its worker: others are served."""

from __future__ import annotations

import contextlib
import os
import re

import pytest

from tests.faults.daemons import QUEUE
from tests.functional.conftest import Host, new_uuids
from tests.live import wire as wire_
from tests.live.servers.process import wait_until
from tests.live.wire import Wire

ROOMY = {'vcpus': 64, 'memory_mb': 131072, 'disk_gb': 2000}
HOSTS = [Host('h1', **ROOMY), Host('h2', **ROOMY)]
WAIT_S = 60
WORKERS = 2
AFTERWARDS = 6
"""So many requests that each worker gets some."""

OPTIONS = {
    'filter_scheduler': {
        'available_filters': [
            'nova.scheduler.filters.all_filters',
            'poison.PoisonFilter',
        ],
        'enabled_filters': 'ComputeFilter, PoisonFilter',
    },
    'novasched': {'plugin_time_budget': 0.5},
}
PLUGIN = """
import ctypes
import os
import time

from novasched.scheduler.filters import BaseHostFilter


class PoisonFilter(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        poison = spec_obj.get_scheduler_hint('poison')
        if poison:
            with open({marks!r}, 'a') as marks:
                marks.write(poison + ' ')
        if poison == 'abort':
            os.abort()
        if poison == 'segfault':
            ctypes.string_at(0)
        if poison == 'raise':
            raise ZeroDivisionError('poisoned')
        if poison == 'sleep':
            time.sleep(0.5)
        return True
"""


class Poisoned:
    """A daemon whose filter does what a hint says."""

    def __init__(self, processes, broker, directory, root):
        self._processes, self._broker = processes, broker
        self._marks = directory / 'marks'
        (directory / 'poison.py').write_text(PLUGIN.format(marks=str(self._marks)))
        paths = [str(directory), str(root), os.environ.get('PYTHONPATH', '')]
        processes.environ['PYTHONPATH'] = os.pathsep.join(filter(None, paths))
        self.process = processes.start(WORKERS)

    def marks(self):
        """What the filter was asked to do, each time."""
        return self._marks.read_text().split() if self._marks.exists() else []

    def queue(self):
        """The messages that wait, and the workers that take some."""
        return self._broker.queue(self._processes.url, QUEUE)

    def wait_whole(self):
        """Wait until all workers take requests."""
        wait_until(
            lambda: self.queue()[1] >= WORKERS, WAIT_S, 'all workers', self.process
        )


@pytest.fixture
def poisoned(cloud, daemons, rabbitmq, url, tmp_path, pytestconfig):
    processes = daemons(cloud(HOSTS, DEFAULT={'transport_url': url}), **OPTIONS)
    daemon = Poisoned(processes, rabbitmq, tmp_path, pytestconfig.rootpath)
    with (
        contextlib.closing(Wire(rabbitmq, url)) as caller,
        contextlib.closing(Wire(rabbitmq, url)) as other,
    ):
        yield daemon, caller, other


def boot(poison=None):
    """A message that asks for a host; the filter does what the hint says."""
    args = wire_.boot_args(new_uuids())
    hints = {'poison': [poison]} if poison else {}
    return wire_.message(args=wire_.changed(args, 'spec.scheduler_hints', hints))


@pytest.mark.parametrize(
    'poison',
    ['abort', pytest.param('segfault', marks=pytest.mark.exhaustive('another signal'))],
)
@pytest.mark.scenario('F27', 'I3', 'I7')
def test_a_plugin_that_ends_its_worker_ends_one_request(poisoned, poison):
    daemon, caller, other = poisoned
    other.send(boot(poison))
    wait_until(lambda: poison in daemon.marks(), WAIT_S, 'the end of a worker')
    for _ in range(AFTERWARDS):
        _, failure = caller.call(boot())
        assert failure is None
    daemon.wait_whole()
    for _ in range(AFTERWARDS):
        _, failure = caller.call(boot())
        assert failure is None
    assert daemon.marks() == [poison]
    assert daemon.queue() == (0, WORKERS)


@pytest.mark.scenario('F29', 'I7')
def test_a_plugin_that_raises_or_is_slow_is_named(poisoned):
    daemon, caller, other = poisoned
    _, failure = caller.call(boot('raise'))
    assert failure['class'] == 'ZeroDivisionError'
    assert 'PoisonFilter failed: ZeroDivisionError: poisoned' in failure['message']
    slow = other.send(boot('sleep'))
    wait_until(lambda: 'sleep' in daemon.marks(), WAIT_S, 'the slow request')
    for _ in range(AFTERWARDS):
        _, failure = caller.call(boot())
        assert failure is None
    assert other.answers(slow)[-1]['failure'] is None
    request_id = wire_.CONTEXT['request_id']
    line = f'for request {request_id}, with 2 host(s) in run 1; the time budget is'
    wait_until(lambda: line in daemon.process.log, WAIT_S, 'a line of the log')
    assert re.search(r'Filter PoisonFilter took [1-9]', daemon.process.log)
