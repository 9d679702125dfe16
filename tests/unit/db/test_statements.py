# SPDX-License-Identifier: Apache-2.0
"""Compiled statements are shared by engines whose dialects are alike."""

import pytest
import sqlalchemy as sa

from novasched.db import statements
from novasched.db.statements import CompiledStatements

TABLE = sa.Table(
    't', sa.MetaData(), sa.Column('n', sa.Integer), sa.Column('b', sa.Date)
)


@pytest.fixture
def compiled():
    return CompiledStatements()


@pytest.fixture
def engine(tmp_path, compiled):
    """Open a database of its own: `engine(name, **options)`."""
    made = []

    def open_engine(name, **options):
        opened = sa.create_engine(f'sqlite:///{tmp_path}/{name}', **options)
        made.append(opened)
        TABLE.create(opened)
        opened.update_execution_options(compiled_cache=compiled)
        with opened.begin() as connection:
            connection.execute(sa.insert(TABLE), [{'n': n} for n in range(len(name))])
        return opened

    yield open_engine
    for each in made:
        each.dispose()


def found(engine, most):
    with engine.connect() as connection:
        asked = sa.select(TABLE.c.n).where(TABLE.c.n < most, TABLE.c.n.in_([0, 1, 2]))
        return connection.execute(asked).scalars().all()


def test_a_statement_is_compiled_once_for_all_databases(engine, compiled):
    one, other = engine('a'), engine('bbbb')
    before = len(compiled)
    assert (found(one, 9), found(other, 9), found(other, 2)) == ([0], [0, 1, 2], [0, 1])
    assert len(compiled) == before + 1


def test_dialects_that_differ_share_nothing(engine, compiled):
    one, other = engine('a'), engine('bb', paramstyle='named')
    before = len(compiled)
    assert (found(one, 9), found(other, 9)) == ([0], [0, 1])
    assert len(compiled) == before + 2


def test_there_is_an_end_to_what_is_kept(engine, compiled):
    for number in range(statements.MOST):
        compiled['other', number] = None
    assert len(compiled) == statements.MOST
    assert found(engine('a'), 9) == [0]
    assert 0 < len(compiled) < 9
