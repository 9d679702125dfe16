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
from typing import NamedTuple

from novasched.cluster.cell_query import CellQuery
from novasched.cluster.cells import Cells
from novasched.ports import Cell, CellStore, ComputeNodeRow, ServiceRow
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

MOST_NAMES = 5


class ClockSkew:
    """Looks for clocks that differ by more than ``bound_s``, and names each once.

    A heartbeat may be half of ``down_time_s`` older than the median.
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
        for uuid, (skew, ahead) in found.items():
            self._log_database(uuid, skew)
            self._log_computes(uuid, ahead)

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

    def _log_database(self, cell_uuid: str, skew: datetime.timedelta) -> None:
        differs = abs(skew) > self._bound
        if differs and self._differing.begins(cell_uuid):
            LOG.warning(
                'The clock of the database of cell %s is %.0f s %s ours',
                cell_uuid,
                abs(skew.total_seconds()),
                'ahead of' if skew > datetime.timedelta() else 'behind',
            )
        elif not differs and self._differing.ends(cell_uuid):
            LOG.info('The clock of the database of cell %s is right again', cell_uuid)

    def _log_computes(self, cell_uuid: str, rows: Iterable[ServiceRow]) -> None:
        now = self._clock.utcnow()
        ahead = {r.host: r.last_seen_up - now for r in rows if r.last_seen_up}
        new = self._ahead[cell_uuid].new(ahead)
        if new:
            LOG.warning(
                'Heartbeats of %d computes of cell %s are from the future, up to %.0f '
                's by our clock: %s',
                len(new),
                cell_uuid,
                max(ahead[host] for host in new).total_seconds(),
                first_names(new),
            )

    def compare(self, cell_uuid: str, rows: Iterable[ServiceRow]) -> None:
        """Name the computes of a cell whose heartbeats continue, but stay older than
        the others. A compute whose heartbeats have ended is only down."""
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
                'others, but continue: %s. Check NTP there.%s',
                len(new),
                cell_uuid,
                most.total_seconds(),
                first_names(new),
                ' They count as down.' if most > self._down_time else '',
            )


class WrongStamps(NamedTuple):
    """Changed rows whose time stamps do not fit our clock: hosts with the difference,
    and rows without a new stamp."""

    behind: dict[str, datetime.timedelta]
    ahead: dict[str, datetime.timedelta]
    silent: list[ComputeNodeRow]


def _wrong_stamps(
    named: LogOnce,
    query: CellQuery,
    since: datetime.datetime,
    bound: datetime.timedelta,
    changed: Collection[ComputeNodeRow],
) -> WrongStamps:
    """Compare stamps with our clock; hosts that are right again leave ``named``."""
    oldest, now = since.replace(microsecond=0), query.moment.window.now
    found = WrongStamps({}, {}, [])
    for row in changed:
        before, stamp = query.rows.get(row.id), _stamp(row)
        if row.host is None or (before is not None and before.host is None):
            continue
        if stamp is not None and stamp > now + bound:
            found.ahead[row.host] = stamp - now
        elif stamp is not None and stamp >= oldest:
            named.ends(row.host)
        elif before is not None and stamp == _stamp(before):
            # Of a host that was named, it is a second change of one second.
            if row.host not in named:
                found.silent.append(row)
        elif stamp is not None:
            found.behind[row.host] = since + bound - stamp
    return found


def log_stamps(
    named: LogOnce,
    query: CellQuery,
    since: datetime.datetime | None,
    bound: datetime.timedelta,
    changed: Collection[ComputeNodeRow],
) -> None:
    """Name the hosts of changed rows whose time stamps do not fit our clock.

    A changed row was written after the last query began: at ``since`` plus ``bound``.
    ``since`` is None for the first query. Stamps may differ by ``bound``. ``named`` are
    the hosts of the cell that were named before.
    """
    if since is None:
        return
    behind, ahead, silent = _wrong_stamps(named, query, since, bound, changed)
    for where, found in (('behind', behind), ('ahead of', ahead)):
        new = sorted(filter(named.begins, found))
        if new:
            most = max(found[host] for host in new)
            far = most > query.moment.window.span
            LOG.warning(
                'The time stamps of %d compute nodes of cell %s are up to %.0f s %s '
                'our clock%s: %s. Check NTP on the conductors, and for late commits.',
                len(new),
                query.cell_uuid,
                most.total_seconds(),
                where,
                ', more than service_down_time' if far else '',
                first_names(new),
            )
    if silent:
        LOG.warning(
            '%d compute nodes (such as %s) changed without a new time stamp. Check '
            'NTP on the conductors.',
            len(silent),
            silent[0].hypervisor_hostname,
        )


def _stamp(row: ComputeNodeRow) -> datetime.datetime | None:
    return row.updated_at or row.created_at


def first_names(hosts: list[str]) -> str:
    """Return the first few names, and whether there are more."""
    return ', '.join(hosts[:MOST_NAMES]) + (', ...' if hosts[MOST_NAMES:] else '')
