# SPDX-License-Identifier: Apache-2.0
"""Cells, queried in parallel, each with a deadline and a circuit breaker.

A cell that fails or is late is missing from that answer. One that is late, or has
failed several times in a row, is unavailable from then on until a retry in the
background has succeeded; it is then asked over new connections, by new threads,
whatever has become of the old ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, TypeVar

from oslo_config import cfg

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.cell_executor import CellExecutor, retry_once, wait
from novasched.ports import CELL0_UUID, Cell, CellStore, CellStores

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
"""How often in a row a cell may fail at once before it is unavailable: what takes no
time costs nothing to try again, as after a failover of the database."""

FIRST_RETRY_S = 1.0
"""When an unavailable cell is tried for the first time: most delays are short."""

STEADY_S = 60.0
"""How long a cell must have answered for the next time to be like the first: else one
that answers a small question only would hold up a request every other second."""


class _Pause(NamedTuple):
    """A cell is unavailable, or on trial, until ``until``, in monotonic seconds; it was
    tried again after ``after_s``."""

    until: float
    after_s: float


class RetryBackoff:
    """The pauses of cells by uuid, ``longest_s`` at most; the caller holds a lock."""

    def __init__(self, clock: Clock, longest_s: float) -> None:
        self._clock = clock
        self._longest_s = longest_s
        self._pauses: dict[str, _Pause] = {}
        self._trials: dict[str, _Pause] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._pauses

    def is_over(self, uuid: str) -> bool:
        """Say whether a cell has no pause, or one that has lasted long enough."""
        pause = self._pauses.get(uuid)
        return pause is None or pause.until <= self._clock.monotonic()

    def begin(self, uuid: str, *, alone: bool) -> bool:
        """Make a cell unavailable, for longer each time, unless it is ``alone``: there
        is no other to take hosts from. Return whether it was available before."""
        now_s = self._clock.monotonic()
        trial = self._trials.pop(uuid, None)
        if trial is not None and trial.until <= now_s:
            trial = None
        before = self._pauses.get(uuid, trial)
        after_s = FIRST_RETRY_S if before is None or alone else before.after_s * 2
        after_s = min(after_s, self._longest_s)
        is_new = uuid not in self._pauses
        self._pauses[uuid] = _Pause(now_s + after_s, after_s)
        return is_new

    def end(self, uuid: str) -> bool:
        """Put a cell on trial; return whether it was unavailable."""
        pause = self._pauses.pop(uuid, None)
        if pause is None:
            return False
        until = self._clock.monotonic() + STEADY_S
        self._trials[uuid] = _Pause(until, pause.after_s)
        return True

    def forget(self, uuid: str) -> None:
        """Forget that there ever was a pause."""
        self._pauses.pop(uuid, None)
        self._trials.pop(uuid, None)


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
        self._timeout_s = timeout_s
        self._threads = threads
        self._lock = threading.Lock()
        self._cells: dict[str, Cell] = {}
        self._executors: dict[str, CellExecutor] = {}
        self._backoff = RetryBackoff(clock, retry_interval_s)
        self._failures: dict[str, int] = {}
        self._closed = False
        self.cell0: Cell | None = None

    @classmethod
    def from_conf(cls, conf: Any, stores: CellStores, clock: Clock) -> Self:
        """Read the options."""
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
            before = self._by_uuid()
            changed = {
                uuid
                for uuid in before.keys() | found.keys()
                if before.get(uuid) != found.get(uuid)
            }
            self.cell0 = found.pop(CELL0_UUID, None)
            self._cells = found
            for uuid in changed:
                self._backoff.forget(uuid)
                self._failures.pop(uuid, None)
                if uuid in self._executors:
                    self._executors.pop(uuid).close()
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

    def unavailable(self) -> list[Cell]:
        """Return the enabled cells that are not asked now: late, or kept failing."""
        return [cell for cell in self.enabled() if cell.uuid in self._backoff]

    def due_for_retry(self) -> list[Cell]:
        """Return the cells, cell0 and disabled ones included, that are unavailable
        and due to be tried again."""
        cells = list(self._by_uuid().values())
        return [c for c in cells if c.uuid in self._backoff and self.may_be_asked(c)]

    def may_be_asked(self, cell: Cell) -> bool:
        """Say whether a cell is available, or due to be tried again."""
        return self._backoff.is_over(cell.uuid)

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

        Cells that fail or are late get a warning in nova's words, unless they are
        unavailable already. Those that are late, or have failed ``FAILURES`` times in
        a row, are unavailable until they answer a ``probe``, which is put to those,
        too; unless ``judges``, the question says nothing of that.
        """
        asked = {
            self._put(question, cell): cell
            for cell in cells
            if not self._closed and (probe or cell.uuid not in self._backoff)
        }
        limit_s = timeout_s or self._timeout_s
        patience_s = self.patience_s if timeout_s is None else limit_s
        late_ones = wait(asked, limit_s, patience_s)
        answers = {}
        for future, cell in asked.items():
            late = future in late_ones
            level = logging.DEBUG if cell.uuid in self._backoff else logging.WARNING
            if late:
                future.cancel()
                LOG.log(level, 'Timeout getting %s for cell %s', what, cell.uuid)
            elif self._succeeded(future, cell, what, level):
                answers[cell.uuid] = future.result()
            if judges and cell.uuid in answers:
                self._close_circuit(cell)
            elif judges and self._open_circuit(cell, late):
                self._drop_connections(cell)
        return answers

    def _succeeded(
        self,
        future: Future[ResultT],
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

    def _put(self, question: Question[ResultT], cell: Cell) -> Future[ResultT]:
        with self._lock:
            executor = self._executors.get(cell.uuid)
            if executor is None:
                executor = CellExecutor(f'cell {cell.uuid}', self._threads)
                self._executors[cell.uuid] = executor
            return executor.submit(
                lambda: retry_once(lambda: question(cell, self._open(cell)))
            )

    def _open(self, cell: Cell) -> CellStore:
        """Open a cell as it is mapped now."""
        with self._lock:
            mapped = self._by_uuid().get(cell.uuid)
            if self._closed or mapped is None:
                problem = 'the service is stopping' if self._closed else 'no such cell'
                raise errors.StoreFailed(f'cell {cell.uuid}', problem)
            return self._stores.open(mapped)

    def _close_circuit(self, cell: Cell) -> None:
        with self._lock:
            self._failures.pop(cell.uuid, None)
            if self._backoff.end(cell.uuid):
                LOG.info('Cell %s answers again', cell.uuid)

    def _open_circuit(self, cell: Cell, late: bool) -> bool:
        """Open the circuit of a cell that is late or keeps failing, and log that once;
        return whether it is late, and mapped as it was."""
        uuid = cell.uuid
        with self._lock:
            if uuid not in self._by_uuid():
                return False
            failures = self._failures[uuid] = self._failures.get(uuid, 0) + 1
            if late or failures >= FAILURES or uuid in self._backoff:
                others = [c.uuid for c in self.enabled() if c.uuid != uuid]
                alone = all(other in self._backoff for other in others)
                if self._backoff.begin(uuid, alone=alone):
                    LOG.error(
                        'Cell %s(%s) is left out of all decisions until it answers',
                        uuid,
                        cell.name,
                    )
        return late

    def _drop_connections(self, cell: Cell) -> None:
        """Let hung calls end by themselves; later ones get new threads, connections."""
        with self._lock:
            executor = self._executors.pop(cell.uuid, None)
        if executor is not None:
            executor.close()
        self._stores.forget({cell.uuid})

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
