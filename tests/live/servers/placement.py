# SPDX-License-Identifier: Apache-2.0
"""The placement service, over HTTP, on a database of its own."""

import contextlib
import os
from pathlib import Path

import requests
import sqlalchemy as sa

from tests.live.servers.preloaded import placements
from tests.live.servers.process import Process, free_port, wait_until
from tests.support.placement.placement_user import VERSION, PlacementUser

# The server may close an idle connection just when it is used again: none is kept.
HEADERS = {'X-Auth-Token': 'admin', 'Accept': 'application/json', 'Connection': 'close'}
ACCESSES = 'access.log'


class Placement(PlacementUser):
    """One gunicorn with one worker, and a client of it."""

    application = 'placement.wsgi.api:application'

    def __init__(self, scratch, database_url, options='', programs=placements):
        """Take the URL of an empty database, more lines for its options, and what gives
        its programs."""
        self._programs = programs
        self.dir = Path(scratch) / 'placement'
        self.dir.mkdir(parents=True)
        self.port = free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.database_url = database_url
        self._options = options
        # No pool: its connections would be dead when a test has killed the database.
        self._engine = sa.create_engine(database_url, poolclass=sa.NullPool)
        self._session = requests.Session()
        self._env = dict(os.environ, OS_PLACEMENT_CONFIG_DIR=str(self.dir))
        self._server = None

    @contextlib.contextmanager
    def serving(self, keystone):
        """Run the server, as the placement that an identity service names."""
        try:
            self.start()
            keystone.placement_url = self.url
            yield self
        finally:
            self.close()

    def start(self):
        """Make the tables at the first start; run the server."""
        conf = self.dir / 'placement.conf'
        if not conf.exists():
            conf.write_text(
                '[api]\nauth_strategy = noauth2\n'
                f'[placement_database]\nconnection = {self.database_url}\n'
                f'{self._options}\n'
            )
            words = ('--config-dir', self.dir, 'db', 'sync')
            done = self._programs().run('placement-manage', *words, env=self._env)
            assert done.returncode == 0, done
        self._server = Process(
            [
                'gunicorn',
                f'--bind=127.0.0.1:{self.port}',
                '--workers=1',
                '--worker-class=gthread',
                '--threads=4',
                '--timeout=120',
                '--graceful-timeout=1',
                # Nova gives up where an idle connection is closed under it.
                '--keep-alive=600',
                f'--access-logfile={self.dir / ACCESSES}',
                '--access-logformat=%(m)s %(U)s',
                self.application,
            ],
            self.dir / 'gunicorn.log',
            env=self._env,
            fork_of=self._programs(),
        )
        wait_until(self._ready, 60, 'placement', self._server)

    def _ready(self):
        with contextlib.suppress(requests.RequestException):
            return self._session.get(f'{self.url}/', timeout=5).status_code == 200
        return False

    def send(self, method, path, body=None, version=VERSION):
        answer = self._session.request(
            method,
            f'{self.url}{path}',
            json=body,
            headers=HEADERS | {'OpenStack-API-Version': f'placement {version}'},
            timeout=120,
        )
        return answer.status_code, answer.json() if answer.text else None

    def consumers(self):
        """The uuids of all consumers that hold anything, read past the service."""
        query = sa.text('SELECT DISTINCT consumer_id FROM allocations')
        with self._engine.connect() as connection:
            return set(connection.execute(query).scalars())

    def rows(self, query):
        """What a query of its database gives, read past the service."""
        with self._engine.connect() as connection:
            return list(connection.execute(sa.text(query)))

    def accesses(self):
        """Methods and paths of all requests that it has answered."""
        lines = (self.dir / ACCESSES).read_text().splitlines()
        return [tuple(line.split(' ', 1)) for line in lines]

    @property
    def process(self):
        """The running server."""
        return self._server

    def stop(self):
        """Stop the server; `start` brings it back with what it knew."""
        if self._server:
            self._server.stop()

    def close(self):
        """Stop the server for good and drop the connections to it."""
        self.stop()
        self._session.close()
        self._engine.dispose()
