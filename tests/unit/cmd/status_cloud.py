# SPDX-License-Identifier: Apache-2.0
"""A cloud on which novasched-status is run."""

import functools
import io
import json

import pytest
import sqlalchemy as sa

from novasched.cmd.status import COMMANDS
from novasched.db import tables as declared
from novasched.db.transactions import Database
from novasched.manage.status import Status
from novasched.ports import CELL0_UUID
from novasched_lab.db import schema
from tests.support.databases.databases import Copies, Databases, cell_mapping
from tests.support.servers.http_servers import HttpServer, JsonHandler

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


class Placement(JsonHandler):
    """Answers GET / with what the server was told, and has a token for anybody."""

    def get(self):
        self.answer(*self.server.service.answer)

    def post(self):
        self.body()
        if not self.path.startswith('/v3/'):
            return self.answer(404)
        url = f'http://{self.headers["Host"]}'
        endpoint = {'interface': 'internal', 'region_id': 'Earth', 'url': url}
        catalog = [{'type': 'placement', 'endpoints': [endpoint]}]
        token = {'catalog': catalog, 'expires_at': '2999-01-01T00:00:00Z'}
        return self.answer(201, {'token': token}, X_Subject_Token='t')


def versions(newest):
    return 200, {'versions': [{'max_version': newest}]}


@pytest.fixture
def placement():
    """A server in the place of placement; its `answer` is a status and what it says."""
    with HttpServer(Placement) as server:
        server.answer = versions('1.39')
        yield server


class Cloud:
    """A configuration of SQLite files, and the rows in them."""

    def __init__(self, directory, placement, copies):
        self._directory = directory
        self.endpoint = placement.url
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
