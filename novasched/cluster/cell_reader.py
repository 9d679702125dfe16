# SPDX-License-Identifier: Apache-2.0
"""Reader of cells: queries them and takes in the answers, one refresh at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable

from novasched.clock import Clock
from novasched.cluster.cell_query import QueryTime
from novasched.cluster.cells import Cells
from novasched.cluster.nodes import ComputeNodes
from novasched.cluster.services import Window
from novasched.ports import Cell

ASIDE_AGE_S = 60.0
"""For how long changes will do of a cell that only requests which name it read."""

ATTEMPTS = 5
"""How often a cell is asked whose answer an older one came in between of."""


class CellReader:
    """Reads into ``nodes``, which ``lock`` guards; several may read at once."""

    def __init__(
        self, cells: Cells, nodes: ComputeNodes, clock: Clock, down_time_s: int
    ) -> None:
        self._cells = cells
        self._nodes = nodes
        self._clock = clock
        self._down_time_s = down_time_s
        self._whole_s: dict[str, float] = {}
        self.lock = threading.Lock()

    def window(self) -> Window:
        """Return the heartbeats that count now."""
        return Window.around(self._clock.utcnow(), self._down_time_s)

    def read(
        self,
        cells: Iterable[Cell],
        *,
        complete: bool = False,
        all_services: bool = False,
        probe: bool = False,
        timeout_s: float | None = None,
    ) -> frozenset[str]:
        """Read what changed, or all; return the uuids of the cells that answered."""
        ask = functools.partial(self._read, probe=probe, timeout_s=timeout_s)
        answered, doubtful = ask(cells, complete, all_services)
        for _ in range(ATTEMPTS - 1):
            if not doubtful:
                break
            doubtful = ask(doubtful, False, False)[1]
        return frozenset(answered)

    def _read(
        self,
        cells: Iterable[Cell],
        complete: bool,
        all_services: bool,
        *,
        probe: bool,
        timeout_s: float | None,
    ) -> tuple[set[str], list[Cell]]:
        """Put one question to each cell; return the uuids of those that answered, and
        the cells to be asked again."""
        cells, doubtful = list(cells), set()
        moment = QueryTime(self.window(), self._clock.monotonic())
        with self.lock:
            queries = {
                cell.uuid: self._nodes.begin(
                    cell.uuid, moment, complete=complete, all_services=all_services
                )
                for cell in cells
            }
        try:
            answers = self._cells.ask(
                lambda cell, store: queries[cell.uuid].ask(store),
                cells,
                probe=probe,
                timeout_s=timeout_s,
            )
            with self.lock:
                for uuid, answer in answers.items():
                    if not self._nodes.take(queries[uuid], answer):
                        doubtful.add(uuid)
        finally:
            with self.lock:
                for query in queries.values():
                    self._nodes.end(query)
        return set(answers), [cell for cell in cells if cell.uuid in doubtful]

    def read_aside(self, cell: Cell) -> frozenset[str]:
        """Read what changed in a cell; all, if that was not done lately."""
        now_s = self._clock.monotonic()
        complete = now_s - self._whole_s.get(cell.uuid, float('-inf')) >= ASIDE_AGE_S
        may_be_asked = self._cells.may_be_asked(cell)
        answered = self.read([cell], complete=complete, probe=may_be_asked)
        if complete and answered:
            self._whole_s[cell.uuid] = now_s
        return answered


class Refresh:
    """Runs ``read`` so that each caller gets one that began after it called.

    Callers that come while one is running share the next. ``max_age_s`` lets a
    caller be content with a refresh that began at most so long ago.
    """

    def __init__(
        self, read: Callable[[], None], clock: Clock, max_age_s: float = 0.0
    ) -> None:
        self._read = read
        self._clock = clock
        self._max_age_s = max_age_s
        self._turn = threading.Condition()
        self._running = False
        self._started = 0
        self._finished = 0
        self._began_at = float('-inf')

    def __call__(self) -> None:
        with self._turn:
            if self._clock.monotonic() - self._began_at < self._max_age_s:
                return
            wanted = self._started + 1
            while self._running and self._finished < wanted:
                self._turn.wait()
            if self._finished >= wanted:
                return
            self._running = True
            self._started += 1
            began_at = self._clock.monotonic()
        succeeded = False
        try:
            self._read()
            succeeded = True
        finally:
            with self._turn:
                self._running = False
                if succeeded:
                    self._finished = self._started
                    self._began_at = began_at
                self._turn.notify_all()
