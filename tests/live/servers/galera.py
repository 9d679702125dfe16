# SPDX-License-Identifier: Apache-2.0
"""Three private MariaDB servers that replicate to each other by Galera."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pymysql

from tests.live.servers.process import Process, free_port, listens, run, wait_until
from tests.live.servers.tcp_gate import TcpGate

PROVIDERS = (
    Path('/usr/lib/galera/libgalera_smm.so'),
    Path('/usr/lib64/galera-4/libgalera_smm.so'),
)
USER = 'live'
PASSWORD = 'database-secret'
SIZE = 3
START_S = 60


class Node:
    """One of the servers."""

    def __init__(self, directory, cluster):
        self.dir = directory
        self.data = self.dir / 'data'
        for each in (self.dir, self.data):
            each.mkdir()
            if account():
                shutil.chown(each, account(), account())
        self.port, self.group_port, self.transfer_port = (free_port() for _ in range(3))
        self.ist_port = free_port()
        self.socket = self.dir / 'my.sock'
        self._cluster = cluster
        self.process = None

    def start(self, *, first=False):
        """Run the server; ``first``: it begins the cluster."""
        self.process = Process(
            [
                'mariadbd',
                '--no-defaults',
                f'--datadir={self.data}',
                f'--socket={self.socket}',
                f'--port={self.port}',
                '--bind-address=127.0.0.1',
                f'--pid-file={self.dir / "pid"}',
                '--innodb-buffer-pool-size=64M',
                '--innodb-log-file-size=8M',
                '--performance-schema=OFF',
                '--skip-name-resolve',
                '--innodb-flush-log-at-trx-commit=0',
                '--innodb-flush-method=nosync',
                '--innodb-doublewrite=0',
                '--binlog-format=ROW',
                '--innodb-autoinc-lock-mode=2',
                '--wsrep-on=ON',
                f'--wsrep-provider={provider()}',
                '--wsrep-cluster-name=live',
                f'--wsrep-cluster-address={self._address(first)}',
                f'--wsrep-node-name={self.dir.name}',
                f'--wsrep-node-address=127.0.0.1:{self.group_port}',
                f'--wsrep-sst-receive-address=127.0.0.1:{self.transfer_port}',
                '--wsrep-sst-method=rsync',
                f'--wsrep-provider-options={self._options()}',
            ],
            self.dir.with_suffix('.log'),
            user=account(),
            cwd='/',
        )
        wait_until(self.is_synced, START_S, self.dir.name, self.process)

    def install(self):
        """Make the data directory."""
        words = ('--no-defaults', '--auth-root-authentication-method=normal')
        words += ('--skip-test-db', f'--datadir={self.data}')
        run(['mariadb-install-db', *words], user=account())

    def _address(self, first):
        others = ','.join(f'127.0.0.1:{port}' for port in self._cluster.group_ports())
        return 'gcomm://' if first else f'gcomm://{others}'

    def _options(self):
        """Ports of our own; and a node that is killed is noticed within seconds."""
        options = {
            'base_host': '127.0.0.1',
            'base_port': self.group_port,
            'gmcast.listen_addr': f'tcp://127.0.0.1:{self.group_port}',
            'ist.recv_addr': f'127.0.0.1:{self.ist_port}',
            'gcache.size': '8M',
            'evs.keepalive_period': 'PT0.5S',
            'evs.suspect_timeout': 'PT2S',
            'evs.inactive_timeout': 'PT4S',
        }
        return ';'.join(f'{name}={value}' for name, value in options.items())

    def is_synced(self):
        """Tell whether the server is a member that has everything."""
        if not listens(self.port):
            return False
        with contextlib.suppress(pymysql.Error):
            return self.status('wsrep_local_state_comment') == 'Synced'
        return False

    def status(self, name):
        """Read a status variable."""
        return self.execute(f"SHOW STATUS LIKE '{name}'")[0][1]

    def execute(self, statement):
        """Execute a statement as root; return its rows."""
        connection = pymysql.connect(
            unix_socket=str(self.socket), user='root', autocommit=True
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


class Galera:
    """A cluster, and a relay to that of its nodes which takes the connections."""

    def __init__(self):
        # Not below pytest's own directory, which no other account may enter.
        self.dir = Path(tempfile.mkdtemp(prefix='novasched-galera-'))
        self.dir.chmod(0o755)
        self.nodes = [Node(self.dir / f'node-{n}', self) for n in range(SIZE)]
        self.relay = TcpGate(self.nodes[0].port)

    def group_ports(self):
        """Where the nodes listen to each other."""
        return [node.group_port for node in self.nodes]

    def start(self):
        """Run all nodes, one after another: each gets its data from those before."""
        first, *others = self.nodes
        first.install()
        first.start(first=True)
        first.execute(f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'")
        first.execute(f"GRANT ALL ON *.* TO '{USER}'@'%'")
        for node in others:
            node.start()

    def create_database(self, name):
        """Make an empty database; give its URL by way of the relay."""
        self.nodes[0].execute(f'CREATE DATABASE `{name}` CHARACTER SET utf8mb3')
        address = f'127.0.0.1:{self.relay.port}'
        return f'mysql+pymysql://{USER}:{PASSWORD}@{address}/{name}?charset=utf8'

    def kill(self, number, successor):
        """Kill a node with all its connections; new ones go to its successor."""
        self.nodes[number].process.kill()
        self.relay.turn_to(self.nodes[successor].port)

    def stop(self):
        """Stop all nodes, and remove what they wrote."""
        self.relay.stop()
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.process.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def account():
    """The account to run the servers as, None for our own.

    As root, rsync would give up its rights, and could not write any more.
    """
    return 'mysql' if os.getuid() == 0 else None


def provider():
    """The path of Galera's library."""
    return next(path for path in PROVIDERS if path.exists())
