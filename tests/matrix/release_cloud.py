# SPDX-License-Identifier: Apache-2.0
"""A cloud of the programs of one release of nova, in an environment of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from tests.live.cloud import built
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import PeerCloud
from tests.live.servers.placement import Placement
from tests.live.servers.process import wait_until

NAME = 'matrix'
"""The host of the scheduler."""
HOST = 'OS-EXT-SRV-ATTR:host'
NO_EVENTLET = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'


class Environment:
    """The programs of a virtual environment; takes the place of preloaded.Preloaded."""

    def __init__(self, path):
        self.path = Path(path).absolute()
        found = self.path.glob('lib/*/site-packages/nova-*.dist-info')
        (self.nova,) = {int(each.name.split('-')[1].split('.')[0]) for each in found}

    def command(self, program, argv):
        return [self.path / 'bin' / program, *argv]

    def env(self, env=None):
        """Its programs come first."""
        made = dict(os.environ if env is None else env, PYTHONWARNINGS='ignore')
        made['PATH'] = f'{self.path / "bin"}:{made["PATH"]}'
        return made

    def start(self, program, argv, out, err=None, *, env=None, cwd=None):
        with Path(out).open('ab') as log:
            return subprocess.Popen(
                self.command(program, argv),
                env=self.env(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, program, *argv, timeout_s=240, env=None, cwd=None):
        return subprocess.run(
            self.command(program, argv),
            env=self.env(env),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


class ReleasePlacement(Placement):
    """The placement of the release."""

    def __init__(self, scratch, database_url, environment):
        super().__init__(scratch, database_url, programs=lambda: environment)
        if environment.nova < 31:
            self.application = 'placement.wsgi:init_application()'


class ReleaseCloud(PeerCloud):
    """One cell with two computes, the API and the conductors of a release."""

    cells = ('cell1',)
    computes = {
        'peer-1': ('cell1', 'fake.MediumFakeDriver'),
        'peer-2': ('cell1', 'fake.MediumFakeDriver'),
    }

    def __init__(self, directory, servers, environment):
        self.environment = environment
        self.environments = {}
        self.maker = f'nova {environment.nova}'
        super().__init__(directory, servers, environment)

    def programs_of(self, name):
        """A compute may be of another release."""
        return self.environments.get(name, self.environment)

    def _start_api(self):
        conf = self.write_service_conf('api')
        paste = self.environment.path / 'etc/nova/api-paste.ini'
        env = {
            'OS_NOVA_CONFIG_FILES': f'{paste};{conf}',
            'OS_NOVA_CONFIG_DIR': str(conf.parent),
        }
        link = conf.parent / 'api-paste.ini'
        link.symlink_to(paste)
        if self.environment.nova < 33:
            words = ['nova-api-wsgi', '-b', '127.0.0.1', '-p', self.port]
        else:
            # Threads of gunicorn serve it, and nova reads its command line.
            options = conf.parent / 'gunicorn.conf.py'
            options.write_text(
                f"bind = '127.0.0.1:{self.port}'\nworker_class = 'gthread'\n"
                'threads = 4\ntimeout = 120\n'
                "wsgi_app = 'nova.wsgi.osapi_compute:application'\n"
            )
            env |= {NO_EVENTLET: '1', 'GUNICORN_CMD_ARGS': f'--config={options}'}
            words = ['gunicorn']
        self._start('api', *words, **env)

    def write_service_conf(self, name, cell=None, database='cell0', **sections):
        """Computes check the policy of a group, too: conductors of cells reach the API
        database."""
        sections.pop('workarounds', None)
        return super().write_service_conf(name, cell, database, **sections)

    def row(self, host):
        """The row of the scheduler of a host."""
        (row,) = self.rows(
            'cell0', 'services', host=host, binary='nova-scheduler', deleted=0
        )
        return row

    def stop_program(self, name):
        """End a program of nova, which may take half a minute by itself."""
        self.running.pop(name).end_by(signal.SIGKILL)

    def wait_consumed(self, url, queue, process, consumers=1):
        """Wait until a queue has so many consumers."""

        def consumed():
            found = self._rabbitmq.queue(url, queue)
            return found is not None and found[1] >= consumers

        wait_until(consumed, 180, f'{consumers} of {queue}', process)


@contextlib.contextmanager
def at_work(cloud):
    """Start the programs of a cloud, all but a scheduler; end them."""
    with built(cloud):
        cloud.start_peer()
        for name in cloud.computes:
            cloud.wait_compute(name)
        yield


@contextlib.contextmanager
def opened(cloud):
    """Wait for the API, and make the flavors."""
    with contextlib.closing(PeerApi(cloud.port)) as made:
        made.wait_ready(cloud['api'])
        made.add_flavor('small', 1, 512, 1)
        made.add_flavor('half', 6, 4096, 10)
        yield made


@contextlib.contextmanager
def joined(cloud, api, name, driver):
    """Have a compute come; it is gone in the end, with all servers."""
    cloud.computes = {**cloud.computes, name: ('cell1', driver)}
    try:
        cloud.start_compute(name)
        cloud.wait_compute(name)
        yield
        api.delete_all()
        cloud.stop_program(name)
        api.delete_service('nova-compute', name)
    finally:
        del cloud.computes[name]


def hosts_of(api, uuids):
    """Return the hosts of servers, which become active."""
    return [api.active(uuid)[HOST] for uuid in uuids]


def host_of(api, uuid):
    """Return the host of a server, which becomes active."""
    return hosts_of(api, [uuid])[0]
