# SPDX-License-Identifier: Apache-2.0
"""The life of the process: what starts and stops, in which order, and how."""

import threading
import time
from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.ports import Cell
from novasched.process import service
from novasched.process.service import Scheduler
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from novasched.scheduler.weighers.shares import RAMShareWeigher
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import Part
from tests.support.tables.cases import cases


class SlowServer(Part):
    """A server with a request under way until it is released."""

    def __init__(self, told):
        super().__init__(told, 'server')
        self.released = threading.Event()

    def wait(self):
        self.released.wait(20)
        self._told.append('server.wait')


@pytest.fixture
def told():
    return []


def scheduler(told, **parts):
    names = ('manager', 'view', 'server', 'periodic', 'heartbeat')
    made = {name: Part(told, name) for name in names}
    return Scheduler(**{**made, 'drain_s': 20, **parts})


def test_a_scheduler_knows_the_cluster_before_it_serves(told):
    scheduler(told).start()
    assert told == ['heartbeat.start', 'view.load', 'server.start', 'periodic.start']


def test_a_scheduler_ends_its_requests_before_it_lets_go_of_the_rest(told):
    made = scheduler(told, close=lambda: told.append('close'), finished=lambda: 7)
    assert made.stop() == 7
    assert told == [
        'server.stop',
        'server.wait',
        'view.stop',
        'periodic.stop',
        'heartbeat.stop',
        'view.close',
        'close',
    ]


def test_a_scheduler_without_a_services_row_has_no_heartbeat(told):
    made = scheduler(told, heartbeat=None)
    made.start()
    made.stop()
    assert not any('heartbeat' in step for step in told)


def test_slow_request_is_waited_for_within_the_drain_time(told, caplog):
    server = SlowServer(told)
    scheduler(told, server=server, drain_s=0.01).stop()
    server.released.set()
    assert told[:3] == ['server.stop', 'view.stop', 'periodic.stop']
    assert 'Requests are still under way' in caplog.text


def test_reload_waits_for_requests_as_long_as_their_callers_do(told):
    server = SlowServer(told)
    threading.Timer(0.2, server.released.set).start()
    made = scheduler(told, server=server, drain_s=0.01, reload_s=20)
    made.stop(successor=Part(told, 'successor'))
    assert told[:3] == ['server.stop', 'server.wait', 'view.stop']


def test_a_report_shows_cells_hosts_and_requests(told):
    cells = [Cell('u1', 'cell1', '', '', False), Cell('u2', 'cell2', '', '', True)]
    view = SimpleNamespace(
        asked_at=lambda: {'u1': time.monotonic() - 5.0},
        cells=SimpleNamespace(all=lambda: cells, unavailable=lambda: cells[:1]),
        hosts=lambda candidates: ['h1', 'h2'],
    )
    server = SimpleNamespace(requests=SimpleNamespace(under_way=lambda: [1.26]))
    weighers = RAMWeigher(-1.5), RAMShareWeigher(0.0)
    profile = Profile((NumInstancesFilter(limit=5),), weighers)
    made = scheduler(told, view=view, server=server, profile=profile)
    found = made.state()
    assert found['hosts'] == 2
    assert found['filters'] == ['NumInstancesFilter']
    assert found['weighers'] == ['RAMWeigher=-1.5']
    assert found['requests under way'] == [1.3]
    assert found['cells']['u1'].pop('asked seconds ago') >= 5.0
    assert found['cells'] == {
        'u1': {'name': 'cell1', 'disabled': False, 'unavailable': True},
        'u2': {
            'name': 'cell2',
            'disabled': True,
            'unavailable': False,
            'asked seconds ago': 'never',
        },
    }


@cases(
    'manager_s, graceful_s, expected',
    ('defaults', 160, 180, 140),
    ('less than what is kept back', 15, 180, 0),
    ('bounded by graceful_shutdown_timeout', 160, 100, 70),
    ('no bound', 160, 0, 140),
    ('a bound of next to nothing', 160, 5, 0),
)
def test_how_long_requests_may_take_when_the_service_stops(
    manager_s, graceful_s, expected, caplog
):
    conf = make_conf()
    conf.set_override('manager_shutdown_timeout', manager_s)
    conf.set_override('graceful_shutdown_timeout', graceful_s)
    assert service.drain_s_of(conf) == expected
    # The start says it once, not each worker.
    assert not [each for each in caplog.records if each.name.startswith('novasched')]
    said = service.warning(conf)
    assert (said is None) == (not graceful_s or manager_s <= graceful_s)
    assert said is None or f'requests under way get {expected} s.' in said


@pytest.mark.parametrize('step', ['view.load', 'heartbeat.start', 'server.start'])
def test_failed_start_releases_everything(told, step):
    name, _, method = step.partition('.')
    problem = errors.StoreFailed('nova at db1', 'gone')
    failing = {name: Part(told, name, method, problem)}
    made = scheduler(told, close=lambda: told.append('close'), **failing)
    with pytest.raises(errors.StoreFailed):
        made.start()
    assert told[-4:] == [step, 'heartbeat.stop', 'view.close', 'close']


def test_the_host_is_the_machine_unless_it_is_named():
    conf = make_conf()
    assert service.host_of(conf)
    conf.set_override('host', 'named')
    assert service.host_of(conf) == 'named'
