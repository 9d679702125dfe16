# SPDX-License-Identifier: Apache-2.0
"""The stores on MariaDB and PostgreSQL, and our tables beside the peer's."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from oslo_config import cfg

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched import errors
from novasched.db import engines, tables
from novasched.db.stores import SqlCellStore
from novasched.db.transactions import Database
from novasched_lab.db import schema
from tests.support.checks import store_checks
from tests.support.databases.databases import Databases, node
from tests.support.tables.combinations import SERVERS


def conf_for(url):
    """Make a configuration with a main database."""
    conf = cfg.ConfigOpts()
    for group, opts in engines.OPTS.items():
        conf.register_opts(opts, group)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('connection', url, 'database')
    return conf


@pytest.fixture(scope='module')
def opened():
    """Open engines that are closed at the end: `opened(url, **options)`."""
    made = []

    def open_engine(url, **options):
        made.append(engines.main_engine(conf_for(url), **options))
        return made[-1]

    yield open_engine
    for engine in made:
        engine.dispose()


@pytest.fixture(scope='module', params=SERVERS)
def server(request):
    """Each of the database servers."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope='module')
def tables_of_ours(server, opened):
    """An API database and a cell's, made by us."""
    api, cell = (server.create_database(f'stores_{name}') for name in ('api', 'cell'))
    made = Databases(opened(api), opened(cell))
    made.create_tables()
    return made


@pytest.fixture(scope='module')
def tables_of_the_peer(server, opened, cloud):
    """An API database and a cell's, made by the peer's nova-manage."""
    names = ('api', 'cell0')
    urls = {name: server.create_database(f'peer_stores_{name}') for name in names}
    cloud.make_tables(urls, f'{type(server).__name__}-')
    return Databases(*map(opened, urls.values()))


@pytest.mark.parametrize('check', store_checks.CHECKS, ids=lambda check: check.__name__)
def test_on_our_tables(check, tables_of_ours):
    tables_of_ours.empty()
    check(tables_of_ours)


@pytest.mark.parametrize(
    'check',
    [
        check
        for check in store_checks.CHECKS
        if check is not store_checks.making_the_tables_again_changes_nothing
    ],
    ids=lambda check: check.__name__,
)
def test_on_the_tables_of_the_peer(check, tables_of_the_peer):
    tables_of_the_peer.empty()
    check(tables_of_the_peer)


def shape(engine, table):
    """Columns with type and nullability, and keys, as the server tells them."""
    inspector = sa.inspect(engine)
    columns = [
        (column['name'], str(column['type']), column['nullable'])
        for column in inspector.get_columns(table)
    ]
    unique = {
        tuple(index['column_names'])
        for index in inspector.get_indexes(table)
        if index['unique']
    }
    foreign = {
        (*key['constrained_columns'], key['referred_table'], *key['referred_columns'])
        for key in inspector.get_foreign_keys(table)
    }
    return columns, unique, foreign


@pytest.mark.parametrize(
    'table',
    [*tables.API.sorted_tables, *tables.CELL.sorted_tables],
    ids=lambda table: table.name,
)
def test_our_tables_have_the_shape_of_the_peers(
    table, tables_of_ours, tables_of_the_peer
):
    which = 0 if table.metadata is tables.API else 1
    ours = shape(tables_of_ours[which], table.name)
    assert ours == shape(tables_of_the_peer[which], table.name)


def test_the_tables_of_the_peer_are_left_alone(tables_of_the_peer):
    database = Database(tables_of_the_peer.cell)
    with pytest.raises(errors.OptionError, match='belong to nova'):
        schema.create_cell(database, '[database] connection')


def test_a_database_that_is_missing_is_named(server, opened):
    engine = opened(server.url('no_such_database'))
    with pytest.raises(errors.OptionError) as failed:
        engines.check(engine, engines.MAIN)
    assert failed.value.option == '[database] connection'
    assert 'no_such_database' in failed.value.problem
    assert 'database-secret' not in str(failed.value)


def test_wrong_password_is_reported_and_not_shown(mariadb, opened):
    engine = opened(mariadb.url('mysql').replace('database-secret', 'bad-secret'))
    with pytest.raises(errors.OptionError, match='access denied') as failed:
        engines.check(engine, engines.MAIN)
    assert 'bad-secret' not in str(failed.value)


