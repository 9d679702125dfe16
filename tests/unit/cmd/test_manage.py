# SPDX-License-Identifier: Apache-2.0
"""novasched-manage, from its arguments to its exit code."""

import contextlib
import io
import json
import signal

import pytest
import sqlalchemy as sa

from novasched.cmd.manage import commands, main
from novasched.db import tables as declared
from novasched.manage.program import CommandProgram
from novasched.rpc.transport import HOW_TO_WRITE
from tests.support.databases.databases import Databases, node, service
from tests.support.tables.cases import cases

CELL0 = '00000000-0000-0000-0000-000000000000'
# Somebody else maps the host between the look and the insert.
COLLISION = (
    'CREATE TRIGGER collision BEFORE INSERT ON host_mappings '
    'WHEN NOT EXISTS (SELECT 1 FROM host_mappings) '
    'BEGIN INSERT INTO host_mappings (cell_id, host) '
    'VALUES (new.cell_id, new.host); END'
)


class Run:
    """What a command left behind."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err


@pytest.fixture
def manage(tmp_path):
    """Run a command on a configuration of SQLite files: `manage(*words)`."""
    conf = tmp_path / 'nova.conf'
    conf.write_text(
        '[DEFAULT]\ntransport_url = rabbit://u:hidden@mq/\n'
        f'[api_database]\nconnection = sqlite:///{tmp_path}/api\n'
        f'[database]\nconnection = sqlite:///{tmp_path}/main\n'
    )

    def run(*words, conf=conf):
        out, err = io.StringIO(), io.StringIO()
        program = CommandProgram(commands(), stdout=out, stderr=err)
        code = program.run(['--config-file', str(conf), *words])
        return Run(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def synced(manage):
    """As `manage`, with the tables made."""
    assert manage('api_db', 'sync').code == 0
    assert manage('db', 'sync').code == 0
    return manage


@pytest.fixture
def tables(tmp_path):
    engines = [
        sa.create_engine(f'sqlite:///{tmp_path}/{name}') for name in ('api', 'main')
    ]
    yield Databases(*engines)
    for engine in engines:
        engine.dispose()


def listed(manage, *words):
    return json.loads(manage('cell_v2', 'list_cells', '-f', 'json', *words).out)


def test_tables_are_made_once(manage):
    first = manage('api_db', 'sync')
    assert (first.code, first.err) == (0, '')
    assert 'cell_mappings' in first.out
    assert 'nothing was missing' in manage('api_db', 'sync').out


def test_the_tables_of_cell0_are_made_too(synced, tmp_path):
    synced('cell_v2', 'map_cell0')
    assert 'main_cell0' not in synced('db', 'sync', '--local_cell').out
    assert f'{tmp_path}/main_cell0: ' in synced('db', 'sync').out


def test_cell0_is_mapped_beside_the_main_database(synced, tmp_path):
    assert synced('cell_v2', 'map_cell0').code == 0
    again = synced('cell_v2', 'map_cell0', '--database_connection', 'sqlite:///x')
    assert (again.code, again.out) == (0, 'Cell0 is already setup\n')
    assert listed(synced) == [
        {
            'Name': 'cell0',
            'UUID': CELL0,
            'Transport URL': 'none:///',
            'Database Connection': f'sqlite:///{tmp_path}/main_cell0',
            'Disabled': False,
        }
    ]


def test_a_cell_is_made_of_given_urls(synced):
    made = synced(
        *('cell_v2', 'create_cell', '--name', 'c1', '--verbose', '--disabled'),
        *('--transport-url', 'rabbit://{username}:{password}@{hostname}/1'),
        *('--database_connection', 'sqlite:///c1'),
    )
    assert (made.code, made.err) == (0, '')
    (cell,) = listed(synced)
    assert cell == {
        'Name': 'c1',
        'UUID': made.out.strip(),
        'Transport URL': 'rabbit://u:****@mq/1',
        'Database Connection': 'sqlite:///c1',
        'Disabled': True,
    }
    assert listed(synced, '--verbose')[0]['Transport URL'] == 'rabbit://u:hidden@mq/1'


def test_a_cell_is_made_of_the_configured_urls_but_once(synced, tmp_path):
    made = synced('cell_v2', 'create_cell', '--name', 'c1')
    assert made.code == 0
    assert '--transport-url not provided in the command line' in made.out
    assert '--database_connection not provided in the command line' in made.out
    (cell,) = listed(synced)
    assert cell['Database Connection'] == f'sqlite:///{tmp_path}/main'
    twin = synced('cell_v2', 'create_cell', '--name', 'c2')
    assert (twin.code, twin.err) == (2, '')
    assert twin.out.splitlines()[-1] == (
        'The specified transport_url and/or database_connection combination already '
        f'exists for another cell with uuid {cell["UUID"]}.'
    )


@cases(
    'url, problem',
    ('no URL', 'nonsense', 'No scheme specified'),
    (
        'a port that is no number',
        'rabbit://h:port/',
        "invalid literal for int() with base 10: 'port'",
    ),
    ('a password that is not encoded', 'rabbit://nova:pa/ss@h:5672/', HOW_TO_WRITE),
)
def test_a_cell_needs_a_transport_url_that_makes_sense(synced, url, problem):
    refused = synced('cell_v2', 'create_cell', '--transport-url', url)
    assert refused.code == 1
    assert refused.out == f'Invalid transport URL: {problem}\n'
    assert listed(synced) == []


def test_cells_are_shown_in_the_table_of_nova(synced):
    assert synced('cell_v2', 'list_cells').out.splitlines() == [
        '+------+------+---------------+---------------------+----------+',
        '| Name | UUID | Transport URL | Database Connection | Disabled |',
        '+------+------+---------------+---------------------+----------+',
        '+------+------+---------------+---------------------+----------+',
    ]
    synced('cell_v2', 'map_cell0', '--database_connection', 'mysql://n:secret@db/c0')
    assert synced('cell_v2', 'list_cells').out.splitlines()[3] == (
        f'| cell0 | {CELL0} |     none:/    | mysql://n:****@db/c0 |  False   |'
    )
    shown = synced('cell_v2', 'list_cells', '--verbose').out
    assert '|    none:///   | mysql://n:secret@db/c0 |' in shown


@pytest.fixture
def two_cells(synced, tables):
    """Two cells, one without a name, and the hosts b and B2, a of the other."""
    for name in ((), ('--name', 'c1')):
        url = f'sqlite:///{len(name)}'
        synced(
            *('cell_v2', 'create_cell', '--transport-url', f'rabbit://{len(name)}/'),
            *('--database_connection', url, *name),
        )
    first, second = tables.rows(declared.cell_mappings)
    for row, host in ((first, 'b'), (second, 'B2'), (second, 'a')):
        tables.add(declared.host_mappings, {'cell_id': row['id'], 'host': host})
    return first['uuid'], second['uuid']


def test_hosts_are_listed_by_name(synced, two_cells):
    first, second = two_cells
    bar = f'+-----------+{"-" * 38}+----------+'
    assert synced('cell_v2', 'list_hosts').out.splitlines() == [
        bar,
        '| Cell Name |              Cell UUID               | Hostname |',
        bar,
        f'|     c1    | {second} |    B2    |',
        f'|     c1    | {second} |    a     |',
        f'|    None   | {first} |    b     |',
        bar,
    ]


def test_hosts_of_one_cell_are_listed(synced, two_cells):
    words = ('cell_v2', 'list_hosts', '-f', 'json', '--cell_uuid', two_cells[0])
    assert json.loads(synced(*words).out) == [
        {'Cell Name': None, 'Cell UUID': two_cells[0], 'Hostname': 'b'}
    ]
    missing = synced('cell_v2', 'list_hosts', '--cell_uuid', 'none')
    said = 'Cell with uuid none was not found.\n'
    assert (missing.code, missing.out, missing.err) == (1, said, '')


@cases(
    'words, codes',
    ('plain', (), (0, 0)),
    ('strict: the second run finds none', ('--strict',), (0, 1)),
)
def test_hosts_are_discovered(synced, tables, words, codes):
    synced('cell_v2', 'create_cell', '--name', 'c1')
    tables.add(declared.compute_nodes, node(host='h1'))
    runs = [synced('cell_v2', 'discover_hosts', *words) for _ in codes]
    assert tuple(run.code for run in runs) == codes
    assert [run.out + run.err for run in runs] == ['', '']


def test_discovery_tells_what_it_does(synced, tables):
    synced('cell_v2', 'map_cell0')
    synced('cell_v2', 'create_cell', '--name', 'c1')
    tables.add(declared.compute_nodes, node(host='h1', uuid='n1'))
    uuid = listed(synced)[0]['UUID']
    assert synced('cell_v2', 'discover_hosts', '--verbose').out.splitlines() == [
        'Found 2 cell mappings.',
        'Skipping cell0 since it does not contain hosts.',
        f"Getting computes from cell 'c1': {uuid}",
        "Checking host mapping for compute host 'h1': n1",
        "Creating host mapping for compute host 'h1': n1",
        f'Found 1 unmapped computes in cell: {uuid}',
    ]


def test_discovery_by_service(synced, tables):
    synced(
        *('cell_v2', 'create_cell', '--transport-url', 'rabbit://x/'),
        *('--database_connection', str(tables.cell.url)),
    )
    tables.add(declared.services, service(host='h1'))
    (cell,) = listed(synced)
    words = ('cell_v2', 'discover_hosts', '--by-service', '--verbose')
    assert synced(*words).out.splitlines() == [
        'Found 1 cell mappings.',
        f'Getting computes from cell: {cell["UUID"]}',
        'Creating host mapping for service h1',
        f'Found 1 unmapped computes in cell: {cell["UUID"]}',
    ]


@pytest.mark.parametrize('words', [(), ('--strict',), ('--by-service',)])
def test_collision_with_another_discovery_is_an_error(synced, tables, words):
    synced('cell_v2', 'create_cell', '--name', 'c1')
    tables.add(declared.compute_nodes, node(host='h1'))
    tables.add(declared.services, service(host='h1'))
    with tables.api.begin() as connection:
        connection.execute(sa.text(COLLISION))
    collided = synced('cell_v2', 'discover_hosts', *words)
    assert (collided.code, collided.err) == (2, '')
    assert collided.out.startswith('ERROR: Duplicate host mapping was encountered. ')
    assert collided.out.endswith(" Error: Host 'h1' mapping already exists\n")


def test_discovery_in_one_cell(synced, tables):
    synced('cell_v2', 'create_cell', '--name', 'c1')
    (cell,) = listed(synced)
    found = synced(
        'cell_v2', 'discover_hosts', '--cell_uuid', cell['UUID'], '--verbose'
    )
    assert (found.code, found.out.splitlines()[0]) == (
        (0, f"Getting computes from cell 'c1': {cell['UUID']}")
    )
    missing = synced('cell_v2', 'discover_hosts', '--cell_uuid', 'none')
    said = 'novasched-manage: Cell none has no mapping.\n'
    assert (missing.code, missing.err) == (255, said)


def test_a_cell_that_cannot_be_asked_fails_the_discovery(synced, tmp_path):
    synced(
        *('cell_v2', 'create_cell', '--transport-url', 'rabbit://x/'),
        *('--database_connection', f'sqlite:///{tmp_path}/none/x'),
    )
    failed = synced('cell_v2', 'discover_hosts')
    assert failed.code == 255
    said = 'novasched-manage: cell_mappings.database_connection: '
    assert failed.err.startswith(said)
    assert failed.err.count('\n') == 1


API_IS_NOT_SET = '[api_database] connection: not set. Set it to the URL of a database.'


@cases(
    'content, words, code, says',
    ('no API database', '', ('api_db', 'sync'), 255, API_IS_NOT_SET),
    ('nothing to list', '', ('cell_v2', 'list_hosts'), 255, API_IS_NOT_SET),
    (
        'no main database',
        '',
        ('db', 'sync'),
        1,
        '[database] connection: not set. Set it to the URL of a database.',
    ),
    (
        'no main database to put cell0 beside',
        '',
        ('cell_v2', 'map_cell0'),
        255,
        '[database] connection: not set. Set it, or give --database_connection.',
    ),
    (
        'no tables',
        '[api_database]\nconnection = sqlite://\n',
        ('cell_v2', 'list_cells'),
        255,
        'sqlite:// could not be asked: no such table: cell_mappings',
    ),
)
def test_errors_are_one_plain_line(manage, tmp_path, content, words, code, says):
    conf = tmp_path / 'other.conf'
    conf.write_text(content)
    failed = manage(*words, conf=conf)
    assert (failed.code, failed.err) == (code, f'novasched-manage: {says}\n')
    assert failed.out == ''


def test_debug_shows_where_it_failed(manage, tmp_path):
    conf = tmp_path / 'other.conf'
    conf.write_text('')
    failed = manage('--debug', 'api_db', 'sync', conf=conf)
    assert failed.code == 255
    assert 'Traceback' in failed.err


def test_unexpected_failure_is_one_line(synced):
    failed = synced('cell_v2', 'list_cells', '-c', 'none')
    assert failed.code == 255
    assert failed.err.startswith('novasched-manage: No recognized column names')
    assert failed.err.count('\n') == 1


def test_a_reader_that_goes_away_is_no_failure(synced, tmp_path):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    program = CommandProgram(commands(), stdout=Gone(), stderr=io.StringIO())
    words = ['--config-file', str(tmp_path / 'nova.conf'), 'cell_v2', 'list_cells']
    assert program.run(words) == 128 + signal.SIGPIPE


def test_a_cell_needs_a_database(manage, tmp_path):
    conf = tmp_path / 'other.conf'
    conf.write_text('')
    refused = manage('cell_v2', 'create_cell', conf=conf)
    assert (refused.code, refused.err) == (1, '')
    assert refused.out.splitlines()[-1] == (
        'Must specify --database_connection if [database]/connection is not set in the '
        'configuration file.'
    )


def test_a_missing_configuration_file_is_named(manage, tmp_path):
    failed = manage('db', 'sync', conf=tmp_path / 'none.conf')
    assert failed.code == 1
    assert failed.err.startswith('novasched-manage: ')
    assert 'none.conf' in failed.err
    assert failed.err.count('\n') == 1


@pytest.mark.parametrize('words', [[], ['--debug']])
def test_no_command_is_a_wrong_use(capsys, words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert 'cell_v2 discover_hosts' in capsys.readouterr().out


@pytest.mark.parametrize('words', [('cell_v2',), ('cell_v2', 'none'), ('none',)])
def test_an_unknown_command_is_a_wrong_use(manage, words):
    assert manage(*words).code == 2


def test_an_unknown_option_is_a_wrong_use(manage, capsys):
    with pytest.raises(SystemExit) as ended:
        manage('cell_v2', 'list_cells', '--none')
    assert ended.value.code == 2
    assert 'unrecognized arguments: --none' in capsys.readouterr().err


def test_every_command_has_a_help_text(capsys):
    for name, command in commands().items():
        with contextlib.suppress(SystemExit):
            main([*name.split(), '-h'])
        assert command.__doc__.split('\n')[0] in capsys.readouterr().out


def test_every_option_has_a_help_text(capsys):
    with contextlib.suppress(SystemExit):
        main(['-h'])
    assert '-h, --help          Show this help' in capsys.readouterr().out
