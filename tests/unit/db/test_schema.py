# SPDX-License-Identifier: Apache-2.0
"""Which databases get tables, and which are left alone."""

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched_lab.db import schema
from tests.support.tables.cases import cases

OPTION = '[database] connection'


@pytest.fixture
def database(tmp_path, conf):
    engine = engines.main_engine(conf(f'sqlite:///{tmp_path}/main'))
    yield Database(engine)
    engine.dispose()


def present(database):
    with database.read() as connection:
        return set(sa.inspect(connection).get_table_names())


def execute(database, text):
    with database.write() as connection:
        connection.execute(sa.text(text))


def test_the_tables_are_made_in_the_order_of_their_keys(database):
    made = schema.create_cell(database, OPTION)
    assert set(made) == present(database) == set(tables.CELL.tables)
    assert made.index('instances') < made.index('instance_system_metadata')


def test_only_missing_tables_are_made(database):
    schema.create_cell(database, OPTION)
    execute(database, 'DROP TABLE services')
    assert schema.create_cell(database, OPTION) == ['services']


def test_tables_of_others_and_more_columns_do_no_harm(database):
    schema.create_cell(database, OPTION)
    execute(database, 'CREATE TABLE theirs (id INTEGER)')
    execute(database, 'ALTER TABLE services ADD COLUMN later INTEGER')
    assert schema.create_cell(database, OPTION) == []


@cases(
    'table, says',
    ('tables of nova', 'alembic_version', 'belong to nova'),
    ('tables of an old nova', 'migrate_version', 'belong to nova'),
    ('another shape', 'services', 'services .* has another shape'),
)
def test_a_database_of_others_is_left_alone(database, table, says):
    execute(database, f'CREATE TABLE {table} (id INTEGER)')
    with pytest.raises(errors.OptionError, match=says) as refused:
        schema.create_cell(database, OPTION)
    assert refused.value.option == OPTION
    assert 'Nothing was changed' in refused.value.remedy
    assert present(database) == {table}


def test_readers_of_a_file_go_on_while_somebody_writes(database):
    schema.create_cell(database, OPTION)
    with database.write() as writer:
        writer.execute(sa.text('CREATE TABLE half_done (id INTEGER)'))
        assert 'half_done' not in present(database)
