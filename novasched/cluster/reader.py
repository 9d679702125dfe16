# SPDX-License-Identifier: Apache-2.0
"""Puts questions to cells, and takes their answers into what is known of them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable

from novasched.cluster.cells import Cells
from novasched.cluster.nodes import Nodes
from novasched.cluster.reading import Moment
from novasched.cluster.services import Window
from novasched.ports import Cell, Clock

ASIDE_AGE_S = 60.0
"""For how long changes will do of a cell that only requests which name it read."""

ATTEMPTS = 5
"""How often a cell is asked whose answer an older one came in between of."""


class CellReader:
    """Reads into ``nodes``, which ``lock`` guards; several may read at once."""

    def __init__(
        self, cells: Cells, nodes: Nodes, clock: Clock, down_time_s: int
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
        even_left_out: bool = False,
        timeout_s: float | None = None,
    ) -> frozenset[str]:
        """Read what changed, or all; return the uuids of the cells that answered."""
        ask = functools.partial(
            self._read, even_left_out=even_left_out, timeout_s=timeout_s
        )
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
        even_left_out: bool,
        timeout_s: float | None,
    ) -> tuple[set[str], list[Cell]]:
        """Put one question to each cell; return the uuids of those that answered, and
        the cells to be asked again."""
        cells, doubtful = list(cells), set()
        moment = Moment(self.window(), self._clock.monotonic())
        with self.lock:
            readings = {
                cell.uuid: self._nodes.begin(
                    cell.uuid, moment, complete=complete, all_services=all_services
                )
                for cell in cells
            }
        try:
            answers = self._cells.ask(
                lambda cell, store: readings[cell.uuid].ask(store),
                cells,
                even_left_out=even_left_out,
                timeout_s=timeout_s,
            )
            with self.lock:
                for uuid, answer in answers.items():
                    if not self._nodes.take(readings[uuid], answer):
                        doubtful.add(uuid)
        finally:
            with self.lock:
                for reading in readings.values():
                    self._nodes.end(reading)
        return set(answers), [cell for cell in cells if cell.uuid in doubtful]

    def read_aside(self, cell: Cell) -> frozenset[str]:
        """Read what changed in a cell; all, if that was not done lately."""
        now_s = self._clock.monotonic()
        complete = now_s - self._whole_s.get(cell.uuid, float('-inf')) >= ASIDE_AGE_S
        may_be_asked = self._cells.may_be_asked(cell)
        answered = self.read([cell], complete=complete, even_left_out=may_be_asked)
        if complete and answered:
            self._whole_s[cell.uuid] = now_s
        return answered
