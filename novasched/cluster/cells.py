# SPDX-License-Identifier: Apache-2.0
"""Cells, queried in parallel, each with a deadline and a circuit breaker.

If a cell fails or is late, its answer is missing. A cell that is late, or has failed
several times in a row, is unavailable until a retry in the background succeeds. It is
then asked over new connections, by new threads, even if old ones still hang.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from oslo_config import cfg

from novasched import errors
from novasched.ports import CELL0_UUID, Cell, CellStore, CellStores
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor, CellAnswers, retry_once

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.IntOpt(
            'cell_worker_thread_pool_size',
            default=5,
            min=1,
            help='Questions that one process asks one cell at the same time. All '
            'cells are asked at once, so that a hung cell delays no other.',
        )
    ],
    'novasched': [
        cfg.FloatOpt(
            'cell_timeout',
            default=1.5,
            min=0.1,
            help='Seconds that a request waits for a cell database. A late cell is '
            'left out of this decision, and of later decisions until it has answered '
            'in the background. If the fastest cell takes more than a third of this '
            'time, requests wait longer.',
        ),
        cfg.FloatOpt(
            'cell_patience',
            default=10.0,
            min=0.1,
            help='Seconds that a request waits if no cell database has answered within '
            '``cell_timeout``. Without any cell there would be no host. A request of '
            'a server group waits as long for the instances of its members.',
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
"""How often in a row a cell may fail at once before it is unavailable.

A repeated query costs no time, and succeeds after a failover of the database.
"""

FIRST_RETRY_S = 1.0
"""When an unavailable cell is tried for the first time: most delays are short."""

STEADY_S = 60.0
"""How long a cell must answer before its next retry starts with FIRST_RETRY_S again.

