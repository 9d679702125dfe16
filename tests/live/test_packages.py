# SPDX-License-Identifier: Apache-2.0
"""The Debian packages on a Debian 12 of their own, and the image made of them."""

import contextlib
import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.live.daemon import QUEUE, START_S
from tests.live.machine import Machine
from tests.live.peer import Client
from tests.live.servers.process import (
    at_once,
    free_port,
    run,
    running,
    wait_until,
)

pytestmark = [
    pytest.mark.ours,
    pytest.mark.exhaustive('makes packages and a machine for minutes, as root'),
]

ROOT = Path(__file__).parents[2]
PACKAGES = ('python3-novasched', 'novasched-common', 'novasched-scheduler',
            'novasched-console', 'novasched-client')  # fmt: skip
UNITS = ('novasched-scheduler', 'novasched-console')
BUILD_S = 1800
MOST_EXPOSED = 25
"""In tenths, of 100: what `systemd-analyze security` calls OK ends at 50."""
LARGEST_IMAGE = 250_000_000
# Without systemd, and with both kinds of control groups.
PODMAN = ('podman', '--runtime', 'runc', '--cgroup-manager', 'cgroupfs')
IN_A_TEST = ('--detach', '--no-healthcheck', '--ulimit', 'nofile=1024:1024',
             '--ulimit', 'nproc=4096:4096')  # fmt: skip
OF_THE_SYSTEM = re.compile(
    r'/var/log/|/var/(lib|cache)/(apt|dpkg|logrotate|systemd)/|/run/|/root/|/proc|/sys|/dev|'
    r'/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$'
)
"""Logs, and what every installation and each boot of Debian writes."""


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """The packages of this tree, and a machine that is not started yet."""
    make = partial(run, [ROOT / 'tools' / 'package'], timeout_s=BUILD_S)
    made = at_once([make, partial(Machine, tmp_path_factory.mktemp('machine'))])
    return sorted((ROOT / 'dist').glob('*.deb')), made[1]


@pytest.fixture
def machine(built):
    with running(built[1]) as started:
        yield started


@pytest.fixture(scope='module')
def image(built):
    """The name of the image made of the packages, which podman has loaded."""
    run([ROOT / 'tools' / 'image'], timeout_s=BUILD_S)
    file = ROOT / 'dist/novasched-docker.tar'
    assert file.stat().st_size < LARGEST_IMAGE
    return run([*PODMAN, 'load', '--quiet', '--input', file]).split()[-1]


def serves(broker, url):
    found = broker.queue(url, QUEUE)
    return found is not None and found[1] > 0


def test_packages_serve_beside_nova_and_leave_nothing_when_purged(
    built, machine, cloud, rabbitmq, peer, claims
):
    before = machine.files()
    files = built[0]
    for file in files:
        shutil.copy(file, machine.root / 'root')
    names = [f'/root/{file.name}' for file in files]
    machine.run('apt-get', 'install', '--yes', *names)
    assert machine.states(*UNITS) == ['inactive', 'inactive']

    url, port = rabbitmq.create_vhost(), free_port()
    conf = machine.root / 'etc/nova/nova.conf'
    cloud.write_conf(
        conf,
        transport_url=url,
        DEFAULT={'state_path': '/var/lib/nova', 'log_dir': '/var/log/nova'},
        oslo_concurrency={'lock_path': '/var/lock/nova'},
        healthcheck={'uri': f'tcp://127.0.0.1:{port}'},
        novasched={'candidates': 'placement'},
    )
    # As nova-common of Debian has it.
    machine.run('chown', 'root:nova', '/etc/nova/nova.conf')
    machine.run('chmod', '0640', '/etc/nova/nova.conf')
    machine.run('systemctl', 'start', *UNITS)
    wait_until(lambda: serves(rabbitmq, url), START_S, 'the scheduler')
    reply = Client(peer, url).select()
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-1']

    assert machine.states(*UNITS) == ['active', 'active']
    assert set(machine.run('ps', '-C', 'novasched-sched', '-o', 'user=').split()) == {
        'novasched'
    }
    assert '"status": "' in machine.run('curl', '-s', f'http://127.0.0.1:{port}/health')
    socket = ('--retry-all-errors', '--unix-socket', '/run/novasched/console.sock')
    page = machine.run(
        'curl', '-sf', '--retry', '9', *socket, 'http://localhost/decisions'
    )
    assert reply.uuid in page
    listed = machine.run(
        *('runuser', '-u', 'novasched', '--', 'novasched', 'decisions', 'list'),
        *('--config-file', '/etc/nova/nova.conf'),
        *('--config-file', '/etc/nova/novasched.conf', '-f', 'json'),
    )
    assert len(json.loads(listed[listed.index('[') :])) == 1
    log = machine.root / 'var/log/novasched/novasched-scheduler.log'
    assert 'Starting scheduler node' in log.read_text()
    machine.run('logrotate', '--force', '/etc/logrotate.d/novasched-common')
    assert log.with_name(log.name + '.1').exists()
    for unit in UNITS:
        limit = f'--threshold={MOST_EXPOSED}'
        machine.run('systemd-analyze', 'security', '--offline=true', limit,
                    f'/lib/systemd/system/{unit}.service')  # fmt: skip

    machine.run('systemctl', 'reload', 'novasched-scheduler')
    machine.run('apt-get', 'install', '--yes', '--reinstall', *names)
    assert machine.states(*UNITS) == ['active', 'active']

    conf.unlink()
    machine.run('apt-get', 'purge', '--yes', *PACKAGES)
    assert machine.states(*UNITS) == ['inactive', 'inactive']
    left = {path for path in machine.files() - before if not OF_THE_SYSTEM.match(path)}
    assert left == set()
    accounts = machine.run('getent', 'passwd') + machine.run('getent', 'group')
    assert 'nova' not in accounts


def test_image_serves_with_a_read_only_root(
    image, cloud, rabbitmq, peer, claims, tmp_path
):
    url = rabbitmq.create_vhost()
    options = {'state_path': '/var/lib/nova', 'log_dir': '/var/log/nova'}
    conf = cloud.write_conf(tmp_path / 'nova.conf', transport_url=url, DEFAULT=options)
    conf.chmod(0o644)
    where = ('--network', 'host', '--volume', f'{conf}:/etc/nova/nova.conf:ro')
    bounds = ('--read-only', '--read-only-tmpfs=false', '--cap-drop', 'ALL')
    container = run([*PODMAN, 'run', *IN_A_TEST, *bounds, *where, image]).split()[-1]
    try:
        with contextlib.suppress(AssertionError):  # The log says why.
            wait_until(lambda: serves(rabbitmq, url), START_S, 'the scheduler')
        logs = run([*PODMAN, 'logs', container])
        assert 'Starting scheduler node' in logs
        assert 'WARNING' not in logs
        reply = Client(peer, url).select()
        claims.expect(reply.uuid)
        assert reply.hosts == ['node-1']

        (inspected,) = json.loads(run([*PODMAN, 'image', 'inspect', image]))
        check, *words = inspected['Healthcheck']['Test']
        assert check == 'CMD'
        run([*PODMAN, 'exec', container, *words])
        assert run([*PODMAN, 'exec', container, 'id', '-u']).split()[-1] == '42424'
    finally:
        run([*PODMAN, 'rm', '--force', '--volumes', container])
