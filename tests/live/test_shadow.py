# SPDX-License-Identifier: Apache-2.0
"""A shadow beside a scheduler: it taps, decides and compares, and changes nothing."""

import time

import pytest

from tests.live import flow
from tests.live.daemon import own_program
from tests.live.servers.process import Process, wait_until

HOSTS = tuple(f'shadow-{number}' for number in range(4))


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, rabbitmq, mariadb, placement, keystone):
    directory = tmp_path_factory.mktemp('shadowed')
    fleet = flow.fleet(*((name, flow.CELLS[0]) for name in HOSTS))
    servers = rabbitmq, mariadb, placement, keystone
    with flow.running(directory, servers, HOSTS, fleet) as made:
        yield made


@pytest.fixture(scope='module')
def shadow(cloud):
    conf = cloud.conf_path.with_name('shadow.conf')
    text = (
        cloud.conf_path.read_text()
        + f'\n[novasched]\nshadow = true\ndecisions_dir = {cloud.dir}/shadow\n'
    )
    conf.write_text(text)
    process = Process(
        [own_program('novasched-scheduler'), '--config-file', conf],
        cloud.dir / 'shadow.log',
    )
    wait_until(lambda: 'Starting scheduler' in process.log, 120, 'shadow', process)
    yield process
    process.stop()


def test_it(cloud, shadow):
    import uuid

    uuids = [str(uuid.uuid4()) for _ in range(5)]
    for u in uuids:
        cloud.boot([u])
    for u in uuids:
        print(cloud.ended(u).vm_state)
    time.sleep(8)
    print(shadow.log)
    raise SystemError
