# SPDX-License-Identifier: Apache-2.0
"""Servers found by name in the databases of all cells."""

import contextlib
import sqlite3

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors
from novasched.db import tables
from novasched.inspection.session import servers
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-00000000000{n}' for n in range(5)]


def url(path):
    return f'sqlite:///{path}'


def make(path, metadata, rows):
    """Make a database with the rows of one table."""
    engine = sa.create_engine(url(path))
    metadata.create_all(engine)
    with engine.begin() as connection:
        for table, values in rows:
            connection.execute(table.insert().values(**values))
    engine.dispose()


def instance(uuid, name, deleted=0):
    return tables.instances, {'uuid': uuid, 'display_name': name, 'deleted': deleted}


@pytest.fixture
def conf(tmp_path):
    """A cell0 with a server that failed, and a cell with others."""
    make(tmp_path / 'cell0', tables.CELL, [instance(UUIDS[0], 'failed')])
    make(
        tmp_path / 'cell1',
        tables.CELL,
        [
            instance(UUIDS[1], 'web'),
            instance(UUIDS[2], 'Web'),
            instance(UUIDS[3], 'web', deleted=3),
            instance(UUIDS[4], 'gone', deleted=4),
        ],
    )
    mappings = [
        (
            tables.cell_mappings,
            {
                'uuid': UUIDS[number],
                'name': name,
                'transport_url': 'none:///',
                'database_connection': url(tmp_path / name),
                'disabled': False,
            },
        )
        for number, name in enumerate(['cell0', 'cell1'])
    ]
    make(tmp_path / 'api', tables.API, mappings)
    made = cfg.ConfigOpts()
    for group, opts in servers.OPTIONS.items():
        made.register_opts(opts, group)
    made([], project='nova', default_config_files=[], default_config_dirs=[])
    made.set_override('connection', url(tmp_path / 'api'), 'api_database')
    return made


def called(conf, name, **options):
    """Return the servers of a name, and the cells that did not answer."""
    with servers.opened(conf, **options) as finder:
        return finder.called(name), finder.unreadable


@cases(
    'name, uuids',
    ('one that was not deleted', 'web', [UUIDS[1]]),
    ('capitals count', 'Web', [UUIDS[2]]),
    ('one that was never placed', 'failed', [UUIDS[0]]),
    ('a deleted one', 'gone', [UUIDS[4]]),
    ('none', 'other', []),
)
def test_servers_of_a_name(conf, name, uuids):
    assert called(conf, name) == (uuids, [])


def test_several_servers_of_a_name(conf, tmp_path):
    engine = sa.create_engine(url(tmp_path / 'cell0'))
    with engine.begin() as connection:
        table, values = instance('77ad0000-0000-4000-8000-000000000001', 'web')
        connection.execute(table.insert().values(**values))
    engine.dispose()
    assert len(called(conf, 'web')[0]) == 2


def test_a_cell_that_is_away_is_named(conf, tmp_path):
    (tmp_path / 'cell1').write_text('no database')
    assert called(conf, 'failed') == ([UUIDS[0]], ['cell1'])


def test_cells_that_hang_cost_one_deadline(conf, tmp_path):
    paths = [tmp_path / name for name in ('cell0', 'cell1')]
    started = SYSTEM_CLOCK.monotonic()
    with contextlib.ExitStack() as locked:
        for path in paths:
            connection = locked.enter_context(contextlib.closing(sqlite3.connect(path)))
            connection.execute('BEGIN EXCLUSIVE')
        found = called(conf, 'web', within_s=0.3)
        took_s = SYSTEM_CLOCK.monotonic() - started
    assert found == ([], ['cell0', 'cell1'])
    assert took_s < 4


def test_server_of_a_move_is_found_by_its_very_name(conf):
    with servers.opened(conf) as finder:
        assert finder.one('Web').uuid == UUIDS[2]
        with pytest.raises(errors.OptionError, match='there is no server gone'):
            finder.one('gone')


def test_without_an_api_database_there_is_no_answer(conf, tmp_path):
    (tmp_path / 'api').unlink()
    with pytest.raises(errors.StoreFailed):
        called(conf, 'web')
