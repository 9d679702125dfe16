# SPDX-License-Identifier: Apache-2.0
"""Servers by the names that users gave them, over all cells."""

from __future__ import annotations

import concurrent.futures
import functools
from typing import NamedTuple

import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors
from novasched.db import cells, engines, tables
from novasched.db.stores import API_DATABASE
from novasched.db.transactions import Database
from novasched.ports import Cell
from novasched.runtime.executor import BulkheadExecutor

TIMEOUT_S = 10.0
ANSWER_S = 2.0
"""How long cells may take, all together; one that hangs is left to its thread."""
MOST = 20
OPTIONS = {group: engines.OPTS[group] for group in ('database', 'api_database')}
_i = tables.instances.c


class NamedServers(NamedTuple):
    """The uuids of servers of one name, and the cells that did not answer."""

    uuids: list[str]
    unavailable: list[str]


def find_by_name(
    conf: cfg.ConfigOpts, name: str, within_s: float = ANSWER_S
) -> NamedServers:
    """Return the servers that have a name; only if there are none, the deleted ones.

    Those that were never placed are in cell0, which is asked as any cell. All cells are
    asked at once and have ``within_s`` to answer. Raises errors.OptionError and
    errors.StoreFailed where there is no API database.
    """
    api = engines.api_engine(conf, timeout_s=TIMEOUT_S)
    defaults = cells.UrlDefaults(conf.database.connection)
    try:
        mapped = Database(api, API_DATABASE).reading(lambda c: cells.read(c, defaults))
    finally:
        api.dispose()
    executor = BulkheadExecutor('servers of a name', len(mapped))
    asked = {
        executor.submit(functools.partial(_in_cell, conf, cell, name)): cell
        for cell in mapped
    }
    executor.close()
    late = concurrent.futures.wait(asked, within_s).not_done
    live: list[str] = []
    deleted: list[str] = []
    unavailable = []
    for future, cell in asked.items():
        if future in late or isinstance(future.exception(), errors.StoreFailed):
            unavailable.append(cell.name or cell.uuid)
            continue
        for uuid, is_deleted in future.result():
            (deleted if is_deleted else live).append(uuid)
    return NamedServers(live or deleted, unavailable)


def _in_cell(conf: cfg.ConfigOpts, cell: Cell, name: str) -> list[tuple[str, bool]]:
    """Return the uuids of a cell, and whether each is deleted."""

    def make(url: str) -> sa.Engine:
        return engines.cell_engine(conf, url, timeout_s=TIMEOUT_S)

    engine, label = engines.engine_of(cell, make)
    query = (
        sa.select(_i.uuid, _i.display_name, _i.deleted)
        .where(_i.display_name == name)
        .order_by(_i.deleted, _i.id.desc())
        .limit(MOST)
    )
    try:
        rows = Database(engine, label).reading(lambda c: c.execute(query).all())
    finally:
        engine.dispose()
    # Some databases compare texts as if they were all in lower case.
    return [(uuid, bool(deleted)) for uuid, shown, deleted in rows if shown == name]
