# SPDX-License-Identifier: Apache-2.0
"""The cells: the database of each, and the way to its computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa

from novasched import errors
from novasched.db.engines import engine_of
from novasched.ports import CELL0_UUID, Cell
from novasched_lab.store.stores import ApiServers, CellServers
from novasched_lab.wire import ComputeClient

NO_QUEUE = 'none'


class Link(NamedTuple):
    """A cell that is in use; ``computes`` is None where there are none, as in cell0."""

    cell: Cell
    servers: CellServers
    computes: ComputeClient | None


class Cells:
    """Opens cells when they are first needed; keeps them until ``close``.

    ``make_engine`` gets the URL of a database, ``transport_of`` that of a broker or
    None, for the one that we are at ourselves. Every method raises
    errors.StoreFailed.
    """

    def __init__(
        self,
        api: ApiServers,
        make_engine: Callable[[str], sa.Engine],
        transport_of: Callable[[str | None], Any],
    ) -> None:
        self._api = api
        self._make_engine = make_engine
        self._transport_of = transport_of
        self._links: dict[str, Link] = {}
        self._lock = threading.Lock()

    def link(self, cell_uuid: str) -> Link:
        """Return a cell by its uuid."""
        with self._lock:
            found = self._links.get(cell_uuid)
        if found is not None:
            return found
        for cell in self._api.cells():
            if cell.uuid == cell_uuid:
                return self._opened(cell)
        raise errors.StoreFailed(f'Cell {cell_uuid}', 'there is no such cell')

    def cell0(self) -> Link:
        """Return the cell of the instances that found no host."""
        return self.link(CELL0_UUID)

    def with_computes(self) -> list[Link]:
        """Return all cells but cell0, as they are mapped now."""
        cells = [each for each in self._api.cells() if each.uuid != CELL0_UUID]
        return [self._opened(cell) for cell in cells]

    def of_instance(self, uuid: str) -> Link | None:
        """Return the cell that has an instance; None if no cell has it yet."""
        cell_uuid = self._api.cell_of(uuid)
        return None if cell_uuid is None else self.link(cell_uuid)

    def of_host(self, host: str) -> Link | None:
        """Return the cell that a compute host is mapped to; None if to none."""
        cell_uuid = self._api.host_cell(host)
        return None if cell_uuid is None else self.link(cell_uuid)

    def close(self) -> None:
        """Close the databases; a later call opens them again, as mapped then."""
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link.servers.close()

    def _opened(self, cell: Cell) -> Link:
        with self._lock:
            known = self._links.get(cell.uuid)
            if known is not None and known.cell == cell:
                return known
            self._links[cell.uuid] = made = self._made(cell)
        if known is not None:
            known.servers.close()
        return made

    def _made(self, cell: Cell) -> Link:
        servers = CellServers(*engine_of(cell, self._make_engine))
        return Link(cell, servers, self._computes(cell))

    def _computes(self, cell: Cell) -> ComputeClient | None:
        if cell.uuid == CELL0_UUID or (cell.transport_url or '').startswith(NO_QUEUE):
            return None
        return ComputeClient(self._transport_of(cell.transport_url))
