# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB server."""

import contextlib
import os
from pathlib import Path

import pymysql

from tests.live.servers.process import Process, free_port, listens, run, wait_until

USER = 'live'
PASSWORD = 'database-secret'


class MariaDB:
    """One server with as many databases as tests ask for."""

    def __init__(self, scratch):
        self.dir = Path(scratch) / 'mariadb'
        self.dir.mkdir(parents=True)
        self.port = free_port()
        self._socket = self.dir / 'my.sock'
        self._server = None

    def start(self):
        """Make the data directory at the first start; run the server."""
        data = self.dir / 'data'
        both = [
            '--no-defaults',
            f'--datadir={data}',
            '--innodb-log-file-size=32M',
            # Nothing here outlives the session: no need to reach the platter.
            '--debug-no-sync',
            '--innodb-flush-method=nosync',
            *(['--user=root'] if os.getuid() == 0 else []),
        ]
        fresh = not data.exists()
        if fresh:
            run(
                [
                    'mariadb-install-db',
                    *both,
                    '--auth-root-authentication-method=normal',
                    '--skip-test-db',
                ]
            )
        self._server = Process(
            [
                'mariadbd',
                *both,
                f'--socket={self._socket}',
                f'--port={self.port}',
                '--bind-address=127.0.0.1',
                f'--pid-file={self.dir / "pid"}',
                '--innodb-buffer-pool-size=96M',
                '--performance-schema=OFF',
                '--skip-log-bin',
                '--skip-name-resolve',
                '--max-connections=300',
                '--innodb-flush-log-at-trx-commit=0',
                '--innodb-doublewrite=0',
            ],
            self.dir / 'mariadbd.log',
        )
        wait_until(self._ready, 60, 'mariadbd', self._server)
        if fresh:
            self.execute(
                f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION",
            )

    def _ready(self):
        # PyMySQL leaves a socket open when it finds nobody to talk to.
        if not listens(self.port):
            return False
        with contextlib.suppress(pymysql.Error):
            self.execute()
            return True
        return False

    def execute(self, *statements):
        """Run statements as root."""
        connection = pymysql.connect(
            unix_socket=str(self._socket), user='root', autocommit=True
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_database(self, name):
        """Make an empty database and give its URL."""
        self.execute(f'CREATE DATABASE `{name}` CHARACTER SET utf8mb3')
        return self.url(name)

    def url(self, name):
        """The SQLAlchemy URL of a database."""
        return (
            f'mysql+pymysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}'
            '?charset=utf8'
        )

    @property
    def process(self):
        """The running server."""
        return self._server

    def stop(self):
        """Stop the server; `start` brings it back with its databases."""
        if self._server:
            self._server.stop()
