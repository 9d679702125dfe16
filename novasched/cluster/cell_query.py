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
    CellNews,
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
        """Return when this was, by the clock of a later query.

        If the clock was set in between, the earlier time counts.
        """
        elapsed = datetime.timedelta(seconds=later.monotonic_s - self.monotonic_s)
        return min(self.window.now, later.window.now - elapsed)


class NodesNow(NamedTuple):
    """Some live compute nodes, and the live services of their hosts."""

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow]
    invalid: Sequence[InvalidValue] = ()


class CellAnswer(NamedTuple):
    """Answer of one cell. ``services`` are all, or None when only the news were
    asked for, and the services ``found`` of hosts that had none.

    ``gone`` are the ids of nodes whose rows were removed without a trace, ``invalid``
    are values that no nova writes, and that were ignored. ``summed`` is what all live
    nodes sum up to.
    """

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow] | None = None
    news: ServiceNews = ServiceNews([], [])
    found: Sequence[ServiceRow] = ()
    gone: Collection[int] = ()
    invalid: Sequence[InvalidValue] = ()
    summed: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class CellQuery:
    """One query to a cell, on its way."""

    cell_uuid: str
    number: int  # higher for a query that began later
    moment: QueryTime
    since: datetime.datetime | None
    """Time stamp from which rows are read; None for all rows."""
    all_services: bool
    rows: Mapping[int, ComputeNodeRow]  # nodes of the cell by id; answers change it
    summed: tuple[int, int]  # rows and sum of their marks, when the query began
    answers: int  # number of answers taken before the query began
    services: Services
    hosts_without_service: Collection[str]
    look_for: Collection[str]
    """Hosts without a known service whose service is looked for again."""
    heartbeats: Heartbeats | None  # count instead of the heartbeats in the rows, if set

    def ask(self, store: CellStore) -> CellAnswer:
        """Read what changed, or all, without values that no nova writes.

        The services of nodes that are new come last: they were committed before these.
        """
        since, invalid = self.since, list[InvalidValue]()
        with store.together() as rows:
            if since is None:
                answer = CellAnswer(rows.compute_nodes())
            else:
                news = self._news(rows, since)
                answer = self._changed_nodes(rows, since, news.nodes)
            nodes = readable_nodes(answer.nodes, invalid, self.rows)
            answer = answer._replace(nodes=nodes, invalid=invalid)
            if since is None or self.all_services:
                services = self._dated(rows.compute_services())
                return answer._replace(services=readable_services(services, invalid))
            found = self._service_news(news.services)
            found = found._replace(live=readable_services(found.live, invalid))
            answer = answer._replace(news=found)
            unknown = self._unknown(answer)
            if not unknown:
                return answer
            services = self._dated(rows.compute_services_of(unknown))
            return answer._replace(found=readable_services(services, invalid))

    def ask_for(self, store: CellStore, ids: Collection[int]) -> NodesNow:
        """Read these nodes and their services as they are now."""
        invalid = list[InvalidValue]()
        known = {id_: row for id_ in ids if (row := self.rows.get(id_)) is not None}
        with store.together() as rows:
            now = rows.compute_checksums_now(sorted(ids))
            checksums = {id_: checksum for id_, (checksum, _) in now.items()}
            differing = _differing(checksums, known)
            read = {**known, **dict.fromkeys(differing), **_by_id(rows, differing)}
            nodes = [row for id_ in now if (row := read.get(id_)) is not None]
            services = [service for _, service in now.values() if service is not None]
            hosts = {row.host for row in (*nodes, *known.values()) if row.host}
            if unknown := hosts - {row.host for row in services}:
                services += rows.compute_services_of(sorted(unknown))
        nodes = readable_nodes(nodes, invalid, self.rows)
        services = readable_services(self._dated(services), invalid)
        return NodesNow(nodes, services, invalid)

    def _dated(self, rows: list[ServiceRow]) -> list[ServiceRow]:
        return self.heartbeats.dated(rows) if self.heartbeats else rows

    def _news(self, rows: CellStore, since: datetime.datetime) -> CellNews:
        window, newest_id = self.moment.window, self.services.newest_id
        alive = (window.oldest, window.newest) if self.heartbeats is None else EVER
        return rows.news(since, since - window.span, newest_id, *alive)

    def _service_news(self, news: ServiceNews) -> ServiceNews:
        """Return the services that are unavailable, came or went.

        If heartbeats are kept outside the rows, all known services are judged by them.
        """
        if self.heartbeats is None:
            return news
        window = self.moment.window
        changed = {row.id for row in news.live}
        known = self.services.with_some((), news.deleted).rows.values()
        others = [row for row in known if row.id not in changed]
        silent = [row for row in self._dated(others) if not window.holds(row)]
        return news._replace(live=[*self._dated(news.live), *silent])

    def _changed_nodes(
        self, rows: CellStore, since: datetime.datetime, news: NodeNews
    ) -> CellAnswer:
        """Return the rows that changed, and the ids of rows that are gone.

        First come rows stamped since a moment whose checksums differ. If these do not
        explain the sum of all rows, recent rows are compared, then all rows.
        """
        known, checksums = self.rows, news.checksums
        if checksums is None:
            checksums = rows.compute_node_checksums(since)
        found = _by_id(rows, _differing(checksums, known))
        if found and not self._explains(news, found):
            news = self._news(rows, since).nodes  # these rows may be newer
        summed = news.live, news.total
        if not self._explains(news, found):
            recent = rows.compute_node_checksums(since - self.moment.window.span)
            found |= _by_id(rows, _differing(recent, {**known, **found}))
        if self._explains(news, found):
            return CellAnswer(list(found.values()), summed=summed)
        marks, there = rows.compute_node_marks(), {**known, **found}
        found |= _by_id(
            rows, [i for i, m in marks.items() if i not in there or there[i].mark != m]
        )
        gone = known.keys() - marks.keys() - found.keys()
        return CellAnswer(list(found.values()), gone=gone, summed=summed)

    def _explains(self, news: NodeNews, found: Mapping[int, ComputeNodeRow]) -> bool:
        """Return whether all nodes sum up to the known ones with the rows found."""
        before = [self.rows[id_].mark for id_ in found if id_ in self.rows]
        after = [row.mark for row in found.values() if row.deleted == 0]
        live, total = self.summed
        live += len(after) - len(before)
        return (news.live, news.total) == (live, total + sum(after) - sum(before))

    def _unknown(self, answer: CellAnswer) -> list[str]:
        """Return the hosts that have nodes, and no service that is known."""
        known = {row.host for row in answer.news.live}.union(self.hosts_without_service)
        hosts = {row.host for row in answer.nodes if row.host and row.deleted == 0}
        unknown = {h for h in hosts - known if not self.services.knows(h)}
        return sorted(unknown.union(self.look_for))


def _differing(
    checksums: Mapping[int, int], known: Mapping[int, ComputeNodeRow]
) -> list[int]:
    """Return the ids of the rows that are not known by these checksums."""
    return [
        id_
        for id_, checksum in checksums.items()
        if id_ not in known or known[id_].checksum != checksum
    ]


def _by_id(rows: CellStore, ids: Iterable[int]) -> dict[int, ComputeNodeRow]:
    wanted = sorted(ids)
    return {row.id: row for row in rows.compute_nodes_of(wanted)} if wanted else {}
