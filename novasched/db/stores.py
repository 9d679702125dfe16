# SPDX-License-Identifier: Apache-2.0
"""The databases behind the ports: each call is one short transaction."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec

import sqlalchemy as sa
from oslo_log import log as logging
from oslo_utils import uuidutils

from novasched import errors
from novasched.cluster.discovery import Discovered
from novasched.db import (
    admin,
    flavors,
    hosts,
    server_groups,
    services,
    tables,
    transactions,
)
from novasched.db import aggregates as aggregate_rows
from novasched.db import cells as cell_rows
from novasched.db.engines import engine_of, label
from novasched.db.transactions import Database, Result
from novasched.ports import Cell, ServiceRow
from novasched.releases import NEWEST
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

API_DATABASE = 'The API database'
"""What errors call it: they reach records of decisions, where no URL may stand."""
REGISTER_ATTEMPTS = 5

P = ParamSpec('P')


def _asking(
    question: Callable[Concatenate[sa.Connection, P], Result],
) -> Callable[Concatenate[Any, P], Result]:
    """Return a method of a store that asks a question of its database."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        answer: Result = self._ask(lambda c: question(c, *args, **kwargs))
        return answer

    return method


class SqlApiStore:
    """The API database; satisfies ports.ApiStore.

    ``defaults`` are the configured URLs that the templates in cell mappings
    refer to.
    """

    def __init__(
        self, engine: sa.Engine, defaults: cell_rows.UrlDefaults | None = None
    ) -> None:
        self._database = Database(engine, API_DATABASE)
        self._ask = self._database.reading
        self._defaults = defaults or cell_rows.UrlDefaults()

    def cells(self) -> list[Cell]:
        return self._ask(lambda c: cell_rows.read(c, self._defaults))

    host_cell = _asking(cell_rows.host_cell)
    group_members = _asking(server_groups.members_of)
    aggregates = _asking(aggregate_rows.read)
    aggregates_mark = _asking(aggregate_rows.mark)
    public_flavors = _asking(flavors.public)

    def map_new_hosts(self, make_engine: Callable[[str], sa.Engine]) -> Discovered:
        """Map the new hosts of all cells to their cells.

        ``make_engine`` gets the URL of a cell's database; each search has
        connections of its own. Raises errors.StoreFailed.
        """
        with contextlib.ExitStack() as opened:

            def open_cell(cell: Cell) -> Database:
                engine = make_engine(cell.database_connection or '')
                opened.callback(engine.dispose)
                return Database(engine, f'Cell {label(cell)}')

            discovery = admin.HostDiscovery(self._database, open_cell)
            return discovery.run(self.cells())


