# SPDX-License-Identifier: Apache-2.0
"""Cells: the database of each, the transport of its broker, and its computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors
from novasched.db.engines import engine_of
from novasched.ports import CELL0_UUID, Cell
from novasched.rpc.transport import transport_from_conf
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.db.cell_servers import CellServers
from novasched_lab.rpc_api import ComputeClient

NO_QUEUE = 'none'
OPTION = 'cell_mappings.transport_url'


class Brokers:
    """Makes transports when they are first needed; they connect when they are used."""

    def __init__(self, conf: cfg.ConfigOpts, own: Any = None) -> None:
        self._conf = conf
        self.own = transport_from_conf(conf) if own is None else own
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def transport(self, url: str | None) -> Any:
        """Return the transport of a URL; None, and the configured one, give our own.

        Raises errors.OptionError for an invalid URL.
        """
        if not url or url == self._conf.transport_url:
            return self.own
        with self._lock:
            if url not in self._made:
                self._made[url] = transport_from_conf(self._conf, url, OPTION)
            return self._made[url]

    def close(self) -> None:
        with self._lock:
            made, self._made = list(self._made.values()), {}
        for transport in (*made, self.own):
            transport.cleanup()


class CellLink(NamedTuple):
    """A cell that is in use; ``computes`` is None where there are none, as in cell0."""

    cell: Cell
    servers: CellServers
    computes: ComputeClient | None

    def needed_computes(self) -> ComputeClient:
        """Return the client of its computes; raises errors.StoreFailed without any."""
        if self.computes is None:
            raise errors.StoreFailed(f'Cell {self.cell.uuid}', 'it has no computes')
        return self.computes


class CellLinks:
    """Opens cells when they are first needed; keeps them until ``close``.

    ``make_engine`` gets the URL of a database, ``transport_of`` the URL of a broker, or
    None for our own broker. Every method raises errors.StoreFailed.
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
        self._links: dict[str, CellLink] = {}
        self._lock = threading.Lock()

    def link(self, cell_uuid: str) -> CellLink:
        """Return a cell by its uuid."""
        if known := self._links.get(cell_uuid):
            return known
        for cell in self._api.cells():
            if cell.uuid == cell_uuid:
                return self._opened(cell)
        raise errors.StoreFailed(f'Cell {cell_uuid}', 'there is no such cell')

    def cell0(self) -> CellLink:
        """Return the cell of the instances that found no host."""
        return self.link(CELL0_UUID)

    def with_computes(self) -> list[CellLink]:
        """Return all cells but cell0, as they are mapped now."""
        cells = [each for each in self._api.cells() if each.uuid != CELL0_UUID]
        return [self._opened(cell) for cell in cells]

    def of_instance(self, uuid: str) -> CellLink | None:
        """Return the cell that has an instance; None if no cell has it yet."""
        cell_uuid = self._api.cell_of(uuid)
        return None if cell_uuid is None else self.link(cell_uuid)

    def of_host(self, host: str) -> CellLink | None:
        """Return the cell that a compute host is mapped to; None if to none."""
        cell_uuid = self._api.host_cell(host)
        return None if cell_uuid is None else self.link(cell_uuid)

    def close(self) -> None:
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link.servers.close()

    def _opened(self, cell: Cell) -> CellLink:
        with self._lock:
            known = self._links.get(cell.uuid)
            if known is not None and known.cell == cell:
                return known
            servers = CellServers(*engine_of(cell, self._make_engine))
            made = CellLink(cell, servers, self._computes(cell))
            self._links[cell.uuid] = made
        if known is not None:
            known.servers.close()
        return made

    def _computes(self, cell: Cell) -> ComputeClient | None:
        if cell.uuid == CELL0_UUID or (cell.transport_url or '').startswith(NO_QUEUE):
            return None
        return ComputeClient(self._transport_of(cell.transport_url))
