# SPDX-License-Identifier: Apache-2.0
"""Databases to test stores on, and rows that are valid by default."""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
import uuid
from typing import NamedTuple

import sqlalchemy as sa

from novasched.db import tables
from novasched.db.transactions import Database
from novasched_lab.db import schema

NOON = datetime.datetime(2026, 11, 21, 12, 0, 0)  # noqa: DTZ001
SECOND = datetime.timedelta(seconds=1)


def insert(connection, table, row):
    """Insert a row; return its id."""
    done = connection.execute(sa.insert(table).values(row))
    return done.inserted_primary_key[0]


class Databases(NamedTuple):
    """An API database and a cell's, with their tables."""

    api: sa.Engine
    cell: sa.Engine

    def create_tables(self):
        schema.create_api(Database(self.api), 'api')
        schema.create_cell(Database(self.cell), 'cell')

    def empty(self):
        for engine, metadata in ((self.api, tables.API), (self.cell, tables.CELL)):
            with engine.begin() as connection:
                for table in reversed(metadata.sorted_tables):
                    connection.execute(sa.delete(table))

    def add(self, table, *rows):
        """Insert rows; return their ids."""
        engine = self.api if table.metadata is tables.API else self.cell
        with engine.begin() as connection:
            return [insert(connection, table, row) for row in rows]

    def rows(self, table):
        engine = self.api if table.metadata is tables.API else self.cell
        with engine.connect() as connection:
            query = sa.select(table).order_by(table.c.id)
            return [dict(row) for row in connection.execute(query).mappings()]


class Copies:
    """SQLite files as they were when something had just been written to them."""

    def __init__(self, directory):
        self._directory = directory
        self._paths = {}

    def fill(self, path, written, write):
        """Call `write`, which writes `written` to a file that has nothing yet.

        What was written before is copied instead, past whatever has the file open.
        """
        if found := self._paths.get(written):
            _copy(found, path)
            return
        write()
        made = self._directory / f'{len(self._paths)}.sqlite'
        _copy(path, made)
        self._paths[written] = made


def _copy(source, target):
    with (
        contextlib.closing(sqlite3.connect(source)) as read,
        contextlib.closing(sqlite3.connect(target)) as written,
    ):
        read.backup(written)


def node(**fields):
    """A row of compute_nodes, live and complete."""
    row = {
        'created_at': NOON - 60 * SECOND,
        'uuid': str(uuid.uuid4()),
        'host': 'h1',
        'hypervisor_hostname': 'n1',
        'vcpus': 8,
        'vcpus_used': 1,
        'memory_mb': 4096,
        'memory_mb_used': 512,
        'local_gb': 100,
        'local_gb_used': 10,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002002,
        'cpu_info': '{}',
        'deleted': 0,
        'mapped': 0,
    }
    return row | fields


def service(**fields):
    """A row of services: a compute that is up."""
    row = {
        'created_at': NOON,
        'uuid': str(uuid.uuid4()),
        'host': 'h1',
        'binary': 'nova-compute',
        'topic': 'compute',
        'report_count': 1,
        'disabled': False,
        'forced_down': False,
        'deleted': 0,
        'version': 74,
    }
    return row | fields


def instance(**fields):
    """A row of instances, live on h1."""
    return {'uuid': str(uuid.uuid4()), 'host': 'h1', 'deleted': 0} | fields


def cell_mapping(**fields):
    """A row of cell_mappings."""
    row = {
        'uuid': str(uuid.uuid4()),
        'name': 'cell1',
        'transport_url': 'rabbit://',
        'database_connection': 'sqlite://',
        'disabled': False,
    }
    return row | fields
