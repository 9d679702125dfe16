# SPDX-License-Identifier: Apache-2.0
"""Engines from options."""

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.cluster import view
from novasched.db import engines, transactions
from tests.support.tables.cases import cases

MYSQL = 'mysql+pymysql://u:secret@127.0.0.1:1/x'


@cases(
    ('url', 'query'),
    (
        'MySQL',
        MYSQL,
        {'connect_timeout': '10', 'read_timeout': '20', 'write_timeout': '20'},
    ),
    (
        'what the URL says is kept',
        f'{MYSQL}?read_timeout=5',
        {'connect_timeout': '10', 'read_timeout': '5', 'write_timeout': '20'},
    ),
    (
        'PostgreSQL',
        'postgresql+psycopg2://u@h/x',
        {
            'connect_timeout': '10',
            'options': '-c statement_timeout=20000',
            'tcp_user_timeout': '20000',
            'keepalives_idle': '10',
        },
    ),
    ('SQLite', 'sqlite:///x', {'timeout': '20'}),
)
def test_every_statement_is_bounded(conf, url, query):
    engine = engines.main_engine(conf(url), timeout_s=20)
    assert dict(engine.url.query) == query


def test_a_cell_has_all_options_but_the_connection(conf):
    made = conf(
        'sqlite://',
        connection_recycle_time=7,
        max_pool_size=3,
        max_overflow=4,
        pool_timeout=9,
        connection_parameters='read_timeout=5&charset=utf8',
    )
    engine = engines.cell_engine(made, MYSQL)
    assert engine.url.database == 'x'
    assert engine.url.query['read_timeout'] == '5'
    assert engine.url.query['charset'] == 'utf8'
    assert engine.pool.size() == 3
    assert engine.pool.timeout() == 9


def test_a_statement_may_take_as_long_as_a_full_read_in_the_background(conf):
    engine = engines.cell_engine(conf(), MYSQL)
    assert float(engine.url.query['read_timeout']) >= view.BACKGROUND_TIMEOUT_S


@cases(
    ('url', 'says'),
    ('unset', None, 'not set'),
    ('empty', '', 'not set'),
    ('no URL', 'localhost:secret', 'not a database URL'),
    ('unknown', 'x+y://u:secret@h/x', 'no usable driver'),
    ('bad port', 'mysql+pymysql://u:secret@h:port/x', 'not a database URL'),
    *(
        (url, url, 'an @ stands behind')
        for url in (
            'mysql+pymysql://u:p@secret@h/x',
            'mysql+pymysql://u:p@secret/p@h/x',
            'mysql+pymysql://u:p@secret?p@h/x',
        )
    ),
)
def test_an_option_that_names_no_database(conf, url, says):
    with pytest.raises(errors.OptionError, match=says) as refused:
        engines.api_engine(conf(api=url))
    assert refused.value.option == '[api_database] connection'
    assert 'secret' not in str(refused.value)


def test_a_server_that_is_not_there_is_asked_again_and_named_without_the_password(conf):
    waits = []
    engine = engines.main_engine(conf(MYSQL))
    with pytest.raises(errors.OptionError) as failed:
        engines.check(
            engine, engines.MAIN, max_retries=2, retry_interval_s=7, wait=waits.append
        )
    assert waits == [7, 7]
    assert failed.value.option == '[database] connection'
    assert 'mysql+pymysql://u:***@127.0.0.1:1/x cannot be used' in str(failed.value)
    assert 'secret' not in str(failed.value)


def test_a_file_that_cannot_be_opened_is_named(conf, tmp_path):
    engine = engines.main_engine(conf(f'sqlite:///{tmp_path}/none/x'))
    with pytest.raises(errors.OptionError, match='unable to open database file'):
        engines.check(engine, engines.MAIN)


def test_a_database_that_can_be_used(conf):
    engine = engines.main_engine(conf('sqlite://'))
    engines.check(engine, engines.MAIN)
    engine.dispose()


