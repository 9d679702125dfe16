# SPDX-License-Identifier: Apache-2.0
"""novasched-status, from its arguments to its exit code."""

from __future__ import annotations

import http.server
import io
import json
import re
import threading

import pytest
import sqlalchemy as sa

from novasched.cmd.status import COMMANDS, main
from novasched.db import tables as declared
from novasched.manage.status import Status
from novasched.ports import CELL0_UUID
from tests.databases import Databases, cell_mapping, node, service
from tests.live.servers.process import free_port

CHECKS = (
    'Cells v2',
    'Placement API',
    'Older than N-1 computes',
    'Newer schedulers',
    'Databases',
    'Message queue',
    'Driver, filters and weighers',
    'Options',
)
SUCCESS, WARNING, FAILURE = range(3)


class Placement(http.server.BaseHTTPRequestHandler):
    """Answers GET / with what the server was told."""

    def do_GET(self):
        status, body = self.server.answer
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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

    def __init__(self, directory, placement):
        self._directory = directory
        self._placement = placement
        self.engines = {
            name: sa.create_engine(f'sqlite:///{directory}/{name}')
            for name in ('api', 'main', 'c1')
        }
        self.zero = Databases(self.engines['api'], self.engines['main'])
        self.one = Databases(self.engines['api'], self.engines['c1'])
        self.zero.create_tables()
        self.one.create_tables()
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
        """Run the check on this cloud; return its exit code and both outputs."""
        endpoint = f'http://127.0.0.1:{self._placement.server_address[1]}'
        conf = self._directory / 'nova.conf'
        conf.write_text(
            '[DEFAULT]\ntransport_url = fake://\n'
            f'[api_database]\nconnection = sqlite:///{self._directory}/api\n'
            f'[database]\nconnection = sqlite:///{self._directory}/main\n'
            f'[placement]\nendpoint_override = {endpoint}\n{placement}\n{more}'
        )
        out, err = io.StringIO(), io.StringIO()
        program = Status(COMMANDS, stdout=out, stderr=err)
        code = program.run(['--config-file', str(conf), 'upgrade', 'check', *words])
        return code, out.getvalue(), err.getvalue()

    def judge(self, **options):
        """Run the check; return its exit code, and (result, details) by check."""
        code, out, _ = self.run('-f', 'json', **options)
        checks = json.loads(out)['checks']
        return code, {
            each['check']: (each['result'], each['details']) for each in checks
        }


@pytest.fixture
def cloud(tmp_path, placement):
    made = Cloud(tmp_path, placement)
    yield made
    for engine in made.engines.values():
        engine.dispose()


def test_a_cloud_that_is_ready(cloud):
    code, verdicts = cloud.judge()
    assert verdicts == dict.fromkeys(CHECKS, (SUCCESS, None))
    assert code == 0


def test_the_table_is_that_of_nova(cloud):
    cloud.remove(declared.host_mappings)
    cloud.remove(declared.cell_mappings, uuid='uuid-1')
    code, out, err = cloud.run()
    assert (code, err) == (2, '')
    lines = out.splitlines()
    bar, *rest = lines
    assert set(bar) == {'+', '-'}
    assert [line.strip('| ') for line in rest[:8]] == [
        'Upgrade Check Results',
        bar,
        'Check: Cells v2',
        'Result: Failure',
        'Details: There needs to be at least two cell mappings, one for cell0',
        "and one for your first cell. Run commands 'novasched-",
        "manage cell_v2 map_cell0' and 'novasched-manage cell_v2",
        "create_cell' and then retry.",
    ]
    assert {len(line) for line in lines} == {len(bar)}
    assert lines[6].startswith('|   and one')
    assert re.findall('Check: (.*?) *[|]', out) == list(CHECKS)


def test_json_has_a_short_name(cloud):
    assert json.loads(cloud.run('--json')[1])['name'] == 'Upgrade Check Results'


def test_cell0_is_needed(cloud):
    cloud.remove(declared.cell_mappings, uuid=CELL0_UUID)
    cloud.zero.add(declared.cell_mappings, cell_mapping())
    code, verdicts = cloud.judge()
    assert verdicts['Cells v2'] == (
        FAILURE,
        "No cell0 mapping found. Run command 'novasched-manage cell_v2 map_cell0' and "
        'then retry.',
    )
    assert code == 2


