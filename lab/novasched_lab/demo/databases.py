# SPDX-License-Identifier: Apache-2.0
"""The databases of the demo: made empty, dropped in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import timeutils, uuidutils

from novasched.db import admin, engines, tables
from novasched.db.transactions import Database
from novasched_lab.db import flavor_tables, schema, server_tables
from novasched_lab.demo import mariadb
from novasched_lab.local.databases import OPTION, empty

CELL = 'cell1'


class Urls(NamedTuple):
    """Where the API database is, cell0 and the one cell; all may be the same."""

    api: str
    cell0: str
    cell1: str


@contextlib.contextmanager
def somewhere(url: str | None, directory: Path) -> Iterator[Urls]:
    """Give databases: the one named, of a MariaDB of our own, or SQLite files.

    Raises errors.SetupError.
    """
    if url is not None:
        yield Urls(url, url, url)
    elif mariadb.is_installed():
        with mariadb.running(directory) as own:
            yield Urls(own, own, own)
    else:
        yield Urls(*(f'sqlite:///{directory / name}.sqlite' for name in Urls._fields))


@contextlib.contextmanager
def made(
    conf: cfg.ConfigOpts, urls: Urls, transport_url: str, drops: bool
) -> Iterator[None]:
    """Make the tables, and map both cells; if it ``drops`` them, do so in the end.

    Raises errors.OptionError for a database that has tables, which is left as it is,
    and errors.StoreFailed.
    """
    with contextlib.ExitStack() as stack:
        opened = {
            url: _opened(engines.cell_engine(conf, url), stack)
            for url in dict.fromkeys(urls)
        }
        for url, metadata, create in (
            (urls.api, flavor_tables.API, schema.create_api),
            *(
                (url, server_tables.CELL, schema.create_cell)
                for url in dict.fromkeys(urls[1:])
            ),
        ):
            if drops:
                stack.callback(_drop, opened[url], metadata)
            create(opened[url], OPTION)
        _map(opened[urls.api], urls, transport_url)
        yield


def _map(api: Database, urls: Urls, transport_url: str) -> None:
    """Map both cells; admin.create_cell would not let them share a database."""
    now = timeutils.utcnow()
    admin.map_cell0(api, urls.cell0, now)
    api.insert(
        sa.insert(tables.cell_mappings).values(
            uuid=uuidutils.generate_uuid(),
            name=CELL,
            transport_url=transport_url,
            database_connection=urls.cell1,
            disabled=False,
            created_at=now,
        )
    )


def _opened(engine: sa.Engine, stack: contextlib.ExitStack) -> Database:
    stack.callback(engine.dispose)
    engines.check(engine, OPTION)
    return empty(engine)


def _drop(database: Database, metadata: sa.MetaData) -> None:
    with database.write() as connection:
        metadata.drop_all(connection)
