# SPDX-License-Identifier: Apache-2.0
"""Deadlocks, connections that are lost, and what errors tell."""

import sqlite3

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import exc as sa_exc

from novasched import errors
from novasched.db import tables, transactions
from novasched.db.transactions import Database
from tests.support.databases.databases import instance
from tests.support.tables.cases import cases


@pytest.fixture
def database(databases):
    return Database(databases.cell, 'the cell')


@pytest.mark.scenario('F22')
def test_a_deadlock_is_tried_again(database):
    problems = [db_exc.DBDeadlock()] * 2

    def step(connection):
        if problems:
            raise problems.pop()
        return 'done'

    assert database.retrying(step) == 'done'


def test_deadlocks_without_end_fail(database):
    tries = []

    def step(connection):
        tries.append(connection)
        raise db_exc.DBDeadlock

    with pytest.raises(errors.StoreFailed):
        database.retrying(step)
    assert len(tries) == 1 + transactions.DEADLOCK_RETRIES


def test_one_that_breaks_takes_those_that_are_kept_with_it(databases):
    kept = transactions._KeptConnections()
    with kept.lent(databases.cell) as first, kept.lent(databases.cell) as second:
        pass
    with pytest.raises(KeyError), kept.lent(databases.cell):
        raise KeyError('it broke')
    assert first.closed
    assert second.closed


LOST = sqlite3.ProgrammingError('Cannot operate on a closed database.')
"""What SQLAlchemy takes for a connection that is lost, as it does others."""


class Losing:
    """A database whose next statements raise ``problems``; ``used`` are the
    connections that its statements were on."""

    def __init__(self, url):
        self.problems, self.used = [], []
        # That of oslo.db for SQLite cannot roll back what was lost.
        self.engine = sa.create_engine(url)
        exc_filters.register_engine(self.engine)
        sa.event.listen(self.engine, 'do_execute', self._execute)
        self.database = Database(self.engine, 'the cell')

    def _execute(self, cursor, statement, parameters, context):
        self.used.append(cursor.connection)
        if self.problems:
            raise self.problems.pop(0)


@pytest.fixture
def losing(databases):
    made = Losing(databases.cell.url)
    yield made
    made.engine.dispose()


def count(connection):
    query = sa.select(sa.func.count()).select_from(tables.instances)
    return connection.execute(query).scalar()


def test_a_read_whose_connection_is_lost_is_made_on_a_new_one(losing):
    losing.problems = [LOST]
    assert losing.database.reading(count) == 0
    lost, new = losing.used
    assert lost is not new


def test_after_a_loss_no_connection_of_the_pool_is_used(losing):
    def count_twice():
        with losing.database.read() as one, losing.database.read() as other:
            count(one)
            count(other)

    count_twice()
    before = list(losing.used)
    losing.problems = [LOST]
    losing.database.reading(count)
    count_twice()
    lost, *after = losing.used[len(before) :]
    assert lost in before
    assert not any(connection in before for connection in after)


@cases(
    ('problems', 'error'),
    ('lost twice', [LOST, LOST], errors.StoreInterrupted),
    (
        'what another try does not mend',
        [sqlite3.OperationalError('no such table: x')],
        errors.StoreFailed,
    ),
)
def test_a_read_is_made_twice_at_most(losing, problems, error):
    losing.problems = list(problems)
    with pytest.raises(error) as failed:
        losing.database.reading(count)
    assert type(failed.value) is error
    assert len(losing.used) == len(problems)


@cases(
    'aborted',
    ('a deadlock, a lock not had in time', db_exc.DBDeadlock()),
    ('a connection that is lost', db_exc.DBConnectionError()),
)
@pytest.mark.scenario('F22')
def test_a_read_that_a_server_aborts_is_made_again(database, aborted):
    problems = [aborted]

    def question(connection):
        if problems:
            raise problems.pop()
        return 'done'

    assert database.reading(question) == 'done'


def test_a_bad_statement_is_a_store_that_failed(database):
    with pytest.raises(errors.StoreFailed) as failed, database.write() as connection:
        connection.execute(sa.text('SELECT nonsense'))
    assert str(failed.value) == 'the cell could not be asked: no such column: nonsense'


def test_a_database_without_a_name_is_called_by_its_url():
    engine = sa.create_engine('mysql+pymysql://u:secret@h:1/x?ssl_key=k')
    assert Database(engine).name == 'mysql+pymysql://u:***@h:1/x'


@cases(
    ('problem', 'text'),
    ('the first line', db_exc.DBError(ValueError('first\nsecond')), 'first'),
    (
        "the driver's words, without the statement",
        sa_exc.OperationalError('SELECT 1', {'x': 1}, ValueError('refused')),
        'refused',
    ),
    (
        'a URL with a password',
        ValueError('no way to mysql://u:a@b@h/x'),
        'no way to mysql://u:****@h/x',
    ),
    ('no text at all', ValueError(''), 'ValueError'),
)
def test_describe(problem, text):
    assert transactions.describe(problem) == text


def driver_error(*args):
    return sa_exc.OperationalError('SELECT 1', {}, Exception(*args))


@cases(
    'problem, away',
    ('a proxy without a server', driver_error(9001, 'Max connect timeout'), True),
    ('a connection that was ended', driver_error(1927, 'was killed'), True),
    (
        'a server that starts',
        driver_error('FATAL:  the database system is not accepting connections'),
        True,
    ),
    ('no connection is free', sa_exc.TimeoutError('QueuePool limit'), True),
    ('a password that is refused', driver_error(1045, 'Access denied'), False),
    ('no such table', driver_error(1146, 'no such table'), False),
)
def test_transient_errors_mean_an_unavailable_database(problem, away):
    assert transactions.is_unavailable(problem) == away


def test_a_step_that_read_what_another_changed_is_done_again(databases, database):
    reads = []

    def step(connection):
        query = sa.select(sa.func.count()).select_from(tables.instances)
        reads.append(connection.execute(query).scalar())
        if len(reads) == 1:
            databases.add(tables.instances, instance())
        connection.execute(sa.insert(tables.instances).values(instance()))

    database.retrying(step)
    assert reads == [0, 1]
    assert len(databases.rows(tables.instances)) == 2
