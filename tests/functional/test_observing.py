# SPDX-License-Identifier: Apache-2.0
"""Health and metrics over real HTTP, at a port and at a unix socket."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest
import requests
from oslo_config import cfg

from novasched import errors, observed, opts
from novasched.observing import addresses, serving, sharing
from novasched.observing.addresses import Address, Wanted
from novasched.observing.host import Workers
from novasched.observing.requests import NoNumbers
from novasched.observing.serving import Answer, Endpoint
from novasched.observing.worker import SOCKET, ObservedLife, Observer, Settings
from novasched.rpc.faults import WireError
from novasched.service import SystemClock
from tests.functional.conftest import Host, new_uuids

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = Settings('ctl1', 'nova-scheduler', threads=1, patience_s=0.0)
HERE = '127.0.0.1'


def get(url):
    """Status, headers and text of an answer."""
    answer = requests.get(url, timeout=20)
    return answer.status_code, answer.headers, answer.text


@pytest.fixture
def endpoint(tmp_path):
    """Serve routes at a port, or at a unix socket of this name."""
    with contextlib.ExitStack() as stack:

        def start(routes, path=''):
            address = Address(path=str(tmp_path / path)) if path else Address(HERE, 0)
            made = Endpoint(address, routes)
            made.start()
            stack.callback(made.stop)
            return made

        yield start


def hello(headers):
    return Answer(200, 'text/plain', b'hello', {'X-Said': headers.get('x-say', '')})


class TestServing:
    def test_a_port_answers(self, endpoint):
        url = f'http://{HERE}:{endpoint({"/hello": hello}).port}'
        answer = requests.get(f'{url}/hello?a=b', headers={'X-Say': 'hi'}, timeout=20)
        assert (answer.status_code, answer.text) == (200, 'hello')
        assert answer.headers['X-Said'] == 'hi'
        assert get(f'{url}/other')[0] == 404
        head = requests.head(f'{url}/hello', timeout=20)
        assert (head.headers['Content-Length'], head.text) == ('5', '')
        assert requests.post(f'{url}/hello', timeout=20).status_code == 501

    def test_a_unix_socket_answers_and_goes_with_its_server(self, endpoint, tmp_path):
        made = endpoint({'/hello': hello}, 'h.sock')
        path = tmp_path / 'h.sock'
        assert serving.ask(str(path), '/hello', 20) == (200, b'hello')
        made.stop()
        assert not path.exists()
        with pytest.raises(FileNotFoundError):
            serving.ask(str(path), '/hello', 20)

    def test_what_a_dead_process_left_is_replaced(self, endpoint, tmp_path):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / 'h.sock'))
        endpoint({'/hello': hello}, 'h.sock')
        assert serving.ask(str(tmp_path / 'h.sock'), '/hello', 20)[0] == 200

    def test_a_socket_in_use_and_a_file_are_left_alone(self, endpoint, tmp_path):
        endpoint({'/hello': hello}, 'h.sock')
        (tmp_path / 'file').write_text('mine')
        for name in ('h.sock', 'file'):
            with pytest.raises(OSError, match=r'in use|exists'):
                endpoint({}, name)
        assert (tmp_path / 'file').read_text() == 'mine'
        assert serving.ask(str(tmp_path / 'h.sock'), '/hello', 20)[0] == 200

    def test_a_route_that_fails_is_logged_and_the_others_serve(self, endpoint, caplog):
        def broken(headers):
            raise ZeroDivisionError

        url = f'http://{HERE}:{endpoint({"/broken": broken, "/hello": hello}).port}'
        assert get(f'{url}/broken')[0] == 500
        assert '/broken failed' in caplog.text
        assert get(f'{url}/hello')[0] == 200

    def test_a_client_that_says_nothing_holds_up_no_other(self, endpoint):
        port = endpoint({'/hello': hello}).port
        with socket.create_connection((HERE, port)):
            assert get(f'http://{HERE}:{port}/hello')[0] == 200


class TestAddresses:
    @staticmethod
    def conf(**uris):
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('uri', uris.get('health', ''), 'healthcheck')
        conf.set_override('metrics_uri', uris.get('metrics', ''), 'novasched')
        return conf

    def test_addresses_that_can_be_used_are_left_free(self, tmp_path):
        uri = f'tcp://{HERE}:0,unix://{tmp_path}/h.sock'
        addresses.check(self.conf(health=uri, metrics=uri))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ('kind', 'option'),
        [('health', '[healthcheck] uri'), ('metrics', '[novasched] metrics_uri')],
    )
    def test_an_address_in_use_is_named_with_its_option(self, endpoint, kind, option):
        uri = f'tcp://{HERE}:{endpoint({}).port}'
        with pytest.raises(errors.OptionError) as raised:
            addresses.check(self.conf(**{kind: uri}))
        assert f'{option}: {uri}: Address already in use' in str(raised.value)

    def test_without_addresses_nothing_is_made(self):
        with observed.sharing(self.conf(), 2) as shared:
            assert shared.beside == ()


class Alive:
    """A life that does nothing."""

    def start(self): ...

    stop = start


class Stillborn(Alive):
    """A life that cannot start."""

    def start(self):
        raise errors.StoreFailed('nova at db1', 'gone')


class TestLife:
    @pytest.fixture
    def observer(self, tmp_path):
        self.ended = []
        return Observer(
            SETTINGS, SystemClock(), str(tmp_path), NoNumbers(), self.ended.append
        )

    def test_a_life_is_shown_from_start_to_end(self, observer, tmp_path):
        life = ObservedLife(Alive(), observer, observer.doors(), ())
        life.start()
        path = tmp_path / SOCKET.format(os.getpid())
        observer.health.good('api_db')
        status, body = serving.ask(str(path), '/health', 20)
        assert status == 200
        assert set(json.loads(body)['checks']) == {'api_db', 'requests'}
        life.stop()
        assert self.ended == [os.getpid()]
        assert not path.exists()

    def test_a_life_that_takes_over_is_shown_in_the_place_of_the_old(
        self, observer, tmp_path
    ):
        old, new = (
            ObservedLife(Alive(), observer, observer.doors(), ()) for _ in range(2)
        )
        old.start()
        observer.health.good('api_db')
        new.start()
        assert set(observer.health.checks()) == {'requests'}
        old.stop()
        path = tmp_path / SOCKET.format(os.getpid())
        assert serving.ask(str(path), '/gauges', 20)[0] == 200
        assert self.ended == []
        new.stop()
        assert self.ended == [os.getpid()]

    def test_the_old_life_is_shown_until_the_new_one_serves(self, observer):
        class Loading(Alive):
            def start(self):
                self.shown = observer.health.checks()

        old = ObservedLife(Alive(), observer, observer.doors(), ())
        old.start()
        observer.health.good('api_db')
        loading = Loading()
        new = ObservedLife(loading, observer, observer.doors(), ())
        new.start()
        assert set(loading.shown) == {'api_db', 'requests'}
        old.stop()
        new.stop()

    def test_a_life_that_does_not_start_is_not_shown(self, observer, tmp_path):
        life = ObservedLife(Stillborn(), observer, observer.doors(), ())
        with pytest.raises(errors.StoreFailed):
            life.start()
        assert list(tmp_path.iterdir()) == []

    def test_a_worker_serves_even_if_it_cannot_be_seen(
        self, observer, tmp_path, caplog
    ):
        tmp_path.rmdir()
        life = ObservedLife(Alive(), observer, observer.doors(), ())
        life.start()
        life.stop()
        assert 'Health and metrics of this worker are not shown' in caplog.text


class Shown:
    """A scheduler of a cloud that serves, and the addresses of its host."""

    def __init__(self, cloud, path, probes, stack):
        wanted = Wanted(health=(Address(HERE, 0), Address(path=path)))
        shared = stack.enter_context(sharing.shared(wanted, 1, SETTINGS, SystemClock()))
        observer, doors = shared.observer, shared.observer.doors()
        self.requests = doors.requests
        scheduler = cloud.compose(
            doors=doors, on_decision=doors.decisions(cloud.decisions.append)
        )
        life = ObservedLife(scheduler, observer, doors, probes)
        life.start()
        stack.callback(life.stop)
        (self.service,) = shared.beside
        self.service.start()
        stack.callback(self.service.stop)
        self.path = path
        self.directory = pathlib.Path(shared.directory)

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


class TestHealth:
    def test_requests_bring_news_of_what_they_need(self, show):
        made, shown = show()
        assert 'placement' not in shown.statuses()
        assert made.call(new_uuids())
        status, body = shown.health()
        cells = {f'cell_db:{uuid}' for uuid in made.cell_uuids.values()}
        expected = {'api_db', 'placement', 'cluster_view', 'requests', 'workers'}
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

    def test_requests_that_hold_all_threads_fail(self, show):
        _, shown = show()
        with shown.requests.attempt():
            status, body = shown.health()
        assert status == 503
        assert '1 of 1 threads' in body['checks']['requests']['output']

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
        (told,) = Workers(str(tmp_path), 1).told()
        assert told.problem.startswith('worker 7 cannot be asked: ')

    def test_the_directory_goes_with_the_service(self, show):
        with sharing.shared(Wanted(), 1, SETTINGS, SystemClock()) as shared:
            directory = pathlib.Path(shared.directory)
            assert directory.stat().st_mode & 0o777 == 0o700
        assert not directory.exists()


@pytest.fixture(scope='module')
def seen():
    """The samples that a client sees, before and after two workers end."""
    run = subprocess.run(
        [sys.executable, '-m', 'tests.functional.observed_workers'],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return [
        dict(re.findall(r'^(\w+(?:\{.*?\})?) (\S+)$', text, re.MULTILINE))
        for text in json.loads(run.stdout)
    ]


class TestMetrics:
    def test_the_values_of_all_workers_are_added_up(self, seen):
        before, after = seen
        name = 'scheduler_schedule_attempts_total{result="scheduled"}'
        assert (before[name], after[name]) == ('3.0', '4.0')
        took = 'scheduler_scheduling_attempt_duration_seconds_count{result="scheduled"}'
        assert before[took] == '3.0'

    def test_what_is_under_way_is_forgotten_with_the_worker(self, seen):
        before, after = seen
        assert before['scheduler_requests_in_flight'] == '2.0'
        assert after.get('scheduler_requests_in_flight', '0.0') == '0.0'

    def test_the_age_of_a_cell_is_that_of_the_oldest_view(self, seen):
        before, after = seen
        age = float(before['scheduler_cell_state_age_seconds{cell="cell1"}'])
        assert 2 <= age < 60
        assert before['scheduler_cell_left_out{cell="cell1"}'] == '0.0'
        assert 'scheduler_cell_state_age_seconds{cell="cell1"}' not in after
