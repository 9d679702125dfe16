# SPDX-License-Identifier: Apache-2.0
"""A cloud on which novasched-status is run."""

import functools
import http.server
import io
import json
import threading

import pytest
import sqlalchemy as sa

from novasched.cmd.status import COMMANDS
from novasched.db import tables as declared
from novasched.db.transactions import Database
from novasched.manage.status import Status
from novasched.ports import CELL0_UUID
from novasched_lab.db import schema
from tests.support.databases.databases import Copies, Databases, cell_mapping

CHECKS = (
    'Cells v2',
    'Placement API',
    'Nova release',
    'Older than N-1 computes',
    'Newer schedulers',
    'Databases',
    'Message queue',
    'Network API',
    'Placement database',
    'Heartbeats',
    'Health and metrics',
    'Driver, filters and weighers',
    'Policy',
    'Options',
)

SUCCESS, WARNING, FAILURE = range(3)


class Placement(http.server.BaseHTTPRequestHandler):
    """Answers GET / with what the server was told, and has a token for anybody."""

    def do_GET(self):
        status, body = self.server.answer
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        if not self.path.startswith('/v3/'):
            return self.send_error(404)
        host, port = self.server.server_address
        catalog = [
            {
                'type': 'placement',
                'endpoints': [
                    {
                        'interface': 'internal',
                        'region_id': 'Earth',
                        'url': f'http://{host}:{port}',
                    }
                ],
            }
        ]
        token = {'token': {'catalog': catalog, 'expires_at': '2999-01-01T00:00:00Z'}}
        body = json.dumps(token).encode()
        self.send_response(201)
        self.send_header('X-Subject-Token', 't')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        return self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


def versions(newest):
    return 200, json.dumps({'versions': [{'max_version': newest}]}).encode()


@pytest.fixture
def placement():
    """A server in the place of placement; its `answer` is a status and a body."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Placement)
    server.answer = versions('1.39')
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Cloud:
    """A configuration of SQLite files, and the rows in them."""

    def __init__(self, directory, placement, copies):
        self._directory = directory
        self.endpoint = f'http://127.0.0.1:{placement.server_address[1]}'
        self.engines = {
            name: sa.create_engine(f'sqlite:///{directory}/{name}')
            for name in ('api', 'main', 'c1')
        }
        self.zero = Databases(self.engines['api'], self.engines['main'])
        self.one = Databases(self.engines['api'], self.engines['c1'])
        for name, engine in self.engines.items():
            create = schema.create_api if name == 'api' else schema.create_cell
            make = functools.partial(create, Database(engine), name)
            copies.fill(directory / name, create, make)
        (self.cell0,) = self._map('cell0', 'main', CELL0_UUID)
        (self.cell1,) = self._map('cell1', 'c1', 'uuid-1')
        self.zero.add(declared.host_mappings, {'cell_id': self.cell1, 'host': 'h1'})

    def _map(self, name, database, uuid):
        url = f'sqlite:///{self._directory}/{database}'
        row = cell_mapping(name=name, uuid=uuid, database_connection=url)
        return self.zero.add(declared.cell_mappings, row)

    def remove(self, table, **where):
        with self.engines['api'].begin() as connection:
            connection.execute(sa.delete(table).filter_by(**where))

    def run(self, *words, more='', placement='auth_type = none'):
        """Run the check on this cloud; return its exit code and both outputs.

        Without ``more`` there is no file.
        """
        conf = self._directory / 'nova.conf'
        conf.write_text(
            '[DEFAULT]\ntransport_url = fake://\n'
            f'[api_database]\nconnection = sqlite:///{self._directory}/api\n'
            f'[database]\nconnection = sqlite:///{self._directory}/main\n'
            f'[placement]\nendpoint_override = {self.endpoint}\n{placement}\n{more}'
        )
        if more is None:
            conf.unlink()
        out, self.err = io.StringIO(), io.StringIO()
        program = Status(COMMANDS, stdout=out, stderr=self.err)
        code = program.run(['--config-file', str(conf), 'upgrade', 'check', *words])
        return code, out.getvalue(), self.err.getvalue()

    def judge(self, **options):
        """Run the check; return its exit code, and (result, details) by check."""
        code, out, _ = self.run('-f', 'json', **options)
        checks = json.loads(out)['checks']
        return code, {
            each['check']: (each['result'], each['details']) for each in checks
        }


@pytest.fixture(scope='session')
def copies(tmp_path_factory):
    return Copies(tmp_path_factory.mktemp('tables'))


@pytest.fixture
def cloud(tmp_path, placement, copies):
    made = Cloud(tmp_path, placement, copies)
    yield made
    for engine in made.engines.values():
        engine.dispose()


NOBODY = 'http://127.0.0.1:1'

CREDENTIALS = (
    'username = n\npassword = n\nproject_name = n\nuser_domain_name = d\n'
    'project_domain_name = d\n'
)

PASSWORD = f'auth_type = password\nauth_url = {NOBODY}\n{CREDENTIALS}'
