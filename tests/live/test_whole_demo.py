# SPDX-License-Identifier: Apache-2.0
"""``novasched demo --hosts`` as a person runs it, on real servers."""

import json
import os

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


@pytest.mark.exhaustive(
    'test_flow.py boots and moves in a whole cloud; lab/tests/functional/test_demo.py '
    'has that a demo leaves nothing'
)
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
