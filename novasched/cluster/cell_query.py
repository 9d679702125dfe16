# SPDX-License-Identifier: Apache-2.0
"""One query to the database of a cell, and its answer."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from novasched.cluster.invalid_rows import (
    InvalidValue,
    readable_nodes,
    readable_services,
)
from novasched.cluster.services import Services, Window
from novasched.ports import (
    CellStore,
    ComputeNodeRow,
    Heartbeats,
    NodeNews,
    ServiceNews,
    ServiceRow,
)

EVER = datetime.datetime(1970, 1, 1), datetime.datetime(9999, 1, 1)  # noqa: DTZ001
"""A window that holds all heartbeats."""


class QueryTime(NamedTuple):
    """When a query began: the heartbeats that count, and a steady clock."""

    window: Window
    monotonic_s: float

    def before(self, later: QueryTime) -> datetime.datetime:
        """Return the time of day that it was then, for one who looks later.

        A clock that was set back or forth in between makes it earlier, if at all.
        """
        elapsed = datetime.timedelta(seconds=later.monotonic_s - self.monotonic_s)
        return min(self.window.now, later.window.now - elapsed)


class KnownNodes(NamedTuple):
    """The live compute nodes of a cell as they are known when a query begins.

    ``live`` and ``total`` sum them up as ports.NodeNews does, ``takes`` counts the
    answers that were taken in.
    """

    rows: Mapping[int, ComputeNodeRow] = {}
    live: int = 0
    total: int = 0
    takes: int = 0

    def mark(self, id_: int) -> int | None:
        """Return the mark of a node; None: it is not known."""
        row = self.rows.get(id_)
        return None if row is None else row.mark

    def explains(self, news: NodeNews, found: Mapping[int, ComputeNodeRow]) -> bool:
        """Say whether the sum of all nodes is that of these, with the rows found."""
        before = [self.rows[id_].mark for id_ in found if id_ in self.rows]
        after = [row.mark for row in found.values() if row.deleted == 0]
        return (news.live, news.total) == (
            self.live - len(before) + len(after),
            self.total - sum(before) + sum(after),
        )


class CellAnswer(NamedTuple):
    """Answer of one cell. ``services`` are all, or None when only the news were
    asked for, and the services ``found`` of hosts that had none.

    ``gone`` are the ids of nodes whose rows were removed without a trace, ``invalid``
    are values that no nova writes, and that were ignored. ``summed`` is what all live
    nodes sum up to.
    """

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow] | None
    news: ServiceNews = ServiceNews([], [])
    found: Sequence[ServiceRow] = ()
    gone: Collection[int] = ()
    invalid: Sequence[InvalidValue] = ()
    summed: tuple[int, int] | None = None

    def readable(self, known: KnownNodes) -> CellAnswer:
        """Return the answer without values that no nova writes, and name those.

        Rows that are known already were looked at before.
        """
        invalid: list[InvalidValue] = []
        listed = self.services
        return self._replace(
            nodes=readable_nodes(self.nodes, invalid, known.rows),
            services=None if listed is None else readable_services(listed, invalid),
            news=self.news._replace(live=readable_services(self.news.live, invalid)),
            invalid=invalid,
        )


NOTHING = KnownNodes()


@dataclass(frozen=True, eq=False)
class CellQuery:
    """One query to a cell, on its way.

    ``number`` says which began later; ``since`` is None when all is asked for.
    ``hosts_without_service`` are those known to have none, ``look_for`` those of which
    that is to be found out again. ``heartbeats`` are those that count instead of the
    ones in the rows.
    """

    cell_uuid: str
    number: int
    moment: QueryTime
    since: datetime.datetime | None
    services: Services
    all_services: bool = False
    hosts_without_service: Collection[str] = ()
    look_for: Collection[str] = ()
    known: KnownNodes = NOTHING
    heartbeats: Heartbeats | None = None

    def ask(self, store: CellStore) -> CellAnswer:
        """Read what changed, or all. The services come last: those of a node were
        committed before it."""
        since = self.since
        with store.together() as rows:
            if since is None:
                answer = CellAnswer(rows.compute_nodes(), None)
            else:
                answer = self._changed_nodes(rows, since)
            if since is None or self.all_services:
                services = self._dated(rows.compute_services())
                return answer._replace(services=services).readable(self.known)
            news = self._service_news(rows, since)
            answer = answer._replace(news=news).readable(self.known)
            strangers = self._strangers(answer)
            if not strangers:
                return answer
            invalid = list(answer.invalid)
            services = self._dated(rows.compute_services_of(strangers))
            found = readable_services(services, invalid)
            return answer._replace(found=found, invalid=invalid)

    def _dated(self, rows: list[ServiceRow]) -> list[ServiceRow]:
        return self.heartbeats.dated(rows) if self.heartbeats else rows

    def _service_news(self, rows: CellStore, since: datetime.datetime) -> ServiceNews:
        """Return the services that must not be used, came or went.

        Where the heartbeats are not in the rows, those of all known services count.
        """
        window, newest_id = self.moment.window, self.services.newest_id
        wide = since - window.span
        if self.heartbeats is None:
            return rows.service_news(
                since, wide, newest_id, window.oldest, window.newest
            )
        news = rows.service_news(since, wide, newest_id, *EVER)
        changed = {row.id for row in news.live}
        known = self.services.with_some((), news.deleted).rows.values()
        others = [row for row in known if row.id not in changed]
        silent = [row for row in self._dated(others) if not window.holds(row)]
        return news._replace(live=[*self._dated(news.live), *silent])

    def _changed_nodes(self, rows: CellStore, since: datetime.datetime) -> CellAnswer:
        """Return the rows that changed, and the ids of those that are gone.

        They are those stamped since a moment; where these do not explain the sum of
        all, those whose marks differ, too: first of the recent ones, then of all.
        """
        known, news = self.known, rows.compute_node_news(since)
        ids = rows.compute_node_marks(since) if news.ids is None else news.ids
        found = _by_id(rows, ids)
        marks: dict[int, int] = {}
        summed = news.live, news.total
        for moment in (since - self.moment.window.span, None):
            if known.explains(news, found):
                return CellAnswer(list(found.values()), None, summed=summed)
            marks = rows.compute_node_marks(moment)
            differing = [
                id_
                for id_, mark in marks.items()
                if mark != (found[id_].mark if id_ in found else known.mark(id_))
            ]
            found |= _by_id(rows, differing)
        gone = known.rows.keys() - marks.keys() - found.keys()
        return CellAnswer(list(found.values()), None, gone=gone, summed=summed)

    def _strangers(self, answer: CellAnswer) -> list[str]:
        """Return the hosts that have nodes, and no service that is known."""
        known = {row.host for row in answer.news.live}.union(self.hosts_without_service)
        hosts = {row.host for row in answer.nodes if row.host and row.deleted == 0}
        strangers = {h for h in hosts - known if not self.services.knows(h)}
        return sorted(strangers.union(self.look_for))


def _by_id(rows: CellStore, ids: Iterable[int]) -> dict[int, ComputeNodeRow]:
    wanted = sorted(ids)
    return {row.id: row for row in rows.compute_nodes_of(wanted)} if wanted else {}
