# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server."""

import contextlib
import os
import pwd
import shutil
import signal
import tempfile
from pathlib import Path

import psycopg2

from tests.live.servers.process import Process, free_port, run, wait_until

USER = 'live'
PASSWORD = 'database-secret'


class PostgreSQL:
    """One server with as many databases as tests ask for."""

    def __init__(self):
        # Not below pytest's own directory, which no other account may enter.
        self.dir = Path(tempfile.mkdtemp(prefix='novasched-postgresql-'))
        self.port = free_port()
        self._server = None
        self._account = None
        if os.getuid() == 0:
            # The server refuses to run as root.
            self._account = _unprivileged_account()
            shutil.chown(self.dir, self._account, pwd.getpwnam(self._account).pw_gid)

    def start(self):
        """Make the data directory at the first start; run the server."""
        data = self.dir / 'data'
        if not data.exists():
            run(
                [
                    _program('initdb'),
                    '--no-sync',
                    '--auth=trust',
                    '--encoding=UTF8',
                    '--locale=C.UTF-8',
                    f'--username={USER}',
                    '-D',
                    data,
                ],
                user=self._account,
            )
        self._server = Process(
            [
                _program('postgres'),
                '-D',
                data,
                '-k',
                self.dir,
                *_settings(
                    listen_addresses='127.0.0.1',
                    port=self.port,
                    shared_buffers='32MB',
                    max_connections=200,
                    fsync='off',
                    synchronous_commit='off',
                    full_page_writes='off',
                ),
            ],
            self.dir.with_suffix('.log'),
            user=self._account,
            cwd='/',
        )
        wait_until(self._ready, 60, 'postgres', self._server)

    def _ready(self):
        with contextlib.suppress(psycopg2.Error):
            self._execute()
            return True
        return False

    def _execute(self, *statements):
        connection = psycopg2.connect(
            host='127.0.0.1', port=self.port, user=USER, dbname='postgres'
        )
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_database(self, name):
        """Make an empty database and give its URL."""
        self._execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def url(self, name):
        """The SQLAlchemy URL of a database."""
        return f'postgresql+psycopg2://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}'

    @property
    def process(self):
        """The running server."""
        return self._server

    def stop(self):
        """Stop the server; `start` brings it back with its databases."""
        if self._server:
            # "Fast": cut the sessions, write a checkpoint.
            self._server.stop(signal.SIGINT)

    def close(self):
        """Stop the server; delete its data directory and its log."""
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.with_suffix('.log').unlink(missing_ok=True)


def _unprivileged_account():
    for name in ('postgres', 'nobody'):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise AssertionError('neither the account postgres nor nobody exists')


def _program(name):
    found = sorted(Path('/usr/lib/postgresql').glob(f'*/bin/{name}'))
    return found[-1] if found else shutil.which(name)


def _settings(**values):
    return [word for key, value in values.items() for word in ('-c', f'{key}={value}')]
