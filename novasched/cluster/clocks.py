# SPDX-License-Identifier: Apache-2.0
"""Clocks that differ from ours: those of the databases and of who writes them."""

from __future__ import annotations

import datetime
import logging
import statistics
from collections.abc import Iterable, Mapping, Sequence

from novasched.cluster.cells import Cells
from novasched.cluster.stamps import named
from novasched.ports import Cell, CellStore, Clock, ServiceRow

LOG = logging.getLogger(__name__)


class Clocks:
    """Looks for clocks that differ by more than ``bound_s``, and names each once.

    Heartbeats may be half of ``down_time_s`` older than those of the others.
    """

    def __init__(
        self, cells: Cells, clock: Clock, bound_s: float, down_time_s: int = 60
    ) -> None:
        self._cells = cells
        self._clock = clock
        self._bound = datetime.timedelta(seconds=bound_s)
        self._down_time = datetime.timedelta(seconds=down_time_s)
        self._beats: dict[str, Mapping[str, datetime.datetime]] = {}
        self._lagging: dict[str, frozenset[str]] = {}
        self._ahead: dict[str, frozenset[str]] = {}
        self._differing: set[str] = set()

    def check(self) -> None:
        """Ask the cells that hosts are taken from."""
        cells = self._cells.enabled()
        found = self._cells.ask(self._look, cells, what='the time', judges=False)
        for cell in cells:
            if cell.uuid in found:
                skew, ahead = found[cell.uuid]
                self._tell_of_database(cell, skew)
                self._tell_of_computes(cell, ahead)

    def _look(
        self, cell: Cell, store: CellStore
    ) -> tuple[datetime.timedelta, Sequence[ServiceRow]]:
        """Return by how much the database is ahead at least, negative: behind, and
        the computes that are."""
        before = self._clock.utcnow()
        theirs = store.utcnow()
        after = self._clock.utcnow()
        nearest = min(max(theirs, before), after)
        return theirs - nearest, store.computes_seen_after(after + self._bound)

    def _tell_of_database(self, cell: Cell, skew: datetime.timedelta) -> None:
        differs = abs(skew) > self._bound
        if differs and cell.uuid not in self._differing:
            LOG.warning(
                'The clock of the database of cell %s is %.0f s %s ours',
                cell.uuid,
                abs(skew.total_seconds()),
                'ahead of' if skew > datetime.timedelta() else 'behind',
            )
            self._differing.add(cell.uuid)
        elif not differs and cell.uuid in self._differing:
            LOG.info('The clock of the database of cell %s is right again', cell.uuid)
            self._differing.discard(cell.uuid)

    def _tell_of_computes(self, cell: Cell, rows: Iterable[ServiceRow]) -> None:
        now = self._clock.utcnow()
        ahead = {r.host: r.last_seen_up - now for r in rows if r.last_seen_up}
        new = sorted(ahead.keys() - self._ahead.get(cell.uuid, frozenset()))
        if new:
            LOG.warning(
                'Heartbeats of %d computes of cell %s are from the future, up to %.0f '
                's by our clock: %s',
                len(new),
                cell.uuid,
                max(ahead[host] for host in new).total_seconds(),
                named(new),
            )
        self._ahead[cell.uuid] = frozenset(ahead)

    def compare(self, cell_uuid: str, rows: Iterable[ServiceRow]) -> None:
        """Name the computes of a cell whose heartbeats go on, and stay older than
        those of the others. One whose heartbeats have ended is down, no more."""
        beats = {r.host: r.last_seen_up for r in rows if r.last_seen_up}
        before = self._beats.get(cell_uuid, {})
        self._beats[cell_uuid] = beats
        if not beats:
            return
        middle = statistics.median_low(beats.values())
        lags = {
            host: middle - beat
            for host, beat in beats.items()
            if middle - beat > self._down_time / 2 and before.get(host, beat) < beat
        }
        new = sorted(lags.keys() - self._lagging.get(cell_uuid, frozenset()))
        if new:
            most = max(lags[host] for host in new)
            LOG.warning(
                'Heartbeats of %d computes of cell %s are up to %.0f s older than '
                'those of the others, and go on: %s. Are the clocks behind?%s',
                len(new),
                cell_uuid,
                most.total_seconds(),
                named(new),
                ' They count as down.' if most > self._down_time else '',
            )
        self._lagging[cell_uuid] = frozenset(lags)
