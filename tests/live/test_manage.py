# SPDX-License-Identifier: Apache-2.0
"""Our novasched-manage and the peer's nova-manage, side by side.

Each has databases of its own that begin equal; after the same commands both have
printed the same, ended with the same codes, and left the same rows.
"""

import io
import logging
import re

import pytest
import sqlalchemy as sa

from novasched.cmd import manage, status
from novasched.db import tables
from novasched.db.transactions import Database
from novasched.manage.program import CommandProgram
from novasched.manage.status import Status
from novasched_lab.db import schema
from tests.live.daemon import own_program
from tests.live.servers.process import run
from tests.support.databases.databases import node, service
from tests.support.tables.combinations import SERVERS

pytestmark = pytest.mark.ours

UUID = re.compile(r'\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b')
CHECK = re.compile(r'\| Check: (.*?)\s+\|\n\| Result: (\w+)\s+\|\n(.*?)\n\+', re.DOTALL)
# Both name their databases with as many letters, so tables are as wide.
SQLITE = pytest.param('sqlite', marks=pytest.mark.exhaustive('the same on files'))
SIDES = ('ours', 'peer')
FAILED = 255
NO_BROKER = 'transport_url = fake:///'
NAMES = ('api', 'zero', 'one', 'two')


@pytest.fixture(autouse=True)
def _logging_as_before():
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers = before
    root.setLevel(level)


def ours(program, *words):
    """Run a program of ours in this process; give its exit code and its output."""
    out, err = io.StringIO(), io.StringIO()
    kind, commands = {
        'manage': (CommandProgram, manage.commands()),
        'status': (Status, status.COMMANDS),
    }[program]
    try:
        code = kind(commands, stdout=out, stderr=err).run(list(words))
    except SystemExit as end:
        code = end.code
    return code, out.getvalue()


class Side:
    """The databases and the program of one of the two."""

    def __init__(self, name, run_program, directory, create_database):
        self.name = name
        self._run = run_program
        self._directory = directory
        self.urls = {
            which: create_database(f'{name}_{which}_{directory.name}')
            for which in NAMES
        }
        self.engines = {
            which: sa.create_engine(url) for which, url in self.urls.items()
        }
        for which, engine in self.engines.items():
            make = schema.create_api if which == 'api' else schema.create_cell
            make(Database(engine), which)

    def close(self):
        for engine in self.engines.values():
            engine.dispose()

    def run(self, program, *words, more='', **options):
        """Run a command; give its code, and what it printed without its names."""
        conf = self._directory / f'{self.name}.conf'
        transport = options.get('transport', 'transport_url = rabbit://u:hidden@mq/')
        conf.write_text(
            f'[DEFAULT]\nstate_path = {self._directory}\n{transport}\n'
            f'[api_database]\nconnection = {self.urls["api"]}\n'
            f'[database]\nconnection = {self.urls["one"]}\n{more}'
        )
        words = [word.format(**self.urls) for word in words]
        code, out = self._run(program, '--config-file', str(conf), *words)
        return code, self._neutral(out)

    def _neutral(self, text):
        seen = {}
        text = UUID.sub(lambda m: f'{seen.setdefault(m[0], len(seen)):036}', text)
        return text.replace(f'{self.name}_', 'side_')

    def add(self, database, table, *rows):
        with self.engines[database].begin() as connection:
            for row in rows:
                connection.execute(sa.insert(table).values(row))

    def execute(self, database, text):
        with self.engines[database].begin() as connection:
            connection.execute(sa.text(text))

    def left(self):
        """The rows that discovery and the making of cells leave."""
        c, h = tables.cell_mappings.c, tables.host_mappings.c
        mappings = sa.select(c.name, h.host).join_from(c.id.table, h.id.table)
        cells = sa.select(c.name, c.transport_url, c.database_connection, c.disabled)
        n = tables.compute_nodes.c
        nodes = sa.select(n.host, n.hypervisor_hostname, n.mapped).order_by(n.id)
        found = [self._rows('api', mappings.order_by(h.id))]
        found.append(self._rows('api', cells.order_by(c.id)))
        return [*found, *(self._rows(which, nodes) for which in ('one', 'two'))]

    def _rows(self, which, query):
        with self.engines[which].connect() as connection:
            return [self._neutral(str(tuple(row))) for row in connection.execute(query)]


