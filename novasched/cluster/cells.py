# SPDX-License-Identifier: Apache-2.0
"""The cells, asked side by side, each with a deadline and a breaker.

A cell that fails or is late is left out of what it was asked for, and of all
that follows until a retry in the background has succeeded.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oslo_config import cfg

from novasched import errors
from novasched.ports import CELL0_UUID, Cell, CellStore, CellStores, Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.IntOpt(
            'cell_worker_thread_pool_size',
            default=5,
            min=1,
            help='Cells that one process asks at the same time.',
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


class Cells:
    """The cells of the cloud, cell0 apart, and their databases."""

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
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, 'cell')
        self._cells: dict[str, Cell] = {}
        self._retry_at: dict[str, float] = {}
        self.cell0: Cell | None = None

    def replace(self, cells: Iterable[Cell]) -> bool:
        """Take these as all cells; True if something changed."""
        cells = list(cells)
        found = {c.uuid: c for c in cells if c.uuid != CELL0_UUID}
        self.cell0 = next((c for c in cells if c.uuid == CELL0_UUID), None)
        if found == self._cells:
            return False
        changed = [u for u, c in self._cells.items() if found.get(u) != c]
        self._stores.forget(changed)
        self._cells = found
        self._retry_at = {u: t for u, t in self._retry_at.items() if u in found}
        LOG.debug('Found %d cells: %s', len(found), ', '.join(found))
        return True

    def all(self) -> list[Cell]:
        return list(self._cells.values())

    def enabled(self) -> list[Cell]:
        return [cell for cell in self._cells.values() if not cell.disabled]

    def get(self, uuid: str) -> Cell | None:
        return self._cells.get(uuid)

    def left_out(self) -> list[Cell]:
        """Return the enabled cells that are not asked now because they failed."""
        return [cell for cell in self.enabled() if cell.uuid in self._retry_at]

    def due_for_retry(self) -> list[Cell]:
        now = self._clock.monotonic()
        return [c for c in self.left_out() if self._retry_at[c.uuid] <= now]

    def store(self, cell: Cell) -> CellStore:
        return self._stores.open(cell)

    def ask(
        self,
        question: Callable[[Cell, CellStore], Answer],
        cells: Iterable[Cell],
        even_left_out: bool = False,
    ) -> dict[str, Answer]:
        """Ask all cells at once; return the answers in time, by cell uuid.

        Cells that fail or are late get a warning in nova's words and are left
        out until they answer a retry, which asks ``even_left_out``.
        """
        asked = {
            self._pool.submit(self._put, question, cell): cell
            for cell in cells
            if even_left_out or cell.uuid not in self._retry_at
        }
        done, late = concurrent.futures.wait(asked, self._timeout_s)
        answers = {}
        for future in done:
            cell = asked[future]
            try:
                answers[cell.uuid] = future.result()
                self._retry_at.pop(cell.uuid, None)
            except errors.StoreFailed as problem:
                LOG.warning(
                    'Failed to get computes for cell %s: %s', cell.uuid, problem
                )
                self._leave_out(cell)
        for future in late:
            future.cancel()
            LOG.warning('Timeout getting computes for cell %s', asked[future].uuid)
            self._leave_out(asked[future])
        return answers

    def _put(self, question: Callable[[Cell, CellStore], Any], cell: Cell) -> Any:
        return question(cell, self._stores.open(cell))

    def _leave_out(self, cell: Cell) -> None:
        self._retry_at[cell.uuid] = self._clock.monotonic() + self._retry_interval_s

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stores.forget()