class SqlCellStore:
    """The database of one cell; satisfies ports.CellStore.

    With a ``connection`` all calls use it, otherwise each has one of its own.
    """

    def __init__(
        self,
        engine: sa.Engine,
        name: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        self._database = Database(engine, name)
        self._connection = connection

    @contextlib.contextmanager
    def together(self) -> Iterator[SqlCellStore]:
        database = self._database
        with database.steady() as connection:
            yield SqlCellStore(database.engine, database.name, connection)

    def _ask(self, question: Callable[[sa.Connection], Result]) -> Result:
        if self._connection is not None:
            return question(self._connection)
        with self._database.steady() as connection:
            return question(connection)

    compute_nodes = _asking(hosts.read)
    news = _asking(services.read_news)
    compute_node_checksums = _asking(hosts.read_checksums)
    compute_node_marks = _asking(hosts.read_marks)
    compute_nodes_of = _asking(hosts.read_of)
    compute_checksums_now = _asking(services.read_checksums_now)
    compute_services = _asking(services.read)
    compute_services_of = _asking(services.read_of)
    minimum_compute_version = _asking(services.minimum_version)
    computes_seen_after = _asking(services.read_seen_after)
    instances_on = _asking(hosts.instances_on)
    images_on = _asking(hosts.images_on)
    source_hosts = _asking(hosts.source_hosts)
    utcnow = _asking(transactions.utcnow)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._database.close()


class SqlCellStores:
    """Opens the databases of cells; satisfies ports.CellStores.

    ``make_engine`` gets the URL of a cell's database.
    """

    def __init__(self, make_engine: Callable[[str], sa.Engine]) -> None:
        self._make_engine = make_engine
        self._stores: dict[str, SqlCellStore] = {}
        self._lock = threading.Lock()

    def open(self, cell: Cell) -> SqlCellStore:
        with self._lock:
            if cell.uuid not in self._stores:
                found = engine_of(cell, self._make_engine)
                self._stores[cell.uuid] = SqlCellStore(*found)
            return self._stores[cell.uuid]

    def forget(self, uuids: Iterable[str] | None = None) -> None:
        with self._lock:
            names = list(self._stores) if uuids is None else list(uuids)
            stores = [self._stores.pop(name) for name in names if name in self._stores]
        for store in stores:
            store.close()


class SqlServiceStore:
    """The services rows of schedulers; satisfies cluster.discovery.ServiceDirectory."""

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock = SYSTEM_CLOCK,
        new_uuid: Callable[[], str] = uuidutils.generate_uuid,
    ) -> None:
        self.database = Database(engine)
        self._ask = self.database.reading
        self._clock = clock
        self._new_uuid = new_uuid

    of_program = _asking(services.read)

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        inserted = False
        for _ in range(REGISTER_ATTEMPTS):
            row = self._ask(lambda c: services.find(c, host, binary))
            if row is None:
                inserted = self._insert(host, binary, topic, version)
            elif row.version != version:
                self._set_version(row, version)
            else:
                return row, inserted
        raise errors.StoreFailed(
            self.database.name,
            f'the services row of {binary} on {host} keeps changing',
        )

    def check_version(self, binary: str, version: int = NEWEST.service_version) -> None:
        """Find out whether a program that knows this version may run beside the others.

        Raises errors.ServiceTooOld when all live ones are newer. A row may be given
        back a lower version than all have: ours may have come from a later release.
        """
        minimum = self._ask(lambda c: services.minimum_version(c, binary))
        if minimum > version:
            raise errors.ServiceTooOld(version, minimum)

    def beat(self, service_id: int, report_count: int) -> bool:
        now = self._clock.utcnow()
        s = tables.services.c
        # It moves only if the count grows. MySQL assigns from left to right, so the
        # comparison comes before the count is overwritten.
        seen = sa.case((s.report_count < report_count, now), else_=s.last_seen_up)
        return self._update(
            service_id,
            (s.last_seen_up, seen),
            (s.report_count, report_count),
            (s.updated_at, now),
        )

    def _update(self, service_id: int, *values: tuple[Any, Any]) -> bool:
        """Set columns of a row, in this order; False if the row is gone."""
        s = tables.services.c
        change = sa.update(tables.services).where(s.id == service_id, s.deleted == 0)
        return self.database.retrying(
            lambda c: c.execute(change.ordered_values(*values)).rowcount > 0
        )

    def _insert(self, host: str, binary: str, topic: str, version: int) -> bool:
        """Insert the row; False if a sibling was faster."""
        self.check_version(binary)
        given = {'host': host, 'binary': binary, 'topic': topic, 'version': version}
        begun = {'report_count': 0, 'disabled': False, 'forced_down': False}
        made = {'uuid': self._new_uuid(), 'created_at': self._clock.utcnow()}
        new = sa.insert(tables.services).values(**given, **begun, **made, deleted=0)
        return self.database.insert(new)

    def _set_version(self, row: ServiceRow, version: int) -> None:
        self.check_version(row.binary)
        text = 'Updating service version for %s on %s from %i to %i'
        LOG.info(text, row.binary, row.host, row.version, version)
        s = tables.services.c
        self._update(row.id, (s.version, version), (s.updated_at, self._clock.utcnow()))
