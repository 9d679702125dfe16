# SPDX-License-Identifier: Apache-2.0
"""The cloud of a release, which NOVASCHED_RELEASE names by its environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from novasched.releases import NEWEST, named
from tests.live.conftest import (  # noqa: F401  fixtures
    _broker_and_database,
    keystone,
    mariadb,
    rabbitmq,
    scratch,
    servers,
)
from tests.matrix.release_cloud import (
    NAME,
    Environment,
    ReleaseCloud,
    ReleasePlacement,
    at_work,
    opened,
)

ENVIRONMENT = os.environ.get('NOVASCHED_RELEASE', '')
OUTCOMES = os.environ.get('NOVASCHED_OUTCOMES', '')

FIRST = {
    'test_1_it_starts_where_computes_are',
    'test_2_boots_are_served',
    'test_3_a_full_cloud_says_so',
    'test_7_its_own_scheduler_takes_the_row_back',
    'test_a_resize_is_reverted_and_confirmed',
}
"""What `tools/test --all` runs with the oldest release; tools/matrix runs all."""
ASK_THE_PEER = ('test_decisions.py', 'test_protocol.py', 'test_queues.py')

collect_ignore_glob = [] if ENVIRONMENT else ['test_*.py']
if not os.environ.get('NOVASCHED_OLDER'):
    collect_ignore_glob.append('test_older_*.py')
if Path(os.environ.get('NOVASCHED_PEER', '')) != Path(ENVIRONMENT).absolute():
    collect_ignore_glob += ASK_THE_PEER

_outcomes = {}


def pytest_collection_modifyitems(items):
    """Leave to tools/matrix what is not FIRST; no release follows the newest."""
    if ENVIRONMENT.endswith(str(NEWEST.number)):
        items[:] = [each for each in items if 'the_next_release' not in each.name]
    if not OUTCOMES:
        here = Path(__file__).parent
        items[:] = [i for i in items if i.path.parent != here or i.name in FIRST]


def pytest_runtest_logreport(report):
    """Write the worst outcome of each test, for the table of tools/matrix."""
    if not OUTCOMES or (report.when != 'call' and report.passed):
        return
    _outcomes[report.nodeid.rpartition('::')[2]] = report.outcome
    Path(OUTCOMES).write_text(json.dumps(_outcomes))


@pytest.fixture(scope='session')
def environment():
    """The programs of the release."""
    return Environment(ENVIRONMENT)


@pytest.fixture(scope='session')
def release(environment):
    """What is known of the release."""
    return named(str(environment.nova))


@pytest.fixture(scope='session')
def placement(scratch, mariadb, keystone, environment):  # noqa: F811
    """The placement of the release."""
    url = mariadb.create_database('placement')
    with ReleasePlacement(scratch, url, environment).serving(keystone) as server:
        yield server


@pytest.fixture(scope='session')
def cloud(tmp_path_factory, environment, servers):  # noqa: F811
    """The programs of the release, all at work but for a scheduler."""
    made = ReleaseCloud(tmp_path_factory.mktemp('release'), servers, environment)
    with at_work(made):
        yield made


@pytest.fixture(scope='session')
def api(cloud):
    """The API of the release, with flavors."""
    with opened(cloud) as made:
        yield made


@pytest.fixture
def start(cloud):
    """Start novasched on the row of one host; it has ended when the test has."""
    running = []

    def run(name=NAME):
        path = cloud.dir / f'{name}.conf'
        conf = path if path.exists() else cloud.write_scheduler_conf(name)
        process = cloud.start_scheduler(conf, name=name)
        running.append(process)
        cloud.wait_consumed(cloud.transport_url, f'scheduler.{name}', process)
        return process

    yield run
    for process in running:
        process.stop()


@pytest.fixture
def scheduler(start, cloud):
    """novasched, the only scheduler, with all hosts mapped."""
    process = start()
    cloud.wait_mapped()
    return process
