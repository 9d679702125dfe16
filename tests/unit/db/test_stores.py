# SPDX-License-Identifier: Apache-2.0
"""The stores on SQLite: the table of checks, and what needs no other back-end."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from novasched import errors
from novasched.db import engines, hosts, services, tables
from novasched.db.stores import SqlApiStore, SqlCellStore, SqlCellStores
from novasched.ports import Cell
from tests.support.checks import store_checks
from tests.support.databases.databases import NOON, node, service
from tests.support.tables.cases import cases

CELL = Cell('c1', 'one', None, 'sqlite://', False)


@pytest.mark.parametrize('check', store_checks.CHECKS, ids=lambda check: check.__name__)
def test_on_sqlite(check, databases):
    check(databases)


@pytest.mark.parametrize('cut', range(32))
def test_no_id_is_missing_from_a_list_that_a_server_cuts(databases, cut):
    ids = [5, 17, 170, 9999]
    rows = [node(id=id_, hypervisor_hostname=f'{id_}', updated_at=NOON) for id_ in ids]
    databases.add(tables.compute_nodes, *rows)
    named = ('a', 'b', 'c')
    databases.add(tables.services, *(service(host=h, disabled=True) for h in named))
    with databases.cell.connect() as connection:
        written = {row.id: row.checksum for row in hosts.read(connection)}

    class Cut:
        def __init__(self):
            self.values = []

        def step(self, value, separator):
            if value is not None:
                self.values.append(value)

        def finalize(self):
            whole = ','.join(self.values)
            return whole[: len(whole) - cut]

    with databases.cell.connect() as connection:
        connection.connection.create_aggregate('group_concat', 2, Cut)
        news = services.read_news(connection, NOON, NOON, 0, NOON, NOON)
    assert [row.host for row in news.services.live] == [*named]
    behind_last_id = len(f':{written[9999]}')
    if cut > behind_last_id:
        assert news.nodes.checksums is None
    else:  # of the last, at most, the checksum is another: its row is read again
        assert list(news.nodes.checksums) == ids
        assert (news.nodes.checksums == written) == (cut == 0)


@pytest.mark.parametrize(
    ('dialect', 'hinted'), [(mysql, True), (postgresql, False), (sqlite, False)]
)
def test_mysql_is_asked_not_to_cut_the_list(dialect, hinted):
    asked = str(services.NEWS.compile(dialect=dialect.dialect()))
    hint = 'SELECT /*+ SET_VAR(group_concat_max_len = 1048576) */ nodes.live'
    assert asked.startswith(hint) == hinted


@pytest.fixture
def stores(conf):
    """Stores of cells, and the URLs that were opened."""
    opened = []

    def make(url):
        opened.append(url)
        return engines.cell_engine(conf(), url)

    made = SqlCellStores(make)
    made.opened = opened
    yield made
    made.forget()


def test_a_cell_is_opened_once(stores):
    assert stores.open(CELL) is stores.open(CELL)
    assert stores.opened == ['sqlite://']


@cases(
    'forgotten, kept',
    ('the cell itself is forgotten', ['c1'], False),
    ('other cells are forgotten', ['c2', 'unknown'], True),
    ('all are forgotten', None, False),
)
def test_a_cell_stays_open_until_it_is_forgotten(stores, forgotten, kept):
    before = stores.open(CELL)
    stores.open(CELL._replace(uuid='c2'))
    stores.forget(forgotten)
    assert (stores.open(CELL) is before) == kept


@cases(
    'cell, says',
    (
        'a mapping without a URL',
        CELL._replace(database_connection=None),
        'Cell c1(one) could not be asked: its mapping has no database_connection',
    ),
    (
        'a mapping whose URL is none',
        CELL._replace(name=None, database_connection='no url'),
        'Cell c1 could not be asked: cell_mappings.database_connection: '
        'not a database URL. '
        'Write it as driver://user:password@host:port/database.',
    ),
)
def test_a_cell_that_cannot_be_opened_is_a_store_that_failed(stores, cell, says):
    with pytest.raises(errors.StoreFailed) as failed:
        stores.open(cell)
    assert str(failed.value) == says


def test_a_failure_names_the_cell_and_not_the_password(conf):
    engine = engines.cell_engine(conf(), 'mysql+pymysql://u:secret@127.0.0.1:1/x')
    store = SqlCellStore(engine, 'Cell c1')
    with pytest.raises(errors.StoreFailed) as failed:
        store.compute_nodes()
    assert failed.value.store == 'Cell c1'
    assert failed.value.problem == ('127.0.0.1:1 cannot be reached: connection refused')
    assert 'secret' not in str(failed.value)
    store.close()


def test_a_missing_table_is_a_store_that_failed(conf, tmp_path):
    engine = engines.main_engine(conf(f'sqlite:///{tmp_path}/empty'))
    with pytest.raises(errors.StoreFailed, match='no such table: compute_nodes'):
        SqlCellStore(engine).compute_nodes()


def test_the_api_database_is_named_without_its_url(tmp_path):
    engine = sa.create_engine(f'sqlite:///{tmp_path}/missing/api')
    with pytest.raises(errors.StoreFailed) as failed:
        SqlApiStore(engine).cells()
    assert str(failed.value) == (
        'The API database could not be asked: unable to open database file'
    )