@pytest.mark.parametrize(
    ('nodes', 'code', 'says'),
    [
        pytest.param(
            [], SUCCESS, 'No host mappings or compute nodes were found.', id='no hosts'
        ),
        pytest.param(
            [node(deleted=7)], SUCCESS, 'No host mappings or', id='a host that was'
        ),
        pytest.param(
            [node()], FAILURE, 'No host mappings found but there are', id='a host'
        ),
    ],
)
def test_hosts_are_to_be_mapped(cloud, nodes, code, says):
    cloud.remove(declared.host_mappings)
    cloud.one.add(declared.compute_nodes, *nodes)
    exit_code, verdicts = cloud.judge()
    result, details = verdicts['Cells v2']
    assert (exit_code, result) == (code, code)
    assert details.startswith(says)
    assert 'novasched-manage cell_v2 discover_hosts' in details


@pytest.mark.parametrize(
    ('answer', 'says'),
    [
        pytest.param(
            versions('1.10'),
            'Placement API version 1.36 needed, you have 1.10.',
            id='too old',
        ),
        pytest.param(
            (404, b'{}'), 'Placement API does not seem to be running.', id='not found'
        ),
        pytest.param(
            (500, b'oh'), 'Placement API does not seem to be running.', id='broken'
        ),
        pytest.param(
            (401, b'{}'), 'Placement service credentials do not work.', id='unknown'
        ),
    ],
)
def test_placement_must_answer(cloud, placement, answer, says):
    placement.answer = answer
    code, verdicts = cloud.judge()
    assert verdicts['Placement API'] == (FAILURE, says)
    assert code == 2


NOBODY = 'http://127.0.0.1:1'
PASSWORD = (
    f'auth_type = password\nauth_url = {NOBODY}\nusername = n\npassword = n\n'
    'project_name = n\nuser_domain_name = d\nproject_domain_name = d\n'
)


@pytest.mark.parametrize(
    ('options', 'says'),
    [
        pytest.param(
            '', 'No credentials specified for placement API in nova.conf.', id='nothing'
        ),
        pytest.param(
            f'auth_type = none\nendpoint_override = {NOBODY}',
            'Placement API does not seem to be running. Unable to establish',
            id='nobody listens',
        ),
        pytest.param(
            PASSWORD, 'Discovery for placement API URI failed.', id='no keystone'
        ),
        pytest.param('auth_type = bogus', '[placement] auth_type: ', id='no plugin'),
    ],
)
def test_placement_must_be_reached(cloud, options, says):
    code, verdicts = cloud.judge(placement=options)
    result, details = verdicts['Placement API']
    assert result == FAILURE
    assert details.startswith(says)
    assert code == 2


def test_computes_must_not_be_too_old(cloud):
    cloud.one.add(declared.services, service(version=60), service(host='h2'))
    _, verdicts = cloud.judge()
    assert verdicts['Older than N-1 computes'] == (
        FAILURE,
        'Current Nova version does not support computes older than Gazpacho but the '
        'minimum compute service level in your system is 60 and the oldest supported '
        'service level is 72.',
    )


def test_schedulers_must_not_all_be_newer(cloud):
    newer = service(binary='nova-scheduler', topic='scheduler', version=99)
    cloud.zero.add(declared.services, newer)
    _, verdicts = cloud.judge()
    result, details = verdicts['Newer schedulers']
    assert (result, 'older (v74)' in details) == (FAILURE, True)


def test_every_column_must_be_there(cloud):
    with cloud.engines['c1'].begin() as connection:
        connection.execute(sa.text('ALTER TABLE compute_nodes DROP COLUMN mapped'))
        connection.execute(sa.text('DROP TABLE instance_system_metadata'))
    _, verdicts = cloud.judge()
    result, details = verdicts['Databases']
    assert result == FAILURE
    assert 'c1 has no table instance_system_metadata; ' in details
    assert details.endswith('c1 has no column mapped.')


