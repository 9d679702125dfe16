# SPDX-License-Identifier: Apache-2.0
"""A console that is killed, whose databases are away, and that many ask at once."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched.observability.settings import Address
from novasched_lab.local.placement import EmbeddedPlacement
from novasched_lab.local.placement import serving as placement_serving
from tests.browser import clouds
from tests.browser.inventory import Shape
from tests.faults import scheduling
from tests.functional.console_clients import ask
from tests.live.daemon import own_program
from tests.live.servers.process import Process, wait_until

START_S = 60
STOP_S = 60
"""gunicorn gives its workers half a minute."""
RETRY_S = 0.05
CLIENTS = 100
HOST = 'cmp-001'
READ = ('/hosts', '/capacity', '/api/v1/hosts', '/hosts/cmp-001')
"""Pages that are made of what the databases have."""
PLAN = '/plan?flavor=vcpus%3D1%2Cram%3D512%2Cdisk%3D1'
ASKED = (*READ, '/', '/decisions', PLAN, '/api/v1/capacity?by=host')
SLOWEST_MS = 10_000
"""A request that took longer was held up, whatever the machine does meanwhile."""


class Consoles:
    """Consoles of a cloud that are started one after another, at one socket."""

    def __init__(self, directory, stack):
        self.directory = directory
        self._conf = directory / 'nova.conf'
        self._stack = stack
        self.address = Address(path=str(directory / 'console.sock'))

    def start(self):
        """Start one; wait until it says where it is."""
        number = len(list(self.directory.glob('*.log')))
        listen = ['--listen', str(self.address)]
        command = [own_program('novasched-console'), '--config-file', self._conf]
        return self._started([*command, *listen], f'console{number}.log')

    def start_in_gunicorn(self):
        """Start it as an application of gunicorn; wait until that listens."""
        home = self.directory / 'home' / '.nova'
        home.mkdir(parents=True)
        shutil.copy(self._conf, home)
        words = ['--threads', '8', '--bind', f'unix:{self.address.path}']
        command = [own_program('gunicorn'), *words, 'novasched.console:application']
        env = {**os.environ, 'HOME': str(home.parent)}
        # It imports from where it runs; a scheduler has a directory novasched there.
        return self._started(command, 'gunicorn.log', env=env, cwd=home)

    def _started(self, command, log, **options):
        made = Process(command, self.directory / log, **options)
        self._stack.callback(made.stop)
        wait_until(lambda: self.address.path in made.log, START_S, 'a console', made)
        return made

    def answer(self, path, **headers):
        return ask(self.address, path, **headers)

    def is_shown(self):
        answer = self.answer('/hosts')
        return answer.status == 200 and f'/hosts/{HOST}' in answer.text

    def says_what_is_left_out(self):
        answer = self.answer('/hosts')
        return answer.status == 200 and 'cell1 does not answer' in answer.text


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    """A cloud on files, with placement beside it; its directory."""
    directory = tmp_path_factory.mktemp('console')
    with EmbeddedPlacement(directory / 'placement.sqlite') as adapter:
        for names in ('/resource_classes', '/traits'):
            adapter.get(names, microversion='1.36')
    conf = clouds.made(directory, Shape(decisions=0))
    with placement_serving(None, directory) as url:
        with conf.open('a') as file:
            file.write(clouds.PLACEMENT.format(endpoint=url))
        yield directory


@pytest.fixture
def consoles(cloud):
    with contextlib.ExitStack() as stack:
        yield Consoles(cloud, stack)


def test_a_console_that_is_killed_leaves_all_to_the_next(consoles):
    first = consoles.start()
    first.send(signal.SIGUSR2)  # it makes a report, and goes on
    wait_until(lambda: 'Guru Meditation' in first.log, START_S, 'a report', first)
    wait_until(consoles.is_shown, START_S, 'the hosts', first)
    stopped = threading.Event()
    seen = Counter()

    def look():
        while not stopped.is_set():
            try:
                answer = consoles.answer('/hosts')
                is_late = 'Retry-After' in answer.headers  # on a busy machine
                seen['late' if is_late else answer.status] += 1
            except (OSError, http.client.HTTPException):
                seen['nobody'] += 1
                stopped.wait(RETRY_S)

    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(look) for _ in range(4)]
        wait_until(lambda: seen[200] > 8, START_S, 'clients that look', first)
        first.kill()
        wait_until(lambda: seen['nobody'], START_S, 'clients that are cut off')
        known = seen[200]
        second = consoles.start()
        wait_until(lambda: seen[200] > known + 8, START_S, 'the next', second)
        stopped.set()
    for each in asking:
        each.result()
    assert set(seen) - {'late'} == {200, 'nobody'}
    second.send(signal.SIGTERM)
    assert second.wait(START_S) == 0
    assert not (consoles.directory / 'console.sock').exists()


def test_clients_at_once_leave_the_scheduler_at_work(consoles):
    console = consoles.start()
    wait_until(consoles.is_shown, START_S, 'the hosts', console)
    together = threading.Barrier(CLIENTS)

    def look(number):
        together.wait(START_S)
        return consoles.answer(ASKED[number % len(ASKED)])

    conf = consoles.directory / 'nova.conf'
    (url,) = re.findall('^endpoint = (.*)$', conf.read_text(), re.MULTILINE)
    with scheduling.running(conf, url) as done, ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(look, range(CLIENTS)))
    assert done['asked'] == done['answered'] > 0
    assert done['slowest_ms'] < SLOWEST_MS
    assert len(answers) == CLIENTS
    for answer in answers:
        assert answer.status in (200, 503)
        if answer.status == 503:
            assert answer.text.strip()
            assert int(answer.headers['Retry-After']) > 0
    assert sum(answer.status == 200 for answer in answers) >= 8
    wait_until(consoles.is_shown, START_S, 'the hosts', console)
    assert console.poll() is None


def test_databases_away_at_the_start_are_named_until_they_are_back(consoles):
    place, away = consoles.directory / 'api', consoles.directory / 'api.away'
    place.rename(away)
    place.mkdir()
    console = consoles.start()
    for path in READ:
        answer = consoles.answer(path)
        assert answer.status == 503
        assert 'database' in answer.text
        assert 'Traceback' not in answer.text
    assert consoles.answer('/static/console.css').status == 200
    place.rmdir()
    away.rename(place)
    wait_until(consoles.is_shown, START_S, 'the hosts', console)


@pytest.mark.exhaustive(
    'they are away at the start above; they are lost meanwhile, and come back, in '
    'tests/functional/test_console_cloud.py'
)
def test_databases_lost_meanwhile_are_named_until_they_are_back(consoles):
    console = consoles.start()
    wait_until(consoles.is_shown, START_S, 'the hosts', console)
    content = {
        path: path.read_bytes()
        for name in ('api', 'cell1', 'cell2')
        for path in consoles.directory.glob(name)
    }
    assert len(content) == 3
    for path in content:
        path.write_bytes(b'')
    wait_until(consoles.says_what_is_left_out, START_S, 'what is left out', console)
    answer = consoles.answer(f'/hosts/{HOST}')
    assert answer.status == 503
    assert 'no such table' in answer.text
    for path in ('/', '/decisions', '/health'):
        assert consoles.answer(path).status == 200
    for path, kept in content.items():
        path.write_bytes(kept)
    wait_until(consoles.is_shown, START_S, 'the hosts', console)
    assert consoles.answer(f'/hosts/{HOST}').status == 200


def test_console_under_gunicorn_serves_and_ends_on_sigterm(consoles):
    gunicorn = consoles.start_in_gunicorn()
    wait_until(consoles.is_shown, START_S, 'the hosts', gunicorn)
    assert consoles.answer('/hosts', Host='elsewhere.test').status == 403
    gunicorn.send(signal.SIGTERM)
    assert gunicorn.wait(STOP_S) == 0
