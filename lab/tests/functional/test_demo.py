# SPDX-License-Identifier: Apache-2.0
"""``novasched demo`` as a person runs it: in a process of its own."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from novasched.inspection.questions.explain import Explanation
from novasched.inspection.texts import funnel
from novasched.runtime.typed_json import of_json
from novasched_lab.local import walkthrough
from novasched_lab.local.databases import GivenServers
from tests.live.servers.process import completed
from tests.support.suite.waiting import eventually
from tests.support.tables.cases import cases

NOVASCHED = pathlib.Path(sys.executable).with_name('novasched')
SELECTED = 'sh11-compute-s3-10e5e12e26'
RANKED = [f'sh11-compute-s3-10e5e12{number}' for number in ('e26', 'e28', 'e25', 'e29')]
TIMEOUT_S = 120


@pytest.fixture
def temporary(tmp_path):
    """The directory for temporary files; it must be empty in the end."""
    directory = tmp_path / 'tmp'
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []


@pytest.fixture
def novasched(temporary):
    def run(*args, **env):
        return completed(
            [NOVASCHED, *args],
            env={**os.environ, 'TMPDIR': str(temporary), 'COLUMNS': '80', **env},
            timeout_s=TIMEOUT_S,
        )

    return run


def test_the_demo_tells_a_person_what_happened(novasched):
    run = novasched('demo')
    assert run.returncode == 0, run.stderr
    assert '16 -> 11 -> 4' in run.stdout
    assert f'SCHEDULED on {SELECTED}' in run.stdout
    assert f'{SELECTED}  1.0000    1.0000  <- selected' in run.stdout
    assert f'Holds   MEMORY_MB 1024, VCPU 1 on {SELECTED}' in run.stdout
    assert '\033' not in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    progress = run.stderr.splitlines()
    assert [line for line in progress if not line.endswith(' ...')] == []


def test_the_demo_as_json_on_a_database_that_is_empty_again_in_the_end(
    novasched, tmp_path
):
    path = tmp_path / 'own.sqlite'
    run = novasched('demo', '-f', 'json', '--database', f'sqlite:///{path}')
    assert run.returncode == 0, run.stderr
    made = json.loads(run.stdout)
    assert funnel.summary(of_json(Explanation, made).stages) == '16 -> 11 -> 4'
    assert made['picked'] == SELECTED
    assert [row['host'] for row in made['top']] == RANKED
    (server,) = made['servers']
    assert server['alternates'] == RANKED[1:3]
    assert made['allocations'] == {SELECTED: {'MEMORY_MB': 1024, 'VCPU': 1}}
    for stage in made['stages']:
        counts = [reason['count'] for reason in stage['reasons']]
        assert sum(counts) == stage['in'] - stage['out']
        assert all(reason['text'] for reason in stage['reasons'])
    connection = sqlite3.connect(path)
    assert connection.execute('SELECT name FROM sqlite_master').fetchall() == []
    connection.close()


def test_the_nodes_of_the_hosts_are_tried_one_by_one(novasched):
    run = novasched('demo', '--numa')
    assert run.returncode == 0, run.stderr
    assert 'As the hosts are: 4 of 4 hosts fit' in run.stdout
    assert f'  {SELECTED}: cell 1\n' in run.stdout
    taken = 'takes the instance'
    _, as_they_are, used_up = run.stdout.split('\n\n')[:3]
    assert as_they_are.count(taken) == 4
    assert '  0 of 1 pages of 1 GiB free\n' in used_up
    assert f'  {SELECTED}: cell 0\n' in used_up
    assert used_up.count(taken) == 3
    assert max(map(len, run.stdout.splitlines())) <= 80


def test_a_database_with_tables_is_refused_and_left_alone(novasched, tmp_path):
    path = tmp_path / 'in-use.sqlite'
    connection = sqlite3.connect(path)
    connection.execute('CREATE TABLE services (id INTEGER)')
    connection.close()
    run = novasched('demo', '--database', f'sqlite:///{path}')
    assert run.returncode == 1
    assert 'has tables, such as services' in run.stderr
    connection = sqlite3.connect(path)
    assert connection.execute('SELECT * FROM services').fetchall() == []
    connection.close()


@cases(
    'option, url, problem',
    ('no broker', '--broker', 'rabbit://user:secret@127.0.0.1:1/', 'no broker answers'),
    (
        'no database',
        '--database',
        'mysql+pymysql://user:secret@127.0.0.1:1/x',
        'could not be',
    ),
    ('no placement', '--placement', 'http://127.0.0.1:1/', 'Check that placement runs'),
    more=(
        ('no broker by its URL', '--broker', 'nonsense', 'No scheme'),
        ('no database by its URL', '--database', 'nonsense', 'not a database URL'),
    ),
)
def test_a_server_that_cannot_be_used_is_named(novasched, option, url, problem):
    run = novasched('demo', option, url)
    assert (run.returncode, run.stdout) == (1, '')
    *progress, line = run.stderr.splitlines()
    assert problem in line
    assert 'secret' not in line
    # On a slow machine the demo says what it is at.
    assert [said for said in progress if not said.endswith(' ...')] == []


def test_a_demo_that_is_stopped_cleans_up(temporary):
    process = subprocess.Popen(
        [NOVASCHED, 'demo'],
        env={**os.environ, 'TMPDIR': str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + TIMEOUT_S
    # A file that is there for an instant is Python's own: it tries the directory.
    while not any(each.is_dir() for each in temporary.iterdir()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130


def test_no_thread_outlives_the_cloud(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(temporary))
    before = set(threading.enumerate())
    made = walkthrough.run(GivenServers(), lambda text: None)
    assert made.record.body.servers[0].host == SELECTED
    eventually(lambda: set(threading.enumerate()) <= before)


def test_help_does_not_wait_for_what_only_the_demo_needs():
    code = 'import novasched.cmd.main, sys; print(*sys.modules)'
    run = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True
    )
    heavy = {'sqlalchemy', 'oslo_messaging', 'keystoneauth1', 'placement', 'numpy'}
    assert heavy.isdisjoint(run.stdout.split())


@cases(
    'args, expected',
    ('the version', ['--version'], 'novasched 1.0.0rc1'),
    ('the options', ['demo', '--help'], '--placement URL'),
    ('a completion script', ['complete'], "cmds_demo='"),
    ('help without a command', [], 'demo '),
    more=[('the commands', ['--help'], 'demo ')],
)
def test_help_and_version_are_printed(novasched, args, expected):
    run = novasched(*args)
    assert run.returncode == 0, run.stderr
    assert expected in run.stdout