def test_a_statement_that_hangs_is_given_up(server, tables_of_ours, opened):
    store = SqlCellStore(opened(server.url('stores_cell'), timeout_s=1), 'a cell')
    exclusive = tables_of_ours.cell.dialect.name == 'postgresql'
    lock = f'LOCK TABLE{"" if exclusive else "S"} compute_nodes'
    with tables_of_ours.cell.connect() as connection:
        connection.detach()  # so that the lock ends with the connection
        connection.execute(sa.text(lock if exclusive else f'{lock} WRITE'))
        started = time.monotonic()
        with pytest.raises(errors.StoreFailed):
            store.compute_nodes()
        assert time.monotonic() - started < 10
    assert isinstance(store.compute_nodes(), list)
    store.close()


def test_reads_come_from_the_replica(server, tables_of_ours):
    url, replica = (server.create_database(f'lag_{name}') for name in ('main', 'slave'))
    conf = conf_for(url)
    conf.set_override('slave_connection', replica, 'database')
    conf.set_override('synchronous_reader', False, 'database')
    for each in (url, replica):
        engine = engines.main_engine(conf_for(each))
        schema.create_cell(Database(engine), engines.MAIN)
        if each == replica:
            Databases(engine, engine).add(tables.compute_nodes, node(host='lagging'))
        engine.dispose()
    engine = engines.cell_engine(conf, url)
    store = SqlCellStore(engine, 'a cell')
    assert [row.host for row in store.compute_nodes()] == ['lagging']
    with Database(engine).write() as connection:
        written = sa.select(sa.func.count()).select_from(tables.compute_nodes)
        assert connection.execute(written).scalar() == 0
    store.close()
    other = engines.cell_engine(conf, server.url('stores_cell'))
    store = SqlCellStore(other, 'another cell')
    assert 'lagging' not in [row.host for row in store.compute_nodes()]
    store.close()


OWN_ID = {'mysql': 'connection_id()', 'postgresql': 'pg_backend_pid()'}
END = {'mysql': 'KILL {}', 'postgresql': 'SELECT pg_terminate_backend({})'}


def test_a_cell_is_asked_by_one_connection_that_sees_all_that_is_committed(
    tables_of_ours, opened, caplog
):
    tables_of_ours.empty()
    engine = opened(tables_of_ours.cell.url.render_as_string(hide_password=False))
    store, kind = SqlCellStore(engine), engine.dialect.name
    taken = []
    sa.event.listen(engine, 'checkout', lambda *_: taken.append(1))

    def asked():
        with store.together() as rows:
            names = [row.host for row in rows.compute_nodes()]
            id_ = rows._ask(
                lambda c: c.execute(sa.select(sa.text(OWN_ID[kind]))).scalar()
            )
        return names, id_

    (_, first), started = asked(), len(taken)
    tables_of_ours.add(tables.compute_nodes, node(host='h1'))
    assert (asked(), len(taken)) == ((['h1'], first), started)
    with store.together() as busy:
        assert busy.compute_nodes()
        other = asked()
        assert other[1] != first
    kept, server = store._database._kept, tables_of_ours.cell

    def end(id_):
        with server.connect() as connection:
            connection.execute(sa.text(END[kind].format(id_)))

    end(asked()[1])
    with pytest.raises(errors.StoreInterrupted):
        asked()
    for times in ((0.0, time.monotonic()), (time.monotonic(), 0.0)):
        end(asked()[1])
        kept._free = [(each[0], *times) for each in kept._free]
        assert asked()[0] == ['h1']
    assert len(taken) == started + 4  # one that broke took the other one with it
    end(asked()[1])
    store.close()
    assert engine.pool.checkedout() == 0
    assert caplog.messages == []


def test_waiting_thread_gets_the_connection_of_a_pool_of_one(
    tables_of_ours, eventually
):
    url = tables_of_ours.cell.url.render_as_string(hide_password=False)
    conf = conf_for(url)
    for option, value in (('max_pool_size', 1), ('max_overflow', 0)):
        conf.set_override(option, value, 'database')
    store = SqlCellStore(engines.main_engine(conf))
    with ThreadPoolExecutor() as threads:
        with store.together():
            other = threads.submit(store.compute_nodes)
            eventually(lambda: store._database._kept._waiting == 1, 'another waits')
        assert isinstance(other.result(10), list)
    store.close()


def test_connections_that_verify_no_certificate_load_none(mariadb, opened):
    engine = opened(mariadb.create_database('shared_context'))
    with engine.connect() as one, engine.connect() as two:
        used = {each.connection.dbapi_connection.ctx for each in (one, two)}
    assert len(used) == 1
