# SPDX-License-Identifier: Apache-2.0
"""The cells, asked side by side, each with a deadline and a breaker.

A cell that fails or is late is left out of what it was asked for. One that is
late, or has failed several times in a row, is left out of all that follows until a
retry in the background has succeeded; it is then asked over new connections, by
new threads, whatever has become of the old ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from oslo_config import cfg

from novasched import errors
from novasched.cluster.lanes import Lane, once_more, wait
from novasched.cluster.pauses import Pauses
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
            default=1.5,
            min=0.1,
            help='Seconds that a request waits for a cell database. A cell that is '
            'later is left out of the decision, and of those that follow until it '
            'has answered in the background. It gets longer where the fastest cell '
            'takes more than a third of that.',
        ),
        cfg.FloatOpt(
            'cell_patience',
            default=10.0,
            min=0.1,
            help='Seconds that a request waits when no cell database has answered in '
            '``cell_timeout``, as when there is but one: to wait is better than to '
            'have no host. As long for the instances of a server group in a cell: '
            'without them there is no decision.',
        ),
        cfg.FloatOpt(
            'cell_retry_interval',
            default=15.0,
            min=0.1,
            help='Seconds at most until a cell that was late, or kept failing, is '
            'tried again: one at first, then twice as long each time. While no cell '
            'answers, all are tried every second.',
        ),
    ],
}

FAILURES = 3
"""How often in a row a cell may fail at once before it is left out: what takes no
time costs nothing to try again, as after a failover of the database."""

Answer = TypeVar('Answer')
Question = Callable[[Cell, CellStore], Answer]


class Cells:
    """The cells of the cloud, cell0 apart, and their databases.

    ``threads`` bounds the questions to one cell at the same time; ``patience_s`` is
    how long a request waits for what it cannot do without.
    """

    def __init__(
        self,
        stores: CellStores,
        clock: Clock,
        timeout_s: float = 1.5,
        retry_interval_s: float = 15.0,
        threads: int = 5,
        patience_s: float | None = None,
    ) -> None:
        self.patience_s = timeout_s if patience_s is None else patience_s
        self._stores = stores
        self._timeout_s = timeout_s
        self._threads = threads
        self._lock = threading.Lock()
        self._cells: dict[str, Cell] = {}
        self._lanes: dict[str, Lane] = {}
        self._pauses = Pauses(clock, retry_interval_s)
        self._failures: dict[str, int] = {}
        self._closed = False
        self.cell0: Cell | None = None

    @classmethod
    def from_conf(cls, conf: Any, stores: CellStores, clock: Clock) -> Self:
        """Read the options."""
        own, threads = conf.novasched, conf.cell_worker_thread_pool_size
        times_s = own.cell_timeout, own.cell_retry_interval
        return cls(stores, clock, *times_s, threads, own.cell_patience)

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
                self._pauses.forget(uuid)
                self._failures.pop(uuid, None)
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
        """Return the enabled cells that are not asked now: late, or kept failing."""
        return [cell for cell in self.enabled() if cell.uuid in self._pauses]

    def due_for_retry(self) -> list[Cell]:
        """Return the cells, cell0 and disabled ones included, that are left out and
        whose time to be tried again has come."""
        cells = list(self._by_uuid().values())
        return [c for c in cells if c.uuid in self._pauses and self.may_be_asked(c)]

    def may_be_asked(self, cell: Cell) -> bool:
        """Say whether a cell is not left out, or due to be tried again."""
        return self._pauses.is_over(cell.uuid)

    def ask(
        self,
        question: Question[Answer],
        cells: Iterable[Cell],
        *,
        even_left_out: bool = False,
        timeout_s: float | None = None,
        what: str = 'computes',
        judges: bool = True,
    ) -> dict[str, Answer]:
        """Ask all cells at once; return the answers in time, by cell uuid, in order.

        Cells that fail or are late get a warning in nova's words, unless they are
        left out already. Those that are late, or have failed ``FAILURES`` times in a
        row, are left out until they answer a question that is put
        ``even_left_out``; unless ``judges``, the question says nothing of that.
        """
        asked = {
            self._put(question, cell): cell
            for cell in cells
            if not self._closed and (even_left_out or cell.uuid not in self._pauses)
        }
        limit_s = timeout_s or self._timeout_s
        patience_s = self.patience_s if timeout_s is None else limit_s
        late_ones = wait(asked, limit_s, patience_s)
        answers = {}
        for future, cell in asked.items():
            late = future in late_ones
            level = logging.DEBUG if cell.uuid in self._pauses else logging.WARNING
            if late:
                future.cancel()
                LOG.log(level, 'Timeout getting %s for cell %s', what, cell.uuid)
            elif self._succeeded(future, cell, what, level):
                answers[cell.uuid] = future.result()
            if judges and cell.uuid in answers:
                self._take_in(cell)
            elif judges and self._leave_out(cell, late):
                self._drop_connections(cell)
        return answers

    def _succeeded(
        self,
        future: Future[Answer],
        cell: Cell,
        what: str,
        level: int,
    ) -> bool:
        problem = future.exception()
        if isinstance(problem, errors.StoreFailed):
            LOG.log(level, 'Failed to get %s for cell %s: %s', what, cell.uuid, problem)
        elif problem is not None:
            # A defect, or what no driver should return: the others stand.
            LOG.error('Failed to get %s for cell %s', what, cell.uuid, exc_info=problem)
        return problem is None

    def _put(self, question: Question[Answer], cell: Cell) -> Future[Answer]:
        with self._lock:
            lane = self._lanes.get(cell.uuid)
            if lane is None:
                lane = self._lanes[cell.uuid] = Lane(f'cell {cell.uuid}', self._threads)
            return lane.submit(
                lambda: once_more(lambda: question(cell, self._open(cell)))
            )

    def _open(self, cell: Cell) -> CellStore:
        """Open a cell as it is mapped now."""
        with self._lock:
            mapped = self._by_uuid().get(cell.uuid)
            if self._closed or mapped is None:
                problem = 'the service is stopping' if self._closed else 'no such cell'
                raise errors.StoreFailed(f'cell {cell.uuid}', problem)
            return self._stores.open(mapped)

    def _take_in(self, cell: Cell) -> None:
        with self._lock:
            self._failures.pop(cell.uuid, None)
            if self._pauses.end(cell.uuid):
                LOG.info('Cell %s answers again', cell.uuid)

    def _leave_out(self, cell: Cell, late: bool) -> bool:
        """Leave out a cell that is late or keeps failing, and say so once; return
        whether it is late, and mapped as it was."""
        uuid = cell.uuid
        with self._lock:
            if uuid not in self._by_uuid():
                return False
            failures = self._failures[uuid] = self._failures.get(uuid, 0) + 1
            if late or failures >= FAILURES or uuid in self._pauses:
                others = [c.uuid for c in self.enabled() if c.uuid != uuid]
                alone = all(other in self._pauses for other in others)
                if self._pauses.begin(uuid, alone=alone):
                    LOG.error(
                        'Cell %s(%s) is left out of all decisions until it answers',
                        uuid,
                        cell.name,
                    )
        return late

    def _drop_connections(self, cell: Cell) -> None:
        """Let what hangs come to its end by itself; what follows begins anew."""
        with self._lock:
            lane = self._lanes.pop(cell.uuid, None)
        if lane is not None:
            lane.close()
        self._stores.forget({cell.uuid})

    def close(self, join_s: float = 0.0) -> None:
        """Ask nothing more, and close the connections.

        Waits up to ``join_s`` for the threads to end.
        """
        with self._lock:
            self._closed = True
            lanes = list(self._lanes.values())
            for lane in lanes:
                lane.close()
        deadline = time.monotonic() + join_s
        for lane in lanes:
            lane.join(deadline - time.monotonic())
        self._stores.forget()
