# SPDX-License-Identifier: Apache-2.0
"""Servers of a cloud, found by name or by host, whichever cell has them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import uuidutils

from novasched import errors
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.servers import CellServerRows, ServerRow, SqlServers
from novasched.ports import CELL0_UUID, Cell
from novasched.runtime.executor import BulkheadExecutor

T = TypeVar('T')

OPTIONS = {group: engines.OPTS[group] for group in ('database', 'api_database')}
"""Options that opened() reads, by group."""
TIMEOUT_S = 10.0
ANSWER_S = 2.0
"""How long cells may take, all together, to say where a name is."""


class FoundServer(NamedTuple):
    """A server and its cell."""

    row: ServerRow
    cell: Cell

    @property
    def uuid(self) -> str:
        return self.row.uuid

    @property
    def name(self) -> str:
        return self.row.name or self.row.uuid


class ServerFinder:
    """Looks for servers in all cells. Every method raises errors.StoreFailed when the
    API database cannot be asked; a cell that cannot is named in ``unreadable``.

    ``make_engine`` gets the URL of a cell's database; ``unavailable`` are the names of
    cells that are known not to answer. All cells are asked at once, for ``within_s``
    or as long as they take.
    """

    def __init__(
        self,
        api: SqlServers,
        make_engine: Callable[[str], sa.Engine],
        unavailable: Iterable[str] = (),
        within_s: float | None = None,
    ) -> None:
        self._api = api
        self._within_s = within_s
        self._make_engine = make_engine
        self._cells = {each.uuid: each for each in api.cells()}
        self._opened: dict[str, CellServerRows] = {}
        self.unreadable = list(unavailable)

    def ask_again(self, cells: Iterable[Cell], unavailable: Iterable[str]) -> None:
        """Ask these cells from now on, but those that are known not to answer."""
        self._cells = {each.uuid: each for each in cells}
        self.unreadable = list(unavailable)

    def one(self, name: str) -> FoundServer:
        """Return the server of a uuid or name, also one in cell0, that got no host.
        Raises errors.OptionError for none, and for several."""
        found = self._of_uuid(name) if uuidutils.is_uuid_like(name) else []
        found = found or self._named(name)
        if len(found) == 1:
            return found[0]
        if found:
            listed = ', '.join(each.uuid for each in found)
            raise errors.OptionError(
                'SERVER', f'{len(found)} servers are called {name}: {listed}',
                'Give the uuid',
            )  # fmt: skip
        missing = ''
        if self.unreadable:
            missing = f'; {", ".join(self.unreadable)} could not be asked'
        raise errors.OptionError(
            'SERVER', f'there is no server {name}{missing}', 'Give a name or uuid'
        )

    def called(self, name: str) -> list[str]:
        """Return the uuids of the servers of a name, also in cell0. If there are none,
        deleted servers count."""
        if live := self._named(name):
            return [server.uuid for server in live]
        answers = self.of_cells(lambda rows: rows.deleted(name), self._cells.values())
        return [uuid for _, uuids in answers for uuid in uuids]

    def _named(self, name: str) -> list[FoundServer]:
        return self._ask(lambda rows: rows.named(name), self._cells.values())

    def on(self, hosts: Sequence[str]) -> list[FoundServer]:
        """Return the servers on some hosts, by cell and age."""
        return self._ask(lambda rows: rows.on(hosts)) if hosts else []

    def hosts_of(self, uuids: Sequence[str], cell: Cell | None = None) -> set[str]:
        """Return the hosts of some servers, those in one cell or in all."""
        cells = None if cell is None else [cell]
        answers = self.of_cells(lambda rows: rows.hosts_of(uuids), cells)
        return set().union(*(hosts for _, hosts in answers))

    def close(self) -> None:
        """Close the connections to the cells."""
        for rows in self._opened.values():
            rows.close()

    def _of_uuid(self, uuid: str) -> list[FoundServer]:
        cell = self._cells.get(self._api.cell_of(uuid) or '')
        return [] if cell is None else self._ask(lambda rows: rows.of([uuid]), [cell])

    def of_cells(
        self,
        question: Callable[[CellServerRows], T],
        cells: Iterable[Cell] | None = None,
    ) -> list[tuple[Cell, T]]:
        """Ask some cells, or all but cell0; those that answer are in the result."""
        if cells is None:
            cells = [c for c in self._cells.values() if c.uuid != CELL0_UUID]
        asked = [c for c in cells if (c.name or c.uuid) not in self.unreadable]
        executor = BulkheadExecutor('servers', len(asked))
        answers = {
            executor.submit(functools.partial(self._answer, question, cell)): cell
            for cell in asked
        }
        executor.close()
        late = concurrent.futures.wait(answers, self._within_s).not_done
        found: list[tuple[Cell, T]] = []
        for future, cell in answers.items():
            if future in late or isinstance(future.exception(), errors.StoreFailed):
                self.unreadable.append(cell.name or cell.uuid)
            else:
                found.append((cell, future.result()))
        return found

    def _answer(self, question: Callable[[CellServerRows], T], cell: Cell) -> T:
        return question(self._rows(cell))

    def _ask(
        self,
        question: Callable[[CellServerRows], Sequence[ServerRow]],
        cells: Iterable[Cell] | None = None,
    ) -> list[FoundServer]:
        answers = self.of_cells(question, cells)
        return [FoundServer(row, cell) for cell, rows in answers for row in rows]

    def _rows(self, cell: Cell) -> CellServerRows:
        if cell.uuid not in self._opened:
            made = CellServerRows(*engines.engine_of(cell, self._make_engine))
            return self._opened.setdefault(cell.uuid, made)
        return self._opened[cell.uuid]


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts, within_s: float = ANSWER_S) -> Iterator[ServerFinder]:
    """Open the databases that a configuration names, to find servers in them. Raises
    errors.OptionError, and errors.StoreFailed where there is no API database."""
    api = engines.api_engine(conf, timeout_s=TIMEOUT_S)
    make_engine = functools.partial(engines.cell_engine, conf, timeout_s=TIMEOUT_S)
    with contextlib.ExitStack() as stack:
        stack.callback(api.dispose)
        servers = SqlServers(api, UrlDefaults(conf.database.connection))
        finder = ServerFinder(servers, make_engine, within_s=within_s)
        stack.callback(finder.close)
        yield finder