Otherwise a cell that answers only small queries would delay a request every 2 s.
"""


@dataclass
class CircuitBreaker:
    """Circuit breaker of one cell; the caller holds a lock.

    While it is open, the cell is unavailable, and due for a retry at ``until_s``;
    ``after_s`` is that pause. Once closed again it is on trial until ``until_s``.
    ``is_broken``: it keeps failing by what does not end by itself.
    """

    failures: int = 0
    is_open: bool = False
    until_s: float = float('-inf')
    after_s: float = 0.0
    is_broken: bool = False

    def open(self, now_s: float, longest_s: float, *, alone: bool) -> bool:
        """Make the cell unavailable; return whether it was available before.

        For longer each time, unless it is ``alone``: no other cell gives hosts.
        """
        was_open = self.is_open
        starts = alone or (not was_open and self.until_s <= now_s)
        after_s = FIRST_RETRY_S if starts else self.after_s * 2
        self.after_s = min(after_s, longest_s)
        self.until_s = now_s + self.after_s
        self.is_open = True
        return not was_open

    def close(self, now_s: float) -> bool:
        """Put the cell on trial; return whether it was unavailable."""
        was_open = self.is_open
        if was_open:
            self.until_s = now_s + STEADY_S
        self.failures, self.is_open, self.is_broken = 0, False, False
        return was_open


def is_for_good(problem: BaseException | None) -> bool:
    """Return whether a database will answer the same until somebody mends it."""
    return isinstance(problem, errors.StoreFailed) and not problem.unavailable


ResultT = TypeVar('ResultT')
Question = Callable[[Cell, CellStore], ResultT]


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
        self._clock = clock
        self.timeout_s = timeout_s
        self._retry_interval_s = retry_interval_s
        self._threads = threads
        self._lock = threading.Lock()
        self._cells: dict[str, Cell] = {}
        self._circuits: dict[str, CircuitBreaker] = {}
        self._executors: dict[str, BulkheadExecutor] = {}
        self._closed = False

    @classmethod
    def from_conf(cls, conf: Any, stores: CellStores, clock: Clock) -> Self:
        own = conf.novasched
        return cls(
            stores,
            clock,
            timeout_s=own.cell_timeout,
            retry_interval_s=own.cell_retry_interval,
            threads=conf.cell_worker_thread_pool_size,
            patience_s=own.cell_patience,
        )

    def replace(self, cells: Iterable[Cell]) -> set[str]:
        """Take these as all cells; return the uuids of those that are new, gone or
        changed. What was known of their databases is forgotten."""
        found = {cell.uuid: cell for cell in cells}
        with self._lock:
            before = self._cells
            changed = {
                uuid
                for uuid in before.keys() | found.keys()
                if before.get(uuid) != found.get(uuid)
            }
            self._cells = found
            known = self._circuits
            self._circuits = {
                u: CircuitBreaker() if u in changed else known[u] for u in found
            }
            for uuid in changed & self._executors.keys():
                self._executors.pop(uuid).close()
        if changed:
            self._stores.forget(changed)
            self._log_cells('', self.all())
            disabled = [cell for cell in self.all() if cell.disabled]
            self._log_cells('disabled ', disabled)
        return changed

    @staticmethod
    def _log_cells(kind: str, cells: list[Cell]) -> None:
        uuids = ', '.join(cell.uuid for cell in cells)
        LOG.debug('Found %d %scells: %s', len(cells), kind, uuids)

    @property
    def cell0(self) -> Cell | None:
        return self._cells.get(CELL0_UUID)

    def all(self) -> list[Cell]:
        """Return the cells but cell0, disabled ones included, by id."""
        return [cell for cell in self._cells.values() if cell.uuid != CELL0_UUID]

    def enabled(self) -> list[Cell]:
        """Return the cells that hosts are taken from."""
        return [cell for cell in self.all() if not cell.disabled]

    def get(self, uuid: str) -> Cell | None:
        return None if uuid == CELL0_UUID else self._cells.get(uuid)

    def _circuit(self, cell: Cell) -> CircuitBreaker:
        """Return the circuit of a cell; a closed one if the cell is not mapped."""
        return self._circuits.get(cell.uuid) or CircuitBreaker()

    def _is_available(self, cell: Cell) -> bool:
        return not self._circuit(cell).is_open

    def unavailable(self) -> list[Cell]:
        """Return the enabled cells that are not asked now: late, or kept failing."""
        return [cell for cell in self.enabled() if not self._is_available(cell)]

    def broken(self) -> set[str]:
        """Return the names of the cells that keep failing by what does not end by
        itself, such as a password that is refused."""
        cells = self._cells.values()
        return {c.name or c.uuid for c in cells if self._circuit(c).is_broken}

    def due_for_retry(self) -> list[Cell]:
        """Return the cells, cell0 and disabled ones included, that are unavailable
        and due to be tried again."""
        unavailable = [c for c in self._cells.values() if not self._is_available(c)]
        return [cell for cell in unavailable if self.may_be_asked(cell)]

    def may_be_asked(self, cell: Cell) -> bool:
        """Return whether a cell is available, or due to be tried again."""
        circuit = self._circuit(cell)
        return not circuit.is_open or circuit.until_s <= self._clock.monotonic()

    def ask(
        self,
        question: Question[ResultT],
        cells: Iterable[Cell],
        *,
        probe: bool = False,
        timeout_s: float | None = None,
        what: str = 'computes',
        judges: bool = True,
    ) -> dict[str, ResultT]:
        """Ask all cells at once; return the answers in time, by cell uuid, in order.

        If an available cell fails or is late, a warning in nova's words is logged. A
        cell that is late, or failed ``FAILURES`` times in a row, is unavailable until
        it answers a ``probe``; only that asks unavailable cells. Without ``judges``,
        cells keep their state.
        """
        asked = [
            cell
            for cell in cells
            if not self._closed and (probe or self._is_available(cell))
        ]
        answers = CellAnswers[ResultT]()
        for cell in asked:
            self._put(question, cell, answers)
        limit_s = timeout_s or self.timeout_s
        patience_s = self.patience_s if timeout_s is None else limit_s
        answers.wait(len(asked), limit_s, patience_s)
        for cell in asked:
            self._take_outcome(cell, answers, what, judges)
        return {c.uuid: answers.found[c.uuid] for c in asked if c.uuid in answers.found}

    def _take_outcome(
        self, cell: Cell, answers: CellAnswers[Any], what: str, judges: bool
    ) -> None:
        """Log a failure of a cell, and judge the cell."""
        answered = cell.uuid in answers.found
        problem = answers.problems.get(cell.uuid)
        if not answered:
            self._log_failure(cell, what, problem)
        if judges:
            late = not answered and problem is None
            self._judge(cell, answered, late, is_broken=is_for_good(problem))
        elif answered:
            self._circuit(cell).is_broken = False

    def _log_failure(
        self, cell: Cell, what: str, problem: BaseException | None
    ) -> None:
        """Say that a cell has failed, or was late if there is no problem."""
        level = logging.WARNING if self._is_available(cell) else logging.DEBUG
        if problem is None:
            LOG.log(level, 'Timeout getting %s for cell %s', what, cell.uuid)
        elif isinstance(problem, errors.StoreFailed):
            LOG.log(level, 'Failed to get %s for cell %s: %s', what, cell.uuid, problem)
        else:
            # A defect, or what no driver should return: the others stand.
            LOG.error('Failed to get %s for cell %s', what, cell.uuid, exc_info=problem)

    def _put(
        self, question: Question[ResultT], cell: Cell, answers: CellAnswers[ResultT]
    ) -> None:
        def ask() -> ResultT:
            return retry_once(lambda: question(cell, self._open(cell)))

        with self._lock:
            executor = self._executors.get(cell.uuid)
            if executor is None:
                executor = BulkheadExecutor(f'cell {cell.uuid}', self._threads)
                self._executors[cell.uuid] = executor
            executor.call(functools.partial(answers.call, cell.uuid, ask))

    def _open(self, cell: Cell) -> CellStore:
        """Open a cell as it is mapped now."""
        with self._lock:
            mapped = self._cells.get(cell.uuid)
            if self._closed or mapped is None:
                problem = 'the service is stopping' if self._closed else 'no such cell'
                raise errors.StoreFailed(f'cell {cell.uuid}', problem)
            return self._stores.open(mapped)

    def _judge(
        self, cell: Cell, answered: bool, late: bool, *, is_broken: bool
    ) -> None:
        """Close the circuit of a cell that answered; open it if the cell is late or
        keeps failing. Log both once.

        Calls that hang end by themselves; later calls get new threads and connections.
        """
        now_s = self._clock.monotonic()
        with self._lock:
            circuit = self._circuits.get(cell.uuid)
            if circuit is None:  # it is not mapped any more
                return
            if answered:
                if circuit.close(now_s):
                    LOG.info('Cell %s answers again', cell.uuid)
                return
            circuit.failures += 1
            circuit.is_broken = is_broken and circuit.failures >= FAILURES
            if late or circuit.failures >= FAILURES or circuit.is_open:
                self._leave_out(cell, circuit, now_s)
            if late and cell.uuid in self._executors:
                self._executors.pop(cell.uuid).close()
        if late:
            self._stores.forget({cell.uuid})

    def _leave_out(self, cell: Cell, circuit: CircuitBreaker, now_s: float) -> None:
        others = [c for c in self.enabled() if c.uuid != cell.uuid]
        alone = not any(map(self._is_available, others))
        if circuit.open(now_s, self._retry_interval_s, alone=alone):
            LOG.error(
                'Cell %s(%s) is left out of all decisions until it answers',
                cell.uuid,
                cell.name,
            )

    def close(self, join_s: float = 0.0) -> None:
        """Ask nothing more, and close the connections.

        Waits up to ``join_s`` for the threads to end.
        """
        with self._lock:
            self._closed = True
            executors = list(self._executors.values())
            for executor in executors:
                executor.close()
        deadline = SYSTEM_CLOCK.monotonic() + join_s
        for executor in executors:
            executor.join(deadline - SYSTEM_CLOCK.monotonic())
        self._stores.forget()
