# SPDX-License-Identifier: Apache-2.0
"""One question to the database of a cell, and its answer."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from novasched.cluster.services import Services, Window
from novasched.ports import CellStore, ComputeNodeRow, ServiceNews, ServiceRow


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
    """What one cell answered. ``services`` are all, or None when only the news were
    asked for, and the services ``found`` of hosts that had none."""

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow] | None
    news: ServiceNews = ServiceNews([], [])
    found: Sequence[ServiceRow] = ()


@dataclass(frozen=True, eq=False)
class Reading:
    """One question to a cell, on its way.

    ``number`` tells which began later; ``since`` is None when all is asked for.
    ``homeless`` are hosts that are known to have no service, ``look_for`` those of
    which that is to be found out again.
    """

    cell_uuid: str
    number: int
    moment: Moment
    since: datetime.datetime | None
    services: Services
    all_services: bool = False
    homeless: Collection[str] = ()
    look_for: Collection[str] = ()

    def ask(self, store: CellStore) -> Answer:
        """Read what changed, or all. The services come last: those of a node were
        committed before it."""
        with store.together() as rows:
            if self.since is None:
                return Answer(rows.compute_nodes(), rows.compute_services())
            nodes = rows.compute_nodes_since(self.since)
            if self.all_services:
                return Answer(nodes, rows.compute_services())
            window = self.moment.window
            news = rows.service_news(self.since, window.oldest, window.newest)
            strangers = self._strangers(nodes, news)
            found = rows.compute_services_of(strangers) if strangers else ()
            return Answer(nodes, None, news, found)

    def _strangers(
        self, nodes: Iterable[ComputeNodeRow], news: ServiceNews
    ) -> list[str]:
        """Return the hosts that have nodes, and no service that is known."""
        known = {row.host for row in news.live}.union(self.homeless)
        hosts = {row.host for row in nodes if row.host and row.deleted == 0}
        strangers = {h for h in hosts - known if not self.services.knows(h)}
        return sorted(strangers.union(self.look_for))
