# SPDX-License-Identifier: Apache-2.0
"""Databases as they would be after changes to the cloud; they are read once."""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from novasched import errors
from novasched.ports import (
    CELL0_UUID,
    AggregatesMark,
    ApiStore,
    Cell,
    CellNews,
    CellStore,
    CellStores,
    ComputeNodeRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.runtime.executor import retry_once
from novasched.scheduler.aggregates import Aggregate


@dataclass
class CloudRows:
    """The rows of a cloud that changes are made to: compute nodes and their services
    by the uuid of the cell, and aggregates. Cells that do not answer have none.

    ``like`` gives the host that a new one is a copy of.
    """

    nodes: dict[str, list[ComputeNodeRow]] = field(default_factory=dict)
    services: dict[str, list[ServiceRow]] = field(default_factory=dict)
    aggregates: list[Aggregate] = field(default_factory=list)
    like: dict[str, str] = field(default_factory=dict)


class ChangedCloud:
    """Reads the rows of a cloud when first asked, and changes them.

    ``change`` gets all there is.
    """

    def __init__(self, change: Callable[[CloudRows], None]) -> None:
        self._change = change
        self._api: ApiStore | None = None
        self._cells: CellStores | None = None
        self._rows: CloudRows | None = None

    def api(self, inner: ApiStore) -> ApiStore:
        """Return the API database as it would be."""
        self._api = inner
        return ChangedApiStore(inner, self)

    def cells(self, inner: CellStores) -> CellStores:
        """Return the databases of the cells as they would be."""
        self._cells = inner
        return ChangedCellStores(inner, self)

    def rows(self) -> CloudRows:
        """Return the rows after the changes. Raises errors.StoreFailed, and what the
        changes raise."""
        if self._rows is None:
            self._rows = self._read()
            self._change(self._rows)
        return self._rows

    def _read(self) -> CloudRows:
        found = CloudRows()
        if self._api is None or self._cells is None:
            return found
        stores = self._cells
        found.aggregates = self._api.aggregates()
        for cell in self._api.cells():
            if cell.uuid == CELL0_UUID:
                continue
            with contextlib.suppress(errors.StoreFailed):
                nodes, services = retry_once(functools.partial(_rows_of, stores, cell))
                found.nodes[cell.uuid], found.services[cell.uuid] = nodes, services
        return found


def _rows_of(
    stores: CellStores, cell: Cell
) -> tuple[list[ComputeNodeRow], list[ServiceRow]]:
    with stores.open(cell).together() as store:
        return store.compute_nodes(), store.compute_services()


class ChangedApiStore:
    """The API database of a changed cloud. Satisfies ports.ApiStore."""

    def __init__(self, inner: ApiStore, cloud: ChangedCloud) -> None:
        self._inner = inner
        self._cloud = cloud
        self.cells, self.group_members = inner.cells, inner.group_members
        self.public_flavors = inner.public_flavors

    def host_cell(self, host: str) -> str | None:
        return self._inner.host_cell(self._cloud.rows().like.get(host, host))

    def aggregates(self) -> list[Aggregate]:
        return self._cloud.rows().aggregates

    def aggregates_mark(self) -> AggregatesMark:
        return AggregatesMark((), None)


class ChangedCellStores:
    """The cells of a changed cloud. Satisfies ports.CellStores."""

    def __init__(self, inner: CellStores, cloud: ChangedCloud) -> None:
        self._inner = inner
        self._cloud = cloud
        self.forget = inner.forget

    def open(self, cell: Cell) -> CellStore:
        rows, inner = self._cloud.rows(), self._inner.open(cell)
        if cell.uuid not in rows.nodes:
            return inner
        return ChangedCellStore(inner, rows.nodes[cell.uuid], rows.services[cell.uuid])


class ChangedCellStore:
    """The database of one cell of a changed cloud. Satisfies ports.CellStore.

    Nodes and services stay as they are; instances are read when they are asked for.
    """

    def __init__(
        self, inner: CellStore, nodes: list[ComputeNodeRow], services: list[ServiceRow]
    ) -> None:
        self._inner = inner
        self._nodes = nodes
        self._services = services
        self.utcnow = inner.utcnow
        self.minimum_compute_version = inner.minimum_compute_version
        self.instances_on, self.images_on = inner.instances_on, inner.images_on
        self.source_hosts = inner.source_hosts

    @contextlib.contextmanager
    def together(self) -> Iterator[CellStore]:
        with self._inner.together() as inner:
            yield ChangedCellStore(inner, self._nodes, self._services)

    def compute_nodes(self) -> list[ComputeNodeRow]:
        return self._nodes

    def compute_node_checksums(self, since: datetime.datetime) -> dict[int, int]:
        return {row.id: row.checksum for row in self._nodes}

    def compute_node_marks(self) -> dict[int, int]:
        return {row.id: row.mark for row in self._nodes}

    def compute_nodes_of(self, ids: Sequence[int]) -> list[ComputeNodeRow]:
        return [row for row in self._nodes if row.id in ids]

    def compute_checksums_now(
        self, ids: Sequence[int]
    ) -> dict[int, tuple[int, ServiceRow | None]]:
        services = {row.host: row for row in self._services}
        nodes = self.compute_nodes_of(ids)
        return {row.id: (row.checksum, services.get(row.host or '')) for row in nodes}

    def compute_services(self) -> list[ServiceRow]:
        return self._services

    def compute_services_of(self, hosts: Sequence[str]) -> list[ServiceRow]:
        return [row for row in self._services if row.host in hosts]

    def news(
        self,
        since: datetime.datetime,
        wide: datetime.datetime,
        known_id: int,
        oldest: datetime.datetime,
        newest: datetime.datetime,
    ) -> CellNews:
        def is_unavailable(row: ServiceRow) -> bool:
            seen = row.last_seen_up or row.created_at
            in_time = seen is not None and oldest <= seen <= newest
            return row.disabled or row.forced_down or not in_time

        nodes = NodeNews(len(self._nodes), sum(row.mark for row in self._nodes), {})
        services = [row for row in self._services if is_unavailable(row)]
        return CellNews(nodes, ServiceNews(services, []))

    def computes_seen_after(self, moment: datetime.datetime) -> list[ServiceRow]:
        return []
