# SPDX-License-Identifier: Apache-2.0
"""What the account of a database may do, found out without doing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db.transactions import FAILURES, Database, describe

_READ = 'SELECT 1 FROM {0} WHERE 1 = 0'
_WRITES = (
    'INSERT INTO {0} SELECT * FROM {0} WHERE 1 = 0',
    'UPDATE {0} SET created_at = created_at WHERE 1 = 0',
    'DELETE FROM {0} WHERE 1 = 0',
)
"""Servers explain a statement to an account that may run it, and do not run it."""


class Privileges(NamedTuple):
    """Privileges of an account: by table that it may not read, the reason; and the
    first table that it may write."""

    unreadable: dict[str, str]
    writable: str | None


def privileges(database: Database, needed: Iterable[str]) -> Privileges:
    """Look whether an account may read the tables that are needed, and write any table
    that it sees. Raises errors.StoreFailed.

    SQLite has no accounts: there nothing counts as writable.
    """
    engine = database.engine
    autocommit = engine.execution_options(isolation_level='AUTOCOMMIT')
    with database.translated(), autocommit.connect() as connection:
        refusals = {name: _refusal(connection, _READ, name) for name in needed}
        has_accounts = engine.dialect.name != 'sqlite'
        names = sa.inspect(connection).get_table_names() if has_accounts else []
        writable = next((each for each in names if _may_write(connection, each)), None)
    return Privileges({name: why for name, why in refusals.items() if why}, writable)


def _may_write(connection: sa.Connection, name: str) -> bool:
    return any(not _refusal(connection, f'EXPLAIN {each}', name) for each in _WRITES)


def _refusal(connection: sa.Connection, statement: str, name: str) -> str:
    """Return why the server refuses a statement on a table; empty if it does not."""
    quoted = connection.dialect.identifier_preparer.quote(name)
    try:
        connection.exec_driver_sql(statement.format(quoted)).close()
    except FAILURES as problem:
        return describe(problem)
    return ''