@pytest.fixture(params=[SQLITE, *SERVERS])
def sides(request, tmp_path, peer_programs):
    """Both sides, on files and on each of the servers."""
    if request.param == 'sqlite':
        (tmp_path / 'databases').mkdir()

        def create(name):
            return f'sqlite:///{tmp_path}/databases/{name}'
    else:
        create = request.getfixturevalue(request.param).create_database

    def peers(program, *words):
        done = peer_programs.run(f'nova-{program}', *words)
        return done.returncode, done.stdout

    made = [
        Side(name, program, tmp_path, create)
        for name, program in zip(SIDES, (ours, peers), strict=True)
    ]
    yield made
    for side in made:
        side.close()


def both(sides, program, *words, **options):
    """Run a command on both sides; give what both gave, if it is the same."""
    mine, theirs = (side.run(program, *words, **options) for side in sides)
    if theirs[0] == FAILED:
        # The peer prints where its code was.
        assert mine[0] == FAILED
    else:
        assert mine == theirs, words
    return mine


def make_cells(sides):
    """Make cell0, cell1, and one without a name; check that both agree."""
    make = ('manage', 'cell_v2', 'create_cell')
    both(sides, 'manage', 'cell_v2', 'map_cell0', '--database_connection', '{zero}')
    first = both(sides, *make, '--name', 'Cell1', '--verbose')
    second = both(
        sides,
        *(*make, '--disabled', '--database_connection', '{two}'),
        *('--transport-url', 'rabbit://{{username}}:{{password}}@{{hostname}}/2?'),
    )
    assert (first[0], second) == (0, (0, ''))


def add_hosts(sides):
    """Write nodes and services that no host mapping is for yet."""
    nodes = [
        node(host='h1', hypervisor_hostname='a', uuid='0' * 36),
        node(host='h1', hypervisor_hostname='b', uuid='1' * 36),
        node(host='H2', hypervisor_hostname='c', uuid='2' * 36),
        node(host='h3', hypervisor_hostname='d', mapped=None),
        node(host='h4', hypervisor_hostname='e', mapped=1),
        node(host='h5', hypervisor_hostname='f', deleted=5),
    ]
    services = [service(host=f'h{number}') for number in range(1, 8)]
    for side in sides:
        side.add('one', tables.compute_nodes, *nodes)
        side.add('one', tables.services, *services)
        side.add('two', tables.compute_nodes, node(host='a2', uuid='3' * 36))


def test_cells_and_hosts_are_made_and_listed_alike(sides):
    make = ('manage', 'cell_v2', 'create_cell')
    discover = ('manage', 'cell_v2', 'discover_hosts')
    both(sides, 'manage', 'cell_v2', 'list_cells')
    both(sides, 'manage', 'cell_v2', 'list_hosts')
    for words in ((), ('--verbose',), ('--strict',)):
        both(sides, *discover, *words)
    make_cells(sides)
    assert both(sides, *discover, '--strict') == (1, '')
    add_hosts(sides)
    for words, code in (
        (('--verbose',), 0),
        (('--verbose',), 0),
        (('--strict',), 1),
        (('--by-service', '--verbose'), 0),
        (('--by-service', '--strict'), 1),
        (('--cell_uuid', 'none'), FAILED),
        (('--cell_uuid', '00000000-0000-0000-0000-000000000000', '--verbose'), 0),
    ):
        assert both(sides, *discover, *words)[0] == code
    for side in sides:
        side.add('two', tables.compute_nodes, node(host='a3', hypervisor_hostname='g'))
    assert both(sides, *discover, '--strict') == (0, '')
    assert both(sides, 'manage', 'cell_v2', 'list_hosts')[0] == 0
    words = ('manage', 'cell_v2', 'list_hosts', '--cell_uuid')
    assert both(sides, *words, 'none')[0] == 1
    assert both(sides, *words, '00000000-0000-0000-0000-000000000000')[0] == 0
    assert sides[0].left() == sides[1].left()
    assert both(sides, 'manage', 'cell_v2', 'map_cell0')[0] == 0
    for words, code in (
        ((), 2),
        (('--name', 'x', '--transport-url', 'rabbit://other/'), 2),
        (('--name', 'x', '--database_connection', 'sqlite:///other'), 2),
        (('--transport-url', 'nonsense'), 1),
        (('--transport-url', 'rabbit://h:port/'), 1),
    ):
        assert both(sides, *make, *words)[0] == code
    both(sides, *make, transport='', more='')
    for words in ((), ('--verbose',)):
        assert both(sides, 'manage', 'cell_v2', 'list_cells', *words)[0] == 0
    assert sides[0].left() == sides[1].left()


