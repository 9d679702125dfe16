# SPDX-License-Identifier: Apache-2.0
"""The life of the process: what starts and stops, in which order, and how."""

from __future__ import annotations

import logging
import threading

import oslo_messaging
import pytest
from oslo_config import cfg

from novasched import errors, opts, service
from novasched.service import Scheduler, SchedulerService


class Part:
    """Writes down what is done with it; raises ``problem`` in the step named."""

    def __init__(self, name, told, fails_at=None, problem=None):
        self._name = name
        self._told = told
        self._fails_at = fails_at
        self._problem = problem

    def __getattr__(self, step):
        def do():
            self._told.append(f'{self._name}.{step}')
            if step == self._fails_at:
                raise self._problem

        return do


class SlowServer(Part):
    """A server with a request under way until it is released."""

    def __init__(self, told):
        super().__init__('server', told)
        self.released = threading.Event()

    def wait(self):
        self.released.wait(20)
        self._told.append('server.wait')


@pytest.fixture
def told():
    return []


def scheduler(told, **parts):
    names = ('manager', 'view', 'server', 'upkeep', 'heartbeat')
    made = {name: Part(name, told) for name in names}
    return Scheduler(**{**made, 'drain_s': 20, **parts})


def test_a_scheduler_knows_the_cluster_before_it_serves(told):
    scheduler(told).start()
    assert told == ['view.load', 'heartbeat.start', 'server.start', 'upkeep.start']


def test_a_scheduler_ends_its_requests_before_it_lets_go_of_the_rest(told):
    scheduler(told).stop()
    assert told == [
        'server.stop',
        'server.wait',
        'upkeep.stop',
        'heartbeat.stop',
        'view.close',
    ]


def test_a_scheduler_without_a_services_row_has_no_heartbeat(told):
    made = scheduler(told, heartbeat=None)
    made.start()
    made.stop()
    assert not any('heartbeat' in step for step in told)


def test_a_slow_request_is_waited_for_no_longer_than_told(told, caplog):
    server = SlowServer(told)
    scheduler(told, server=server, drain_s=0.01).stop()
    server.released.set()
    assert told[:2] == ['server.stop', 'upkeep.stop']
    assert 'Requests are still under way' in caplog.text


@pytest.mark.parametrize(
    ('manager_s', 'graceful_s', 'expected'),
    [
        pytest.param(160, 180, 140, id='defaults'),
        pytest.param(15, 180, 0, id='less than what is kept back'),
        pytest.param(160, 100, 70, id='bounded by graceful_shutdown_timeout'),
        pytest.param(160, 0, 140, id='no bound'),
        pytest.param(160, 5, 0, id='a bound of next to nothing'),
    ],
)
def test_how_long_requests_may_take_when_the_service_stops(
    manager_s, graceful_s, expected
):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('manager_shutdown_timeout', manager_s)
    conf.set_override('graceful_shutdown_timeout', graceful_s)
    assert service.drain_s_of(conf) == expected


@pytest.mark.parametrize(
    'problem',
    [
        errors.ServiceTooOld(74, 75),
        errors.StoreFailed('nova at db1', 'gone'),
        cfg.ConfigFileValueError('wrong'),
        oslo_messaging.MessagingException('no broker'),
    ],
)
@pytest.mark.parametrize('step', ['made', 'started'])
def test_a_worker_that_cannot_start_says_one_line_and_exits(
    told, caplog, problem, step
):
    def make():
        if step == 'made':
            raise problem
        return Part('scheduler', told, 'start', problem)

    with pytest.raises(SystemExit) as raised:
        SchedulerService(make).start()
    assert raised.value.code == 1
    (line,) = caplog.records
    assert (line.levelno, line.exc_info) == (logging.CRITICAL, None)
    assert line.getMessage() == f'nova-scheduler: {problem}'


def test_a_worker_stops_its_scheduler_and_then_its_wait_ends(told):
    worker = SchedulerService(lambda: Part('scheduler', told))
    worker.start()
    worker.stop()
    worker.wait()
    assert told == ['scheduler.start', 'scheduler.stop']


def test_a_worker_may_stop_before_it_has_started(told):
    worker = SchedulerService(lambda: Part('scheduler', told))
    worker.stop()
    worker.wait()
    worker.reset()
    assert told == []


def test_a_reload_reads_everything_again(told):
    worker = SchedulerService(lambda: Part('scheduler', told))
    worker.start()
    worker.reset()
    assert told[-1] == 'scheduler.reload'
    scheduler(told).reload()
    assert told[-1] == 'view.load'


def test_a_reload_that_fails_leaves_the_service_running(told, caplog):
    problem = errors.StoreFailed('nova at db1', 'gone')
    worker = SchedulerService(lambda: Part('scheduler', told, 'reload', problem))
    worker.start()
    worker.reset()
    assert caplog.messages == [f'Reloading failed: {problem}']


def test_the_host_is_the_machine_unless_it_is_named():
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    assert service.host_of(conf)
    conf.set_override('host', 'named')
    assert service.host_of(conf) == 'named'
