# SPDX-License-Identifier: Apache-2.0
"""Servers of a demo, and its databases: tables, cell0 and one cell, for a while."""

from __future__ import annotations

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import timeutils, uuidutils

from novasched.db import admin, engines, tables
from novasched_lab.db import schema, server_tables

CELL = 'cell1'
DATABASE = '--database'


class GivenServers(NamedTuple):
    """URLs of servers to use; None means what the process has instead."""

    broker: str | None = None
    database: str | None = None
    placement: str | None = None


class DatabaseUrls(NamedTuple):
    """Where the API database is, cell0 and the one cell; all may be the same."""

    api: str
    cell0: str
    cell1: str


def database_urls(url: str | None, directory: Path) -> DatabaseUrls:
    """Return the URL of the database that is named, or of SQLite files."""
    if url is not None:
        return DatabaseUrls(url, url, url)
    names = DatabaseUrls._fields
    return DatabaseUrls(*(f'sqlite:///{directory / name}.sqlite' for name in names))


@contextlib.contextmanager
def made_databases(
    conf: cfg.ConfigOpts,
    urls: DatabaseUrls,
    transport_url: str,
    cell_uuid: str | None = None,
) -> Iterator[None]:
    """Make the tables, and map both cells; drop the tables in the end.

    In one database, no table of the API has a name of a cell's. Raises
    errors.OptionError for a database that has tables, which is left as it is, and
    errors.StoreFailed.
    """
    with contextlib.ExitStack() as stack:
        opened = {
            url: schema.opened_empty(engines.cell_engine(conf, url), DATABASE, stack)
            for url in dict.fromkeys(urls)
        }
        api = opened[urls.api]
        stack.callback(schema.drop, api, server_tables.API)
        schema.create_api(api, DATABASE)
        for url in dict.fromkeys(urls[1:]):
            stack.callback(schema.drop, opened[url], server_tables.CELL)
            schema.create_cell(opened[url], DATABASE)
        now = timeutils.utcnow().replace(microsecond=0)
        admin.map_cell0(api, _no_template(urls.cell0), now)
        # admin.create_cell would not let the cells share a database.
        api.insert(
            sa.insert(tables.cell_mappings).values(
                uuid=cell_uuid or uuidutils.generate_uuid(),
                name=CELL,
                transport_url=_no_template(transport_url),
                database_connection=_no_template(urls.cell1),
                disabled=False,
                created_at=now,
            )
        )
        yield


def _no_template(url: str) -> str:
    """Return a URL as a mapping has one in which nothing is to be filled in."""
    return url.replace('{', '{{').replace('}', '}}')


def temporary_directory(stack: contextlib.ExitStack) -> Path:
    """Make a directory that is gone at the end, whenever a signal comes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        made = tempfile.TemporaryDirectory(
            prefix='novasched-', ignore_cleanup_errors=True
        )
        return Path(stack.enter_context(made))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
