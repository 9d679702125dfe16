# SPDX-License-Identifier: Apache-2.0
"""The cells, asked side by side, each with a deadline and a breaker.

A cell that fails or is late is left out of what it was asked for, and of all
that follows until a retry in the background has succeeded.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from oslo_config import cfg

from novasched import errors
from novasched.cluster.lanes import Lane
from novasched.ports import CELL0_UUID, Cell, CellStore, CellStores, Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.IntOpt(
            'cell_worker_thread_pool_size',
            default=5,
            min=1,
            help='Questions that one process asks one cell at the same time. All '
            'cells are asked at once, so that one that hangs holds up no other.',
        )
    ],
    'novasched': [
        cfg.FloatOpt(
            'cell_timeout',
            default=10.0,
            min=0.1,
            help='Seconds that a request waits for a cell database. A cell that is '
            'later is left out of the decision.',
        ),
        cfg.FloatOpt(
            'cell_retry_interval',
            default=15.0,
            min=0.1,
            help='Seconds until a cell that failed or was late is tried again.',
        ),
    ],
}

Answer = TypeVar('Answer')
Question = Callable[[Cell, CellStore], Answer]


class Cells:
    """The cells of the cloud, cell0 apart, and their databases.

    ``threads`` bounds the questions to one cell at the same time.
    """

    def __init__(
        self,
        stores: CellStores,
        clock: Clock,
        timeout_s: float = 10.0,
        retry_interval_s: float = 15.0,
        threads: int = 5,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._timeout_s = timeout_s
        self._retry_interval_s = retry_interval_s
        self._threads = threads
        self._lock = threading.Lock()
        self._cells: dict[str, Cell] = {}
        self._lanes: dict[str, Lane] = {}
        self._retry_at: dict[str, float] = {}
        self._closed = False
        self.cell0: Cell | None = None

    def replace(self, cells: Iterable[Cell]) -> set[str]:
        """Take these as all cells; return the uuids of those that are new, gone or
        changed. What was known of their databases is forgotten."""
        found = {cell.uuid: cell for cell in cells}
        with self._lock:
            before = self._by_uuid()
            changed = {
                uuid
                for uuid in before.keys() | found.keys()
                if before.get(uuid) != found.get(uuid)
            }
            self.cell0 = found.pop(CELL0_UUID, None)
            self._cells = found
            for uuid in changed:
                self._retry_at.pop(uuid, None)
                if uuid in self._lanes:
                    self._lanes.pop(uuid).close()
        if changed:
            self._stores.forget(changed)
            LOG.debug('Found %d cells: %s', len(found), ', '.join(found))
            disabled = [uuid for uuid, cell in found.items() if cell.disabled]
            LOG.debug('Found %d disabled cells: %s', len(disabled), ', '.join(disabled))
        return changed

    def _by_uuid(self) -> dict[str, Cell]:
        cell0 = {} if self.cell0 is None else {CELL0_UUID: self.cell0}
        return {**self._cells, **cell0}

    def all(self) -> list[Cell]:
        """Return the cells but cell0, disabled ones included, by id."""
        return list(self._cells.values())

    def enabled(self) -> list[Cell]:
        """Return the cells that hosts are taken from."""
        return [cell for cell in self._cells.values() if not cell.disabled]

    def get(self, uuid: str) -> Cell | None:
        return self._cells.get(uuid)

    def left_out(self) -> list[Cell]:
        """Return the enabled cells that are not asked now because they failed."""
        return [cell for cell in self.enabled() if cell.uuid in self._retry_at]

    def due_for_retry(self) -> list[Cell]:
        """Return the cells left out whose time to be tried again has come."""
        now = self._clock.monotonic()
        return [c for c in self.left_out() if self._retry_at.get(c.uuid, now) <= now]

    def ask(
        self,
        question: Question[Answer],
        cells: Iterable[Cell],
        *,
        even_left_out: bool = False,
        timeout_s: float | None = None,
        what: str = 'computes',
    ) -> dict[str, Answer]:
        """Ask all cells at once; return the answers in time, by cell uuid, in order.

        Cells that fail or are late get a warning in nova's words and are left
        out until they answer a question that is put ``even_left_out``.
        """
        asked = {
            self._put(question, cell): cell
            for cell in cells
            if not self._closed and (even_left_out or cell.uuid not in self._retry_at)
        }
        done, _ = concurrent.futures.wait(asked, timeout_s or self._timeout_s)
        answers = {}
        for future, cell in asked.items():
            if future not in done:
                future.cancel()
                LOG.warning('Timeout getting %s for cell %s', what, cell.uuid)
                self._leave_out(cell)
                continue
            try:
                answers[cell.uuid] = future.result()
            except errors.StoreFailed as problem:
                LOG.warning(
                    'Failed to get %s for cell %s: %s', what, cell.uuid, problem
                )
                self._leave_out(cell)
            else:
                self._take_in(cell)
        return answers

    def _put(
        self, question: Question[Answer], cell: Cell
    ) -> concurrent.futures.Future[Answer]:
        with self._lock:
            lane = self._lanes.get(cell.uuid)
            if lane is None:
                lane = self._lanes[cell.uuid] = Lane(f'cell {cell.uuid}', self._threads)
            return lane.submit(lambda: question(cell, self._open(cell)))

    def _open(self, cell: Cell) -> CellStore:
        """Open a cell as it is mapped now; one that is not mapped, as it is given."""
        with self._lock:
            if self._closed:
                raise errors.StoreFailed(f'cell {cell.uuid}', 'the service is stopping')
            return self._stores.open(self._by_uuid().get(cell.uuid, cell))

    def _leave_out(self, cell: Cell) -> None:
        with self._lock:
            retry_at = self._clock.monotonic() + self._retry_interval_s
            self._retry_at[cell.uuid] = retry_at

    def _take_in(self, cell: Cell) -> None:
        with self._lock:
            if self._retry_at.pop(cell.uuid, None) is not None:
                LOG.info('Cell %s answers again', cell.uuid)

    def close(self) -> None:
        """Ask nothing more, and close the connections."""
        with self._lock:
            self._closed = True
            for lane in self._lanes.values():
                lane.close()
        self._stores.forget()