@pytest.mark.parametrize('sides', ['sqlite'], indirect=True)
def test_collision_is_reported_as_by_nova(sides):
    make_cells(sides)
    for side in sides:
        side.add('one', tables.compute_nodes, node(uuid='0' * 36))
        side.add('one', tables.services, service())
        side.execute(
            'api',
            'CREATE TRIGGER collision BEFORE INSERT ON host_mappings '
            'WHEN NOT EXISTS (SELECT 1 FROM host_mappings) '
            'BEGIN INSERT INTO host_mappings (cell_id, host) '
            'VALUES (new.cell_id, new.host); END',
        )
    for option in ('--verbose', '--by-service', '--strict'):
        (mine, said), (theirs, expected) = (
            side.run('manage', 'cell_v2', 'discover_hosts', option) for side in sides
        )
        assert (mine, theirs) == (2, 2)
        # Ours goes on with the other cells before it tells.
        assert said.splitlines()[-1] == expected.splitlines()[-1]


@pytest.mark.parametrize('sides', ['sqlite'], indirect=True)
def test_wrong_use_and_databases_without_tables_have_the_same_codes(sides):
    for words in (
        (),
        ('cell_v2',),
        ('cell_v2', 'an-unknown-action'),
        ('cell_v2', 'list_cells', '--an-unknown-option'),
        ('cell_v2', 'list_hosts', '--cell_uuid'),
    ):
        assert [side.run('manage', *words)[0] for side in sides] == [2, 2], words
    for side in sides:
        for table in reversed(tables.API.sorted_tables):
            side.execute('api', f'DROP TABLE {table.name}')
    for word in ('list_cells', 'list_hosts', 'discover_hosts', 'map_cell0'):
        codes = [side.run('manage', 'cell_v2', word)[0] for side in sides]
        assert codes == [FAILED] * 2, word


def judged(sides):
    """What each side says of the checks that both have: (result, details).

    A broker that is not there would cost two seconds. No conductor shows the release.
    """
    release = '[novasched]\nnova_release = 34\n'
    found = []
    for side in sides:
        _, out = side.run(
            'status', 'upgrade', 'check', transport=NO_BROKER, more=release
        )
        checks = {name: (result, text) for name, result, text in CHECK.findall(out)}
        found.append({name: checks[name] for name in SHARED})
    return found


SHARED = ('Cells v2', 'Placement API', 'Older than N-1 computes')


@pytest.mark.parametrize('sides', ['sqlite'], indirect=True)
def test_checks_have_the_same_results(sides):
    def agree(cells, computes='Success'):
        mine, theirs = judged(sides)
        for name in SHARED:
            assert mine[name][0] == theirs[name][0], name
        assert mine['Cells v2'][0] == cells
        assert mine['Older than N-1 computes'][0] == computes
        for name in SHARED[1:]:
            said, expected = (
                side[name][1].replace('|', ' ').split() for side in (mine, theirs)
            )
            # What is to be done stands behind the words of the peer.
            assert said[: len(expected)] == expected

    agree('Failure')
    make_cells(sides)
    agree('Success')
    for side in sides:
        side.add('one', tables.compute_nodes, node())
    agree('Failure')
    both(sides, 'manage', 'cell_v2', 'discover_hosts')
    agree('Success')
    for side in sides:
        side.add('one', tables.services, service(version=60))
    agree('Success', 'Failure')


def test_the_programs_are_installed():
    assert 'cell_v2 list_hosts' in run([own_program('novasched-manage'), '--help'])
    assert 'upgrade check' in run([own_program('novasched-status'), '--help'])