def test_a_cell_that_cannot_be_asked_is_a_failure(cloud, tmp_path):
    url = f'sqlite:///{tmp_path}/none/x'
    cloud.zero.add(declared.cell_mappings, cell_mapping(database_connection=url))
    code, verdicts = cloud.judge()
    failed = {name for name, (result, _) in verdicts.items() if result == FAILURE}
    assert failed == {'Older than N-1 computes', 'Databases'}
    assert code == 2


def test_filters_must_be_there(cloud):
    more = '[filter_scheduler]\nenabled_filters = NoSuchFilter\n'
    _, verdicts = cloud.judge(more=more)
    result, details = verdicts['Driver, filters and weighers']
    assert result == FAILURE
    assert 'Scheduler Host Filter NoSuchFilter could not be found.' in details


def test_the_driver_must_be_there(cloud):
    _, verdicts = cloud.judge(more='[scheduler]\ndriver = no_such_driver\n')
    result, details = verdicts['Driver, filters and weighers']
    assert (result, details.startswith('[scheduler] driver: ')) == (FAILURE, True)


@pytest.mark.parametrize(
    ('group', 'option'), [('healthcheck', 'uri'), ('novasched', 'metrics_uri')]
)
def test_what_the_service_would_not_start_with_is_a_failure(cloud, group, option):
    uri = 'tcp://localhost:9107  # /health'
    code, verdicts = cloud.judge(more=f'[{group}]\n{option} = {uri}\n')
    result, details = verdicts['Options']
    assert (code, result) == (FAILURE, FAILURE)
    assert details.startswith(f"[{group}] {option}: '{uri}' is no address")


def test_what_does_nothing_is_a_warning(cloud):
    more = '[filter_scheduler]\nuse_baremetal_filters = True\n'
    code, verdicts = cloud.judge(more=more)
    result, details = verdicts['Options']
    assert (code, result) == (WARNING, WARNING)
    assert 'use_baremetal_filters' in details


@pytest.mark.parametrize(
    ('more', 'says'),
    [
        pytest.param(
            '[scheduler]\nworkerz = 1\n',
            '[scheduler] workerz is no option and does nothing. Did you mean workers?',
            id='an option',
        ),
        pytest.param(
            '[filter_schedular]\nhost_subset_size = 2\n',
            '[filter_schedular] is no group of options and does nothing. '
            'Did you mean [filter_scheduler]?',
            id='a group',
        ),
    ],
)
def test_what_is_misspelt_is_a_warning(cloud, more, says):
    code, verdicts = cloud.judge(more=more)
    assert (code, verdicts['Options']) == (WARNING, (WARNING, says))


def test_a_broker_that_nobody_serves_is_a_failure(cloud):
    url = f'rabbit://nova:s3cret@127.0.0.1:{free_port()}/'
    code, verdicts = cloud.judge(more=f'[DEFAULT]\ntransport_url = {url}\n')
    result, details = verdicts['Message queue']
    assert (code, result) == (FAILURE, FAILURE)
    assert details.startswith('[DEFAULT] transport_url: no broker answers: 127.0.0.1:')
    assert 's3cret' not in details


@pytest.mark.parametrize(
    ('more', 'skipped'),
    [
        pytest.param(
            '[api_database]\nconnection = sqlite:////nonexistent/x\n',
            {'Older than N-1 computes', 'Databases'},
            id='one database',
        ),
        pytest.param(
            '[api_database]\nconnection = mysql+mysqldb://h/x\n'
            '[database]\nconnection = mysql+mysqldb://h/y\n',
            {
                'Older than N-1 computes',
                'Newer schedulers',
                'Databases',
                'Driver, filters and weighers',
            },
            id='a driver that both databases lack',
        ),
    ],
)
def test_one_cause_is_named_once(cloud, more, skipped):
    code, verdicts = cloud.judge(more=more)
    said = {name for name, verdict in verdicts.items() if verdict[1] == SKIPPED}
    assert (code, said) == (FAILURE, skipped)
    assert verdicts['Cells v2'][1].startswith('[api_database] connection: ')


SKIPPED = 'Skipped: see Cells v2.'


@pytest.mark.parametrize('words', [[], ['upgrade']])
def test_the_command_must_be_given(words, capsys):
    if words:
        assert main(words) == 2
    else:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert 'upgrade check' in capsys.readouterr().out
