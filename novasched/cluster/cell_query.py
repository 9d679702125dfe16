# SPDX-License-Identifier: Apache-2.0
"""One query to the database of a cell, and its answer.

A database may hold null where there must be a name, a date of zeros, or what was
written by hand. Such rows are ignored, and named once. They cost neither a request nor
the other hosts of their cell.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_type_hints

from novasched.cluster.services import STAMPS, Services, Window
from novasched.ports import (
    CellNews,
    CellStore,
    ComputeNodeRow,
    Heartbeats,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

LARGEST = 2**31 - 1
"""The largest number that an integer column of nova's holds."""

_TYPES = {
    name: (int, float) if kind is float else (kind,)
    for name, hint in get_type_hints(ComputeNodeRow).items()
    for kind in get_args(hint)[:1] or (hint,)
    if name not in ('mark', 'checksum')
}
"""Accepted types of each column; mark and checksum are the last, and ours."""

_NAMES = ('host', 'hypervisor_hostname')
_AMOUNTS = (
    'vcpus',
    'vcpus_used',
    'memory_mb',
    'memory_mb_used',
    'local_gb',
    'local_gb_used',
    'hypervisor_version',
)
"""What a node that has reported its usage has reported, too."""

EVER = datetime.datetime(1970, 1, 1), datetime.datetime(9999, 1, 1)  # noqa: DTZ001
"""A window that holds all heartbeats."""


class InvalidValue(NamedTuple):
    """A column of a row that cannot be used."""

    table: str
    id: int
    host: str
    column: str
    value: str


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


def readable_nodes(
    rows: Iterable[ComputeNodeRow],
    invalid: list[InvalidValue],
    known: Mapping[int, ComputeNodeRow],
) -> list[ComputeNodeRow]:
    """Return the rows, those that cannot be used without anything but id and marks.

    A row that is known already was looked at before: the known one is returned.
    """
    found = []
    for row in rows:
        before = known.get(row.id)
        if before is not None and row == before:
            found.append(before)
            continue
        column = _invalid_column(row) if row.deleted == 0 else None
        if column is not None:
            invalid.append(_invalid('compute_nodes', row, column))
            row = blank(row)
        found.append(row)
    return found


def blank(row: ComputeNodeRow) -> ComputeNodeRow:
    """Return a row that is no host: it keeps its id, and what it is known by."""
    nothing = ComputeNodeRow(*[None] * len(row))  # type: ignore[arg-type]
    return nothing._replace(
        id=row.id, deleted=row.deleted, mark=row.mark, checksum=row.checksum
    )


def _invalid_column(row: ComputeNodeRow) -> str | None:
    for (name, types), value in zip(_TYPES.items(), row, strict=False):
        if value is not None and (type(value) not in types or not _fits(value)):
            return name
    needed = _NAMES if row.free_disk_gb is None else _NAMES + _AMOUNTS
    return next((n for n in needed if getattr(row, n) in (None, '')), None)


def _fits(value: object) -> bool:
    if not isinstance(value, int | float):
        return True
    return math.isfinite(value) and abs(value) <= LARGEST


def readable_services(
    rows: Iterable[ServiceRow], invalid: list[InvalidValue]
) -> list[ServiceRow]:
    """Return the rows without times that are none: such a service was never heard of.

    One whose host is no text is left out.
    """
    found = []
    for row in rows:
        if type(row.host) is not str:
            invalid.append(_invalid('services', row, 'host'))
            continue
        wrong = [name for name in STAMPS if not _is_time(getattr(row, name))]
        if wrong:
            invalid.append(_invalid('services', row, wrong[0]))
            row = row._replace(updated_at=None)
            if wrong != ['updated_at']:
                row = row._replace(last_seen_up=None, created_at=None)
        found.append(row)
    return found


def _is_time(value: Any) -> bool:
    return value is None or isinstance(value, datetime.datetime)


def _invalid(table: str, row: ComputeNodeRow | ServiceRow, column: str) -> InvalidValue:
    value = repr(getattr(row, column))
    return InvalidValue(table, row.id, str(row.host), column, f'{value:.60}')


def log_invalid(named: LogOnce, cell_uuid: str, found: Iterable[InvalidValue]) -> None:
    """Name a column of a cell that cannot be used once, until it has another value."""
    for invalid in found:
        if named.begins((invalid.table, invalid.id), invalid):
            LOG.warning(
                'Ignoring row %d of %s in cell %s, of host %s: its %s is %s',
                invalid.id,
                invalid.table,
                cell_uuid,
                invalid.host,
                invalid.column,
                invalid.value,
            )
