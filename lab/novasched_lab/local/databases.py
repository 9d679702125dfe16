# SPDX-License-Identifier: Apache-2.0
"""The databases of the embedded cloud: made, filled, and dropped again."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors
from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched_lab.db import schema
from novasched_lab.local import rows
from novasched_lab.local.cluster import Cluster

OPTION = '--database'


class Urls(NamedTuple):
    """Where the API database and the database of the one cell are.

    Both may be the same: no table of the one has a name of the other's.
    """

    api: str
    cell: str


def in_files(directory: Path) -> Urls:
    """Return the URLs of two SQLite files."""
    return Urls(*(f'sqlite:///{directory / name}.sqlite' for name in Urls._fields))


@contextlib.contextmanager
def filled(cluster: Cluster, conf: cfg.ConfigOpts) -> Iterator[None]:
    """Make the tables and the rows of a cluster; drop the tables in the end.

    The databases are those of [api_database] and [database]. Raises
    errors.OptionError if one of them has tables, which are left as they are,
    and errors.StoreFailed if it cannot be asked.
    """
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0)
    with contextlib.ExitStack() as stack:
        api = _opened(engines.api_engine(conf), stack)
        cell = _opened(engines.main_engine(conf), stack)
        stack.callback(_drop, api, tables.API)
        schema.create_api(api, OPTION)
        _insert(api, tables.API, rows.api_rows(cluster, conf.database.connection, now))
        stack.callback(_drop, cell, tables.CELL)
        schema.create_cell(cell, OPTION)
        _insert(cell, tables.CELL, rows.cell_rows(cluster, now))
        yield


def _opened(engine: sa.Engine, stack: contextlib.ExitStack) -> Database:
    stack.callback(engine.dispose)
    return empty(engine)


def empty(engine: sa.Engine) -> Database:
    """Return a database without tables; raises errors.OptionError if it has some."""
    database = Database(engine)
    with database.read() as connection:
        found = sa.inspect(connection).get_table_names()
    if found:
        raise errors.OptionError(
            OPTION,
            f'{database.name} has tables, such as {found[0]}',
            'Name an empty database; nothing was changed',
        )
    return database


def _insert(database: Database, metadata: sa.MetaData, content: rows.Rows) -> None:
    with database.write() as connection:
        for name, table_rows in content.items():
            connection.execute(metadata.tables[name].insert(), table_rows)


def _drop(database: Database, metadata: sa.MetaData) -> None:
    with database.write() as connection:
        metadata.drop_all(connection)
