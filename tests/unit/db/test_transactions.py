# SPDX-License-Identifier: Apache-2.0
"""Deadlocks, and what errors tell."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from novasched import errors
from novasched.db import tables, transactions
from novasched.db.transactions import Database
from tests.databases import instance


@pytest.fixture
def database(databases):
    return Database(databases.cell, 'the cell')


@pytest.mark.parametrize(
    ('deadlocks', 'result'),
    [
        pytest.param(0, 'done', id='at once'),
        pytest.param(2, 'done', id='after two deadlocks'),
    ],
)
def test_a_deadlock_is_tried_again(database, deadlocks, result):
    problems = [db_exc.DBDeadlock()] * deadlocks

    def step(connection):
        if problems:
            raise problems.pop()
        return result

    assert database.retrying(step) == result


def test_deadlocks_without_end_fail(database):
    tries = []

    def step(connection):
        tries.append(connection)
        raise db_exc.DBDeadlock

    with pytest.raises(errors.StoreFailed):
        database.retrying(step)
    assert len(tries) == 1 + transactions.DEADLOCK_RETRIES


def test_a_bad_statement_is_a_store_that_failed(database):
    with pytest.raises(errors.StoreFailed) as failed, database.write() as connection:
        connection.execute(sa.text('SELECT nonsense'))
    assert str(failed.value) == 'the cell could not be asked: no such column: nonsense'


def test_a_database_without_a_name_is_called_by_its_url():
    engine = sa.create_engine('mysql+pymysql://u:secret@h:1/x?ssl_key=k')
    assert Database(engine).name == 'mysql+pymysql://u:***@h:1/x'


@pytest.mark.parametrize(
    ('problem', 'text'),
    [
        pytest.param(
            db_exc.DBError(ValueError('first\nsecond')), 'first', id='the first line'
        ),
        pytest.param(
            sa_exc.OperationalError('SELECT 1', {'x': 1}, ValueError('refused')),
            'refused',
            id="the driver's words, without the statement",
        ),
        pytest.param(
            ValueError('no way to mysql://u:a@b@h/x'),
            'no way to mysql://u:****@h/x',
            id='a URL with a password',
        ),
        pytest.param(ValueError(''), 'ValueError', id='no text at all'),
    ],
)
def test_describe(problem, text):
    assert transactions.describe(problem) == text


@pytest.mark.parametrize(
    ('text', 'masked'),
    [
        pytest.param('none:///', 'none:///', id='no location'),
        pytest.param('rabbit://u:p@h:1/v', 'rabbit://u:****@h:1/v', id='a password'),
        pytest.param('rabbit://u@h/v', 'rabbit://u@h/v', id='no password'),
        pytest.param('a://u:p/q@h:1/v', 'a://u:****@h:1/v', id='a slash in it'),
        pytest.param('sqlite:////abs/x', 'sqlite:////abs/x', id='a file'),
    ],
)
def test_mask(text, masked):
    assert transactions.mask(text) == masked


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
