# SPDX-License-Identifier: Apache-2.0
"""The age of the cluster view, and the cells that it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from novasched.observability import catalogue
from novasched.observability.health import FAIL, PASS, WARN, Check, Health
from novasched.observability.requests import Numbers
from novasched.ports import Cell, Clock

CHECKS_MISSED = 3
"""So many times in a row must a cell not have been read, to be called old."""


class KnownCells(Protocol):
    """Satisfied by cluster.cells.Cells."""

    def enabled(self) -> list[Cell]:
        """Return the cells that hosts are taken from."""

    def unavailable(self) -> list[Cell]:
        """Return those of them that are not asked now."""


class Freshness:
    """Compares what the view knows with the clock.

    ``asked_at`` tells when what is known of each cell was asked for, by uuid.
    """

    def __init__(
        self,
        cells: KnownCells,
        asked_at: Callable[[], dict[str, float]],
        clock: Clock,
        health: Health,
        check_interval_s: float,
    ) -> None:
        self._cells = cells
        self._asked_at = asked_at
        self._clock = clock
        self._health = health
        self._most_s = CHECKS_MISSED * check_interval_s
        self._began_s = clock.monotonic()
        self._shown: set[str] = set()

    def look(self) -> dict[str, Check]:
        """Judge the database of each cell, and the view as a whole.

        One cell of several that is left out is a warning: the others are served.
        """
        enabled, time = self._cells.enabled(), self._health.time()
        if not enabled:
            return {}
        out = {cell.uuid for cell in self._cells.unavailable()}
        bad = Check(
            WARN if len(out) < len(enabled) else FAIL,
            time,
            f'the cell is left out: {len(enabled) - len(out)} of {len(enabled)} answer',
        )
        found = {
            f'cell_db:{cell.uuid}': bad if cell.uuid in out else Check(PASS, time)
            for cell in enabled
        }
        ages_s = self._ages_s()
        ages = [ages_s.get(cell.uuid) for cell in enabled]
        return {**found, 'cluster_view': self._judge(ages, time)}

    def _ages_s(self) -> dict[str, float]:
        now_s = self._clock.monotonic()
        return {uuid: now_s - at_s for uuid, at_s in self._asked_at().items()}

    def _judge(self, ages_s: list[float | None], time: str) -> Check:
        """A cell that was not read yet is as old as the view, which may be new."""
        view_s = self._clock.monotonic() - self._began_s
        old = sum((view_s if s is None else s) > self._most_s for s in ages_s)
        if old:
            most = f'{self._most_s:.0f} s'
            output = f'{old} of {len(ages_s)} cells were not read for over {most}'
            return Check(WARN if old < len(ages_s) else FAIL, time, output)
        if unread := ages_s.count(None):
            output = f'{unread} of {len(ages_s)} cells were not read yet'
            return Check(WARN, time, output)
        return Check(PASS, time)

    def measure(self, numbers: Numbers, now: float) -> None:
        """Set the gauges of all cells; ``now`` is in seconds since 1970."""
        ages_s = self._ages_s()
        out = {cell.uuid for cell in self._cells.unavailable()}
        enabled = {cell.name or cell.uuid: cell for cell in self._cells.enabled()}
        for name, cell in enabled.items():
            if cell.uuid in ages_s:
                numbers.set(catalogue.CELL_TIME, now - ages_s[cell.uuid], name)
            numbers.set(catalogue.CELL_LEFT_OUT, cell.uuid in out, name)
        for gone in self._shown - enabled.keys():
            numbers.set(catalogue.CELL_TIME, 0, gone)
            numbers.set(catalogue.CELL_LEFT_OUT, 0, gone)
        self._shown |= enabled.keys()
