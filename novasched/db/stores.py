# SPDX-License-Identifier: Apache-2.0
"""The databases behind the ports: each call is one short transaction."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import sqlalchemy as sa
from oslo_log import log as logging
from oslo_utils import uuidutils

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.discovery import Discovered
from novasched.db import (
    admin,
    aggregates,
    cells,
    hosts,
    instances,
    services,
    transactions,
)
from novasched.db.engines import engine_of, label
from novasched.db.transactions import Database, Result
from novasched.ports import (
    AggregatesMark,
    Cell,
    ComputeNodeRow,
    ImageRow,
    InstanceRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

REGISTER_ATTEMPTS = 5


class SqlApiStore:
    """The API database; satisfies ports.ApiStore.

    ``defaults`` are the configured URLs that the templates in cell mappings
    refer to.
    """

    def __init__(
        self, engine: sa.Engine, defaults: cells.UrlDefaults | None = None
    ) -> None:
        self._database = Database(engine)
        self._defaults = defaults or cells.UrlDefaults()

    def cells(self) -> list[Cell]:
        return self._database.reading(lambda c: cells.read(c, self._defaults))

    def host_cell(self, host: str) -> str | None:
        return self._database.reading(lambda c: cells.host_cell(c, host))

    def aggregates(self) -> list[Aggregate]:
        return self._database.reading(aggregates.read)

    def aggregates_mark(self) -> AggregatesMark:
        return self._database.reading(aggregates.mark)

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
        with database.read() as connection:
            yield SqlCellStore(database.engine, database.name, connection)

    def _read(self, question: Callable[[sa.Connection], Result]) -> Result:
        if self._connection is not None:
            return question(self._connection)
        with self._database.read() as connection:
            return question(connection)

    def compute_nodes(self) -> list[ComputeNodeRow]:
        return self._read(hosts.read)

    def compute_node_news(self, since: datetime.datetime) -> NodeNews:
        return self._read(lambda c: hosts.read_news(c, since))

    def compute_node_marks(self, since: datetime.datetime | None) -> dict[int, int]:
        return self._read(lambda c: hosts.read_marks(c, since))

    def compute_nodes_of(self, ids: Sequence[int]) -> list[ComputeNodeRow]:
        return self._read(lambda c: hosts.read_of(c, ids))

    def compute_services(self) -> list[ServiceRow]:
        return self._read(lambda c: services.read(c, services.COMPUTE))

    def compute_services_of(self, hosts: Sequence[str]) -> list[ServiceRow]:
        return self._read(lambda c: services.read_of(c, services.COMPUTE, hosts))

    def service_news(
        self,
        since: datetime.datetime,
        wide: datetime.datetime,
        known_id: int,
        oldest: datetime.datetime,
        newest: datetime.datetime,
    ) -> ServiceNews:
        return self._read(
            lambda c: services.read_news(
                c, services.COMPUTE, since, wide, known_id, oldest, newest
            )
        )

    def minimum_compute_version(self) -> int:
        return self._read(lambda c: services.minimum_version(c, services.COMPUTE))

    def utcnow(self) -> datetime.datetime:
        return self._read(transactions.utcnow)

    def computes_seen_after(self, moment: datetime.datetime) -> list[ServiceRow]:
        return self._read(
            lambda c: services.read_seen_after(c, services.COMPUTE, moment)
        )

    def instances_on(self, hosts: Sequence[str]) -> list[InstanceRow]:
        return self._read(lambda c: instances.on_hosts(c, hosts)) if hosts else []

    def images_on(self, hosts: Sequence[str]) -> list[ImageRow]:
        if not hosts:
            return []
        return self._read(lambda c: instances.images_on_hosts(c, hosts))

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._database.engine.dispose()


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
                self._stores[cell.uuid] = self._opened(cell)
            return self._stores[cell.uuid]

    def forget(self, uuids: Iterable[str] | None = None) -> None:
        with self._lock:
            names = list(self._stores) if uuids is None else list(uuids)
            stores = [self._stores.pop(name) for name in names if name in self._stores]
        for store in stores:
            store.close()

    def _opened(self, cell: Cell) -> SqlCellStore:
        return SqlCellStore(*engine_of(cell, self._make_engine))


class SqlServiceStore:
    """The services rows of schedulers; satisfies cluster.discovery.ServiceDirectory."""

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock = SYSTEM_CLOCK,
        new_uuid: Callable[[], str] = uuidutils.generate_uuid,
    ) -> None:
        self._database = Database(engine)
        self._clock = clock
        self._new_uuid = new_uuid

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        inserted = False
        for _ in range(REGISTER_ATTEMPTS):
            row = self._find(host, binary)
            if row is None:
                inserted = self._insert(host, binary, topic, version)
            elif row.version != version:
                self._set_version(row, version)
            else:
                return row, inserted
        raise errors.StoreFailed(
            self._database.name,
            f'the services row of {binary} on {host} keeps changing',
        )

    def check_version(self, binary: str, version: int) -> None:
        """Find out whether a program of this version may run beside the others.

        Raises errors.ServiceTooOld when all live ones are newer.
        """
        minimum = self._database.reading(lambda c: services.minimum_version(c, binary))
        if minimum > version:
            raise errors.ServiceTooOld(version, minimum)

    def beat(self, service_id: int, report_count: int) -> bool:
        now = self._clock.utcnow()
        return self._database.retrying(
            lambda connection: services.beat(connection, service_id, report_count, now)
        )

    def of_program(self, binary: str) -> list[ServiceRow]:
        return self._database.reading(lambda c: services.read(c, binary))

    def _find(self, host: str, binary: str) -> ServiceRow | None:
        return self._database.reading(lambda c: services.find(c, host, binary))

    def _insert(self, host: str, binary: str, topic: str, version: int) -> bool:
        """Insert the row; False if a sibling was faster."""
        self.check_version(binary, version)
        return self._database.insert(
            services.insertion(
                host, binary, topic, version, self._clock.utcnow(), self._new_uuid()
            )
        )

    def _set_version(self, row: ServiceRow, version: int) -> None:
        self.check_version(row.binary, version)
        LOG.info(
            'Updating service version for %s on %s from %i to %i',
            row.binary,
            row.host,
            row.version,
            version,
        )
        now = self._clock.utcnow()
        self._database.retrying(
            lambda connection: services.set_version(connection, row.id, version, now)
        )
