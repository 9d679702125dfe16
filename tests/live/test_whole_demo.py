# SPDX-License-Identifier: Apache-2.0
"""``novasched demo --hosts`` as a person runs it, on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import threading

import pytest
import sqlalchemy as sa

from tests.live.daemon import own_program
from tests.live.servers.process import completed

TIMEOUT_S = 300


@pytest.fixture
def temporary(tmp_path):
    """The directory for temporary files; it must be empty in the end."""
    directory = tmp_path / 'tmp'
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []


def command(*words):
    return [own_program('novasched'), 'demo', *words]


@pytest.fixture
def demo(temporary):
    def run(*words):
        return completed(
            command(*words),
            env={**os.environ, 'TMPDIR': str(temporary)},
            timeout_s=TIMEOUT_S,
        )

    return run


def test_a_whole_cloud_on_servers_that_are_there_leaves_nothing(
    demo, rabbitmq, mariadb, placement
):
    broker = rabbitmq.create_vhost()
    database = mariadb.create_database('whole_demo')
    before = placement.get('/resource_providers')
    run = demo(
        '-f', 'json', '--hosts', '8', '--broker', broker, '--database', database,
        '--placement', placement.url,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result['statuses'] == {'ACTIVE': 8, 'ERROR': 1}
    assert result['hosts_agree'] == 8
    assert result['group_hosts'] == 4
    assert result['moved']['status'] == 'confirmed'
    assert result['left_in_placement'] == 0
    engine = sa.create_engine(database)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()
    assert placement.get('/resource_providers') == before
    for queue in ('scheduler', 'conductor', 'compute', 'compute.az1-host-001'):
        assert rabbitmq.queue(broker, queue) is None


@pytest.mark.exhaustive('the same on a database and a placement of its own')
def test_a_whole_cloud_on_servers_of_its_own(demo, rabbitmq):
    run = demo('--hosts', '4', '--broker', rabbitmq.create_vhost())
    assert run.returncode == 0, run.stderr
    assert '5 servers on 4 hosts: 4 ACTIVE, 1 ERROR' in run.stdout
    assert '0 allocations were left' in run.stdout


def test_a_virtual_host_that_is_in_use_is_refused(demo, rabbitmq):
    broker = rabbitmq.create_vhost()
    with rabbitmq.connect(broker.rpartition('/')[2]) as connection:
        channel = connection.channel()
        channel.queue_declare('conductor')
        run = demo('--hosts', '2', '--broker', broker)
        channel.queue_delete('conductor')
    assert (run.returncode, run.stdout) == (1, '')
    assert 'there is a queue conductor' in run.stderr
    assert run.stderr.count('\n') == 1


@pytest.mark.exhaustive('a demo in one process is stopped in the first tier')
def test_a_whole_cloud_that_is_stopped_cleans_up(temporary, rabbitmq):
    broker = rabbitmq.create_vhost()
    process = subprocess.Popen(
        command('--hosts', '2', '--broker', broker),
        env={**os.environ, 'TMPDIR': str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    for line in process.stderr:
        if line.startswith('starting scheduler'):
            process.terminate()
    process.communicate()
    watchdog.cancel()
    assert process.returncode == 130
    assert rabbitmq.queue(broker, 'compute') is None
