# SPDX-License-Identifier: Apache-2.0
"""Health and metrics over real HTTP, at a port and at a unix socket."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import socket
import sys
import threading
import time

import pytest
import requests

from novasched import errors
from novasched.observability import host, serving, worker
from novasched.observability.catalogue import Recorder
from novasched.observability.health import Probe
from novasched.observability.host import HostService, Workers
from novasched.observability.serving import Endpoint, Response
from novasched.observability.settings import Address, Settings
from novasched.observability.worker import (
    SOCKET,
    InstrumentedService,
    Observer,
)
from novasched.rpc.faults import WireError
from novasched.runtime.clock import SystemClock
from tests.functional.conftest import Host, new_uuids
from tests.functional.endpoints import HERE, endpoint, get, hello
from tests.live.servers.process import completed

__all__ = ['endpoint']

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = Settings('ctl1', 'nova-scheduler', threads=1, patience_s=0.0)
ALWAYS = {'decision_store', 'outages', 'ready', 'requests'}
"""Checks that are shown before anything was asked."""


class Alive:
    """A life that does nothing."""

    def start(self): ...

    def stop(self, successor=None):
        return 0


class Stillborn(Alive):
    """A life that cannot start."""

    def start(self):
        raise errors.StoreFailed('nova at db1', 'gone')


@pytest.fixture(autouse=True)
def _patience(request, monkeypatch):
    """A busy machine may need longer, where nothing hangs."""
    if 'hangs' not in request.node.name:
        monkeypatch.setattr(host, 'DEADLINE_S', 20.0)


def observed(life, observer, *probes):
    """A life whose components are asked by these probes."""
    return InstrumentedService(life, observer, observer.instrumentation(), probes)


class TestLife:
    @pytest.fixture
    def observer(self, tmp_path):
        self.ended = []
        return Observer(
            SETTINGS, SystemClock(), str(tmp_path), Recorder(), self.ended.append
        )

    def test_a_life_is_shown_from_start_to_end(self, observer, tmp_path):
        life = observed(Alive(), observer)
        life.start()
        path = tmp_path / SOCKET.format(os.getpid())
        observer.shown.health.good('api_db')
        status, body = serving.ask(str(path), '/health', 20)
        assert status == 200
        assert set(json.loads(body)['checks']) == {'api_db', *ALWAYS}
        life.stop()
        assert self.ended == [os.getpid()]
        assert not path.exists()

    def test_a_life_that_takes_over_is_shown_in_the_place_of_the_old(
        self, observer, tmp_path
    ):
        old, new = (observed(Alive(), observer) for _ in range(2))
        old.start()
        observer.shown.health.good('api_db')
        new.start()
        assert set(observer.shown.health.checks()) == ALWAYS
        old.stop()
        path = tmp_path / SOCKET.format(os.getpid())
        assert serving.ask(str(path), '/gauges', 20)[0] == 200
        assert self.ended == []
        new.stop()
        assert self.ended == [os.getpid()]

    def test_a_life_that_starts_when_the_last_one_has_ended_is_shown(
        self, observer, tmp_path
    ):
        for _ in range(2):
            life = observed(Alive(), observer)
            life.start()
            path = tmp_path / SOCKET.format(os.getpid())
            assert serving.ask(str(path), '/health', 20)[0] == 200
            life.stop()
        assert self.ended == [os.getpid()] * 2

    def test_the_old_life_is_shown_until_the_new_one_serves(self, observer):
        class Loading(Alive):
            def start(self):
                self.shown = observer.shown.health.checks()

        old = observed(Alive(), observer)
        old.start()
        observer.shown.health.good('api_db')
        loading = Loading()
        new = observed(loading, observer)
        new.start()
        assert set(loading.shown) == {'api_db', *ALWAYS}
        assert loading.shown['ready'].status == 'pass'
        old.stop()
        new.stop()

    def test_a_life_is_ready_while_it_serves_and_can_be_reached(self, observer):
        def ready():
            found = observer.shown.health.checks()['ready']
            return found.output or found.status

        class Watched(Alive):
            def start(self):
                seen.append(ready())

            def stop(self, successor=None):
                seen.append(ready())
                return 7

        seen, problems = [], [None, 'the connection to the broker is lost']
        life = InstrumentedService(
            Watched(), observer, observer.instrumentation(), (), problems.pop
        )
        life.start()
        seen += [ready(), ready()]
        assert life.stop() == 7
        lost = 'the connection to the broker is lost'
        assert seen == ['starting', lost, 'pass', 'stopping']

    def test_components_are_asked_as_soon_as_a_life_serves(self, observer, monkeypatch):
        monkeypatch.setattr(worker, 'PROBE_INTERVAL_S', 60)
        asked = threading.Event()
        probe = Probe('placement', asked.set)
        life = observed(Alive(), observer, probe)
        life.start()
        assert asked.wait(20)
        life.stop()

    def test_a_life_that_does_not_start_is_not_shown(self, observer, tmp_path):
        life = observed(Stillborn(), observer)
        with pytest.raises(errors.StoreFailed):
            life.start()
        assert list(tmp_path.iterdir()) == []

    def test_a_worker_serves_even_if_it_cannot_be_seen(
        self, observer, tmp_path, caplog
    ):
        tmp_path.rmdir()
        life = observed(Alive(), observer)
        life.start()
        life.stop()
        assert 'Health and metrics of this worker are not shown' in caplog.text


def directory_of(shared):
    """Where the sockets of the workers stand."""
    return pathlib.Path(shared.workers.directory)


class Shown:
    """A scheduler of a cloud that serves, and the addresses of its host."""

    def __init__(self, cloud, path, probes, stack):
        settings = dataclasses.replace(
            SETTINGS, health=(Address(HERE, 0), Address(path=path))
        )
        shared = stack.enter_context(host.shared(settings, 1, SystemClock()))
        observer, instrumentation = shared.observer, shared.observer.instrumentation()
        self.requests = instrumentation.requests
        scheduler = cloud.compose(instrumentation=instrumentation)
        life = InstrumentedService(scheduler, observer, instrumentation, probes)
        self.service = shared
        stack.callback(self.service.stop)  # which waits for the end of the life
        life.start()
        stack.callback(life.stop)
        self.service.start()
        self.path = path
        self.directory = directory_of(shared)

    def health(self):
        """Status and body, the same at both addresses."""
        url = f'http://{HERE}:{self.service.ports[0]}/health'
        status, headers, text = get(url)
        assert headers['Content-Type'] == 'application/health+json'
        return status, json.loads(text)

    def statuses(self):
        return {name: c['status'] for name, c in self.health()[1]['checks'].items()}


@pytest.fixture
def show(cloud, tmp_path):
    """Show a cloud of one host: `made, shown = show(*probes)`."""
    with contextlib.ExitStack() as stack:

        def make(*probes):
            made = cloud([Host('h1')])
            return made, Shown(made, str(tmp_path / 'h.sock'), probes, stack)

        yield make


class Starting:
    """Workers that have not started, are there, and go, as the test says."""

    def __init__(self, tmp_path):
        self._directory = tmp_path
        settings = dataclasses.replace(SETTINGS, health=(Address(HERE, 0),))
        workers = Workers(str(tmp_path), 1)
        self.service = HostService(settings, workers, SystemClock())
        self.service.start()
        self.url = f'http://{HERE}:{self.service.ports[0]}'

    def worker(self, ready):
        """Make a worker that is ready or says why not; return what ends it."""
        checks = {'ready': {'status': 'warn', 'time': 'now', 'output': ready}}
        if ready == 'pass':
            checks = {'ready': {'status': 'pass', 'time': 'now'}}
        body = json.dumps({'checks': checks, 'serviceId': 'an-id'}).encode()
        path = str(self._directory / '1.sock')
        routes = {'/health': lambda headers: Response(200, 'text/plain', body)}
        made = Endpoint(Address(path=path), routes)
        made.start()
        return made.stop

    def shown(self):
        """Status, serviceId, whether it may be kept, and what /ready says."""
        _, headers, text = get(f'{self.url}/health')
        body = json.loads(text)
        code, _, said = get(f'{self.url}/ready')
        kept = headers['Cache-Control'] != 'no-cache'
        reason = json.loads(said)['reason']
        return body['status'], body['serviceId'], kept, code, reason


class TestReady:
    @pytest.fixture
    def starting(self, tmp_path):
        with contextlib.ExitStack() as stack:
            made = Starting(tmp_path)
            stack.callback(made.service.stop)
            yield made

    def test_the_service_passes_and_is_ready_only_while_it_serves(self, starting):
        assert starting.shown() == ('warn', None, False, 503, 'no worker is there')
        end = starting.worker('starting')
        expected = ('warn', 'an-id', False, 503, 'worker 1: starting')
        assert starting.shown() == expected
        end()
        end = starting.worker('pass')
        assert starting.shown() == ('pass', 'an-id', True, 200, '')
        end()
        assert starting.shown() == ('fail', 'an-id', False, 503, 'no worker is there')

    def test_a_service_that_stops_says_so_until_its_workers_have_ended(self, starting):
        end = starting.worker('pass')
        stopping = threading.Thread(target=starting.service.stop)
        stopping.start()
        deadline = time.monotonic() + 20
        while starting.shown()[3] == 200:
            assert time.monotonic() < deadline
        assert starting.shown() == ('warn', 'an-id', False, 503, 'stopping')
        assert stopping.is_alive()
        end()
        stopping.join(20)
        assert not stopping.is_alive()
        with pytest.raises(requests.ConnectionError):
            get(f'{starting.url}/ready')


class TestHealth:
    def test_requests_bring_news_of_what_they_need(self, show):
        made, shown = show()
        assert 'placement' not in shown.statuses()
        assert made.call(new_uuids())
        status, body = shown.health()
        cells = {f'cell_db:{uuid}' for uuid in made.cell_uuids.values()}
        expected = {'api_db', 'placement', 'cluster_view', 'picks', 'workers', *ALWAYS}
        assert set(body['checks']) == expected | cells
        assert {c['status'] for c in body['checks'].values()} == {'pass'}
        assert (status, body['status']) == (200, 'pass')
        assert (body['description'], body['notes']) == (
            'nova-scheduler',
            {'host': 'ctl1'},
        )

    def test_a_unix_socket_says_the_same(self, show):
        _, shown = show()
        status, body = serving.ask(shown.path, '/health', 20)
        assert status == 200
        assert json.loads(body)['checks'].keys() == shown.statuses().keys()

    def test_placement_that_is_away_warns_and_then_fails(self, show):
        made, shown = show()

        def away(request, send):
            answer = send()
            answer.status_code = 503
            return answer

        for expected in (200, 503):
            made.faults.on('GET', 1, away)
            made.faults.on('GET', 2, away)  # a query is sent again once
            with pytest.raises(WireError):
                made.call(new_uuids())
            status, body = shown.health()
            assert status == expected
            assert 'HTTP 503' in body['checks']['placement']['output']
        assert made.call(new_uuids())
        assert shown.health()[0] == 200

    def test_a_worker_that_hangs_fails_within_the_deadline(self, show):
        _, shown = show()
        with socket.socket(socket.AF_UNIX) as hung:
            hung.bind(str(shown.directory / '1.sock'))
            hung.listen()
            started = time.monotonic()
            status, body = shown.health()
            assert time.monotonic() - started < 10
        assert status == 503
        said = body['checks']['workers']['output']
        assert said == 'worker 1 does not answer within 2 s'

    def test_a_worker_that_died_is_forgotten(self, show):
        _, shown = show()
        left = shown.directory / '1.sock'
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        assert shown.health()[0] == 200
        assert not left.exists()

    def test_a_worker_that_talks_nonsense_fails(self, endpoint, tmp_path):
        endpoint({'/health': hello}, '7.sock')
        (report,) = Workers(str(tmp_path), 1).reports()
        assert report.problem.startswith('worker 7 cannot be asked: ')

    def test_the_directory_goes_with_the_service(self, show):
        settings = dataclasses.replace(SETTINGS, health=(Address(HERE, 0),))
        with host.shared(settings, 1, SystemClock()) as shared:
            directory = directory_of(shared)
            assert directory.stat().st_mode & 0o777 == 0o700
        assert not directory.exists()


@pytest.fixture(scope='module')
def seen():
    """The samples that a client sees, before and after two workers end."""
    run = completed(
        [sys.executable, '-m', 'tests.functional.observed_workers'], cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    return [
        dict(re.findall(r'^(\w+(?:\{.*?\})?) (\S+)$', text, re.MULTILINE))
        for text in json.loads(run.stdout)
    ]


class TestMetrics:
    def test_the_values_of_all_workers_are_added_up(self, seen):
        before, after = seen
        name = 'novasched_schedule_attempts_total{result="scheduled"}'
        assert (before[name], after[name]) == ('3.0', '4.0')
        took = 'novasched_scheduling_attempt_duration_seconds_count{result="scheduled"}'
        assert before[took] == '3.0'

    def test_requests_in_flight_end_with_their_worker(self, seen):
        before, after = seen
        assert before['novasched_requests_in_flight'] == '2.0'
        assert after.get('novasched_requests_in_flight', '0.0') == '0.0'

    def test_age_of_a_cell_comes_from_the_oldest_view(self, seen):
        before, after = seen
        age = float(before['novasched_cell_state_age_seconds{cell="cell1"}'])
        assert 2 <= age < 60
        assert before['novasched_cell_left_out{cell="cell1"}'] == '0.0'
        assert 'novasched_cell_state_age_seconds{cell="cell1"}' not in after