@cases(
    ('query', 'option', 'says'),
    (
        'no file of authorities',
        'ssl_ca=/none.pem',
        '[database] connection: ssl_ca',
        '/none.pem: no such file or directory',
    ),
    (
        'a file of authorities that is none',
        f'ssl_ca={__file__}',
        '[database] connection: ssl_ca',
        'no certificate can be read from it',
    ),
    (
        'no certificate of ours',
        'ssl_cert=/none.pem&ssl_key=/none.key',
        '[database] connection: ssl_cert',
        '/none.pem: no such file or directory',
    ),
    (
        'an option that the driver does not know',
        'compres=1',
        '[database] connection',
        "unexpected keyword argument 'compres'",
    ),
    (
        'a value that the driver does not know',
        'charset=utf7',
        '[database] connection',
        'cannot be used: ',
    ),
)
def test_an_option_behind_the_url_that_cannot_be_used_is_named(
    conf, query, option, says
):
    with pytest.raises(errors.OptionError) as failed:
        engines.check(engines.main_engine(conf(f'{MYSQL}?{query}')), engines.MAIN)
    assert failed.value.option == option
    assert says in failed.value.problem
    assert 'secret' not in str(failed.value)


@pytest.mark.parametrize('url', [MYSQL, 'nonsense'])
def test_a_replica_that_cannot_be_used_is_named(conf, url):
    made = conf('sqlite://', slave_connection=url, synchronous_reader=False)
    with pytest.raises(errors.OptionError) as failed:
        engines.check(engines.cell_engine(made, 'sqlite://'), engines.CELL)
    assert failed.value.option == '[database] slave_connection'


REPLICA = 'sqlite:///replica'


def reader(engine):
    """The engine that is read from."""
    return engine.get_execution_options().get(transactions.REPLICA, engine)


@cases(
    ('options', 'read'),
    ('no replica', {}, 'main'),
    ('as by default', {'slave_connection': REPLICA}, 'main'),
    (
        'reads may lag',
        {'slave_connection': REPLICA, 'synchronous_reader': False},
        'replica',
    ),
    ('nothing to read from', {'synchronous_reader': False}, 'main'),
)
def test_a_replica_is_read_from_where_reads_may_lag(conf, options, read):
    made = conf('sqlite:///main', **options)
    engine = engines.cell_engine(made, 'sqlite:///main')
    assert reader(engine).url.database == read
    assert engine.url.database == 'main'
    assert len(engines.warnings(made)) == (read == 'replica')


def test_the_services_of_schedulers_are_read_where_they_are_written(conf):
    made = conf('sqlite:///main', slave_connection=REPLICA, synchronous_reader=False)
    assert reader(engines.main_engine(made)).url.database == 'main'


@cases(
    'main, cell, same',
    ('other parameters', MYSQL, f'{MYSQL}?charset=utf8', True),
    ('another user', MYSQL, MYSQL.replace('u:', 'v:'), True),
    ('another database', MYSQL, MYSQL.replace('/x', '/y'), False),
    ('another port', MYSQL, MYSQL.replace(':1/', ':2/'), False),
    ('no database of our own', None, MYSQL, False),
)
def test_replica_serves_only_its_own_database(conf, main, cell, same):
    made = conf(main, slave_connection=REPLICA, synchronous_reader=False)
    engine = engines.cell_engine(made, cell)
    assert (reader(engine) is not engine) == same


def test_a_replica_is_closed_with_its_database(conf):
    made = conf('sqlite://', slave_connection='sqlite://', synchronous_reader=False)
    engine = engines.cell_engine(made, 'sqlite://')
    replica = reader(engine)
    assert replica is not engine
    closed = []
    sa.event.listen(replica, 'engine_disposed', closed.append)
    engine.dispose()
    assert closed == [replica]


def test_reads_use_the_replica_and_writes_the_main_database(conf):
    made = conf('sqlite://', slave_connection='sqlite://', synchronous_reader=False)
    engine = engines.cell_engine(made, 'sqlite://')
    database = transactions.Database(engine)
    for each, name in ((engine, 'main'), (reader(engine), 'replica')):
        with each.begin() as connection:
            connection.execute(sa.text(f"CREATE TABLE t AS SELECT '{name}' AS name"))
    with database.read() as connection:
        assert connection.execute(sa.text('SELECT name FROM t')).scalar() == 'replica'
    with database.write() as connection:
        assert connection.execute(sa.text('SELECT name FROM t')).scalar() == 'main'
    engine.dispose()
