# SPDX-License-Identifier: Apache-2.0
"""A MariaDB server of our own, with one empty database."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from novasched import errors
from novasched_lab.demo.processes import Process

SERVER, INSTALL = 'mariadbd', 'mariadb-install-db'
FAST = (
    '--innodb-buffer-pool-size=96M',
    '--performance-schema=OFF',
    '--skip-log-bin',
    '--skip-name-resolve',
    '--max-connections=300',
    '--innodb-flush-log-at-trx-commit=0',
    '--innodb-doublewrite=0',
)


def is_installed() -> bool:
    """Say whether a server and a driver for it are there."""
    return all(map(shutil.which, (SERVER, INSTALL))) and bool(
        importlib.util.find_spec('pymysql')
    )


@contextlib.contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run a server while the context lasts; give the URL of its database.

    Raises errors.SetupError.
    """
    account = ['--user=root'] if os.getuid() == 0 else []
    data, port = directory / 'mariadb', _free_port()
    made = subprocess.run(
        [
            INSTALL,
            '--no-defaults',
            '--auth-root-authentication-method=normal',
            '--skip-test-db',
            f'--datadir={data}',
            *account,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise errors.SetupError(f'{INSTALL} failed: {made.stderr.strip()[-300:]}')
    command = [
        SERVER,
        '--no-defaults',
        f'--datadir={data}',
        '--socket=../mariadb.sock',  # from the data directory: long paths do not fit
        f'--pid-file={directory / "mariadb.pid"}',
        f'--port={port}',
        '--bind-address=127.0.0.1',
        *FAST,
        *account,
    ]
    url = f'mysql+pymysql://root@127.0.0.1:{port}/'
    with Process(SERVER, command, directory / 'mariadbd.log') as process:
        process.wait_until(lambda: _answers(port, url))
        yield f'{url}novasched'


def _answers(port: int, url: str) -> bool:
    """Make the database, if the server listens."""
    try:
        socket.create_connection(('127.0.0.1', port), 1).close()
    except OSError:
        return False
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text('CREATE DATABASE IF NOT EXISTS novasched'))
    except sa_exc.DBAPIError:
        return False
    finally:
        engine.dispose()
    return True


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        port: int = sock.getsockname()[1]
        return port
