# SPDX-License-Identifier: Apache-2.0
"""One question to the database of a cell, and its answer."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from novasched.cluster.services import Services, Window
from novasched.ports import CellStore, ComputeNodeRow, ServiceRow


class Moment(NamedTuple):
    """When a question began: the heartbeats that count, and a steady clock."""

    window: Window
    monotonic_s: float

    def before(self, later: Moment) -> datetime.datetime:
        """Return the time of day that it was then, for one who looks later.

        A clock that was set back or forth in between makes it earlier, if at all.
        """
        elapsed = datetime.timedelta(seconds=later.monotonic_s - self.monotonic_s)
        return min(self.window.now, later.window.now - elapsed)


class Answer(NamedTuple):
    """What one cell answered. ``services`` are all, or None when only the
    unavailable ones were asked for."""

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow] | None
    unavailable: list[ServiceRow]


@dataclass(frozen=True, eq=False)
class Reading:
    """One question to a cell, on its way.

    ``number`` tells which began later; ``since`` is None when all is asked for.
    ``looked_for`` are hosts that are known to have no service; None: that is to be
    found out again.
    """

    cell_uuid: str
    number: int
    moment: Moment
    since: datetime.datetime | None
    services: Services
    looked_for: Collection[str | None] | None

    def ask(self, store: CellStore) -> Answer:
        """Read what changed, or all. The services come last: those of a node were
        committed before it."""
        if self.since is None:
            nodes = store.compute_nodes()
        else:
            nodes = store.compute_nodes_since(self.since)
        window = self.moment.window
        return Answer(
            nodes,
            store.compute_services() if self._wants_services(nodes) else None,
            store.unavailable_services(window.oldest, window.newest),
        )

    def _wants_services(self, nodes: Iterable[ComputeNodeRow]) -> bool:
        if self.since is None or self.looked_for is None:
            return True
        known, looked_for = self.services, self.looked_for
        return any(
            not known.knows(row.host) and row.host not in looked_for
            for row in nodes
            if row.deleted == 0
        )
