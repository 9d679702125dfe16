# SPDX-License-Identifier: Apache-2.0
"""Clock skew of databases, computes and conductors against the clock of this host.

Each host is named once, until it shows a time that is right.
"""

from __future__ import annotations

import datetime
import logging
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from novasched.clock import Clock
from novasched.cluster.cell_query import CellQuery
from novasched.cluster.cells import Cells
from novasched.log_once import LogOnce
from novasched.ports import Cell, CellStore, ComputeNodeRow, ServiceRow

LOG = logging.getLogger(__name__)

MOST_NAMES = 5


class ClockSkew:
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
        self._lagging: dict[str, LogOnce] = defaultdict(LogOnce)
        self._ahead: dict[str, LogOnce] = defaultdict(LogOnce)
        self._differing = LogOnce()

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
        if differs and self._differing.begins(cell.uuid):
            LOG.warning(
                'The clock of the database of cell %s is %.0f s %s ours',
                cell.uuid,
                abs(skew.total_seconds()),
                'ahead of' if skew > datetime.timedelta() else 'behind',
            )
        elif not differs and self._differing.ends(cell.uuid):
            LOG.info('The clock of the database of cell %s is right again', cell.uuid)

    def _tell_of_computes(self, cell: Cell, rows: Iterable[ServiceRow]) -> None:
        now = self._clock.utcnow()
        ahead = {r.host: r.last_seen_up - now for r in rows if r.last_seen_up}
        new = self._ahead[cell.uuid].new(ahead)
        if new:
            LOG.warning(
                'Heartbeats of %d computes of cell %s are from the future, up to %.0f '
                's by our clock: %s',
                len(new),
                cell.uuid,
                max(ahead[host] for host in new).total_seconds(),
                named(new),
            )

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
        new = self._lagging[cell_uuid].new(lags)
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


class TimestampSkew:
    """Compares stamps with the time at which a row was written at the earliest, or
    was read; ``bound`` is by how much they may differ."""

    def __init__(self, bound: datetime.timedelta) -> None:
        self._bound = bound
        self._named: dict[str, LogOnce] = defaultdict(LogOnce)

    def forget(self, cell_uuid: str) -> None:
        """Forget what was named of a cell."""
        self._named.pop(cell_uuid, None)

    def look(
        self,
        query: CellQuery,
        since: datetime.datetime | None,
        known: Mapping[int, ComputeNodeRow],
        changed: Collection[ComputeNodeRow],
    ) -> None:
        """Name the hosts of changed rows whose stamps are not those of our clock.

        A row that has changed was written after the last query began: after ``since``,
        which is ``bound`` earlier, None for the first. ``known`` are the rows before.
        """
        if since is None:
            return
        oldest, now = since.replace(microsecond=0), query.moment.window.now
        behind: dict[str, datetime.timedelta] = {}
        ahead: dict[str, datetime.timedelta] = {}
        silent = []
        named_before = self._named[query.cell_uuid]
        for row in changed:
            before, stamp = known.get(row.id), _stamp(row)
            if row.host is None or (before is not None and before.host is None):
                continue
            if stamp is not None and stamp > now + self._bound:
                ahead[row.host] = stamp - now
            elif stamp is not None and stamp >= oldest:
                named_before.ends(row.host)
            elif before is not None and stamp == _stamp(before):
                # Of a host that was named, it is a second change of one second.
                if row.host not in named_before:
                    silent.append(row)
            elif stamp is not None:
                behind[row.host] = since + self._bound - stamp
        limit = query.moment.window.span
        self._tell(query.cell_uuid, behind, 'behind', limit)
        self._tell(query.cell_uuid, ahead, 'ahead of', limit)
        if silent:
            LOG.warning(
                '%d compute nodes changed, but their time stamps say that they did '
                'not; one is %s',
                len(silent),
                silent[0].hypervisor_hostname,
            )

    def _tell(
        self,
        cell_uuid: str,
        found: Mapping[str, datetime.timedelta],
        where: str,
        limit: datetime.timedelta,
    ) -> None:
        new = sorted(filter(self._named[cell_uuid].begins, found))
        if not new:
            return
        most = max(found[host] for host in new)
        LOG.warning(
            'The time stamps of %d compute nodes of cell %s are up to %.0f s %s our '
            'clock%s: %s. Do the clocks of the conductors agree, or were they '
            'committed late?',
            len(new),
            cell_uuid,
            most.total_seconds(),
            where,
            ', more than service_down_time' if most > limit else '',
            named(new),
        )


def _stamp(row: ComputeNodeRow) -> datetime.datetime | None:
    return row.updated_at or row.created_at


def named(hosts: list[str]) -> str:
    """Return the first few names, and whether there are more."""
    return ', '.join(hosts[:MOST_NAMES]) + (', ...' if hosts[MOST_NAMES:] else '')
