# SPDX-License-Identifier: Apache-2.0
"""Time stamps of compute nodes that show that a clock differs from ours.

Each host is named once, until a row of it comes with a stamp that is right.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Mapping

from novasched.cluster.cell_nodes import CellNodes
from novasched.cluster.reading import Answer, Reading
from novasched.ports import ComputeNodeRow

LOG = logging.getLogger(__name__)

MOST_NAMES = 5


class Stamps:
    """Compares stamps with the time at which a row was written at the earliest, or
    was read; ``bound`` is by how much they may differ."""

    def __init__(self, bound: datetime.timedelta) -> None:
        self._bound = bound
        self._named: dict[str, set[str]] = {}

    def forget(self, cell_uuid: str) -> None:
        """Forget what was named of a cell."""
        self._named.pop(cell_uuid, None)

    def look(
        self,
        reading: Reading,
        answer: Answer,
        cell: CellNodes,
        changed: Collection[ComputeNodeRow],
    ) -> None:
        """Name the hosts of changed rows whose stamps are not those of our clock.

        A row that has changed was written after the last question began.
        """
        since = cell.since(reading.moment, self._bound)
        if since is None:
            return
        oldest, now = since.replace(microsecond=0), reading.moment.window.now
        behind: dict[str, datetime.timedelta] = {}
        ahead: dict[str, datetime.timedelta] = {}
        silent = []
        named_before = self._named.setdefault(reading.cell_uuid, set())
        for row in changed:
            before, stamp = cell.rows.get(row.id), _stamp(row)
            if row.host is None or (before is not None and before.host is None):
                continue
            if stamp is not None and stamp > now + self._bound:
                ahead[row.host] = stamp - now
            elif stamp is not None and stamp >= oldest:
                named_before.discard(row.host)
            elif before is not None and stamp == _stamp(before):
                # Of a host that was named, it is a second change of one second.
                if row.host not in named_before:
                    silent.append(row)
            elif stamp is not None:
                behind[row.host] = since + self._bound - stamp
        limit = reading.moment.window.span
        self._tell(reading.cell_uuid, behind, 'behind', limit)
        self._tell(reading.cell_uuid, ahead, 'ahead of', limit)
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
        named_before = self._named[cell_uuid]
        new = sorted(found.keys() - named_before)
        if not new:
            return
        named_before.update(new)
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
