# SPDX-License-Identifier: Apache-2.0
"""Tables and columns that a database lacks."""

from __future__ import annotations

import sqlalchemy as sa

from novasched.db.transactions import Database


def lacking(database: Database, metadata: sa.MetaData) -> list[str]:
    """Return, for people, the tables and columns that a database lacks."""
    with database.read() as connection:
        inspector = sa.inspect(connection)
        present = set(inspector.get_table_names())
        tables = metadata.sorted_tables
        missing = [table.name for table in tables if table.name not in present]
        lines = (
            [f'{database.name} has no table {", ".join(missing)}'] if missing else []
        )
        for table in tables:
            if table.name in present and (absent := columns_lacking(inspector, table)):
                lines.append(
                    f'the table {table.name} of {database.name} has no column '
                    f'{", ".join(absent)}'
                )
    return lines


def columns_lacking(inspector: sa.Inspector, table: sa.Table) -> list[str]:
    """Return the names of the columns that a table of a database lacks."""
    found = {column['name'] for column in inspector.get_columns(table.name)}
    return sorted({column.name for column in table.columns} - found)
