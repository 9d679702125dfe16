# SPDX-License-Identifier: Apache-2.0
"""Creates and drops the tables of a test cloud; leaves tables of nova's tools alone."""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from novasched import errors
from novasched.db.tables import columns_lacking
from novasched.db.transactions import Database
from novasched_lab.db import server_tables

MIGRATION_TABLES = ('alembic_version', 'migrate_version')


def create_api(database: Database, option: str) -> list[str]:
    return _create(database, server_tables.API, option)


def create_cell(database: Database, option: str) -> list[str]:
    """Make the tables of a cell's database that are missing; return their names.

    Raises errors.OptionError, that names ``option``, for a database of nova's
    own tools or with tables of another shape; it is left as it is.
    """
    return _create(database, server_tables.CELL, option)


def _create(database: Database, metadata: sa.MetaData, option: str) -> list[str]:
    with database.read() as connection:
        inspector = sa.inspect(connection)
        present = set(inspector.get_table_names())
        if managers := sorted(present.intersection(MIGRATION_TABLES)):
            raise errors.OptionError(
                option,
                f'the tables of {database.name} belong to nova (it has {managers[0]})',
                'Nothing was changed: novasched uses them as they are, '
                'and only nova-manage may migrate them',
            )
        for table in metadata.sorted_tables:
            if table.name not in present:
                continue
            if absent := columns_lacking(inspector, table):
                raise errors.OptionError(
                    option,
                    f'the table {table.name} of {database.name} has another shape: '
                    f'no column {", ".join(absent)}',
                    'Nothing was changed: use an empty database',
                )
    missing = [table for table in metadata.sorted_tables if table.name not in present]
    if missing:
        _share(database)
        with database.write() as connection:
            metadata.create_all(connection, tables=missing)
    return [table.name for table in missing]


def _share(database: Database) -> None:
    """Let readers of an SQLite file go on while another thread writes."""
    engine = database.engine
    if engine.dialect.name == 'sqlite' and engine.url.database:
        with database.translated():
            raw = engine.raw_connection()
            try:
                raw.cursor().execute('PRAGMA journal_mode=WAL').close()
            finally:
                raw.close()


def opened_empty(
    engine: sa.Engine, option: str, stack: contextlib.ExitStack
) -> Database:
    """Return a database without tables, which is closed when the stack is.

    Raises errors.OptionError, that names ``option``, if it has some.
    """
    stack.callback(engine.dispose)
    database = Database(engine)
    with database.read() as connection:
        found = sa.inspect(connection).get_table_names()
    if found:
        raise errors.OptionError(
            option,
            f'{database.name} has tables, such as {found[0]}',
            'Name an empty database; nothing was changed',
        )
    return database


def drop(database: Database, metadata: sa.MetaData) -> None:
    with database.write() as connection:
        metadata.drop_all(connection)
