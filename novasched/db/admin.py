# SPDX-License-Identifier: Apache-2.0
"""Changes of cell mappings and host mappings by an administrator."""

from __future__ import annotations

import datetime
import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from novasched import errors
from novasched.cluster.discovery import Discovered
from novasched.db import cells, hosts, services, tables
from novasched.db.transactions import Database
from novasched.ports import CELL0_UUID, Cell
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

CELL0_TRANSPORT = 'none:///'

_m = tables.cell_mappings.c


def map_cell0(api: Database, database_connection: str, now: datetime.datetime) -> bool:
    """Add the mapping of cell0; False if there is one already."""
    cell0 = Cell(CELL0_UUID, 'cell0', CELL0_TRANSPORT, database_connection, False)
    return _insert(api, cell0, now)


def create_cell(
    api: Database,
    name: str | None,
    transport_url: str,
    database_connection: str,
    disabled: bool,
    now: datetime.datetime,
) -> tuple[str, bool]:
    """Add the mapping of a cell; return its uuid and whether it was made.

    It is not, if a cell has the same transport or database already.
    Nova: nova-manage cell_v2 create_cell.
    """
    query = sa.select(_m.uuid).where(
        sa.or_(
            _m.transport_url == transport_url,
            _m.database_connection == database_connection,
        )
    )
    with api.read() as connection:
        twin = connection.execute(query.order_by(_m.id)).scalars().first()
    if twin is not None:
        return twin, False
    uuid = str(uuids.uuid4())
    cell = Cell(uuid, name, transport_url, database_connection, disabled)
    return uuid, _insert(api, cell, now)


def _insert(api: Database, cell: Cell, now: datetime.datetime) -> bool:
    new = sa.insert(tables.cell_mappings).values(created_at=now, **cell._asdict())
    return api.insert(new)


@dataclass(eq=False)
class HostDiscovery:
    """Maps the compute hosts that the databases of cells show to their cells.

    ``open_cell`` gives the database of a cell, ``say`` takes a line about each
    step. Nova: nova-manage cell_v2 discover_hosts.
    """

    api: Database
    open_cell: Callable[[Cell], Database]
    say: Callable[[str], None] = lambda line: None
    clock: Clock = SYSTEM_CLOCK

    def run(self, found: list[Cell], by_service: bool = False) -> Discovered:
        """Map the unmapped hosts of these cells; cell0 has none.

        A cell that cannot be asked does not keep the others from being asked.
        """
        outcome = Discovered()
        search = self._by_service if by_service else self._by_node
        for cell in found:
            if cell.uuid == CELL0_UUID:
                self.say('Skipping cell0 since it does not contain hosts.')
                continue
            named = f" '{cell.name}'" if cell.name else ''
            self.say(f'Getting computes from cell{named}: {cell.uuid}')
            before = len(outcome.mapped)
            try:
                search(cell, self.open_cell(cell), outcome)
            except (errors.StoreFailed, errors.OptionError) as problem:
                outcome.failed.append(problem)
                continue
            made = len(outcome.mapped) - before
            self.say(f'Found {made} unmapped computes in cell: {cell.uuid}')
        return outcome

    def _by_node(self, cell: Cell, database: Database, outcome: Discovered) -> None:
        with database.read() as connection:
            nodes = hosts.unmapped(connection)
        mapped = self._mapped() if nodes else set()
        for id_, host, uuid in nodes:
            self.say(f"Checking host mapping for compute host '{host}': {uuid}")
            if self._is_mapped(host, mapped):
                continue
            self.say(f"Creating host mapping for compute host '{host}': {uuid}")
            mapped.add(host)  # a replica may not show it yet
            if self._map(cell, host, outcome):
                with database.write() as connection:
                    hosts.set_mapped(connection, id_, self.clock.utcnow())

    def _by_service(self, cell: Cell, database: Database, outcome: Discovered) -> None:
        with database.read() as connection:
            rows = services.read(connection)
        mapped = self._mapped() if rows else set()
        for row in rows:
            if not self._is_mapped(row.host, mapped):
                self.say(f'Creating host mapping for service {row.host}')
                mapped.add(row.host)
                self._map(cell, row.host, outcome)

    def _mapped(self) -> set[str]:
        with self.api.read() as connection:
            return cells.mapped_hosts(connection)

    def _is_mapped(self, host: str, known: set[str]) -> bool:
        """Ask the database about a host that is not known: it may ignore case."""
        if host in known:
            return True
        with self.api.read() as connection:
            return cells.host_cell(connection, host) is not None

    def _map(self, cell: Cell, host: str, outcome: Discovered) -> bool:
        cell_id = sa.select(_m.id).where(_m.uuid == cell.uuid).scalar_subquery()
        new = sa.insert(tables.host_mappings).values(
            host=host, cell_id=cell_id, created_at=self.clock.utcnow()
        )
        made = self.api.insert(new)
        if made:
            outcome.mapped.append((cell, host))
        else:
            outcome.raced.append(host)
        return made
