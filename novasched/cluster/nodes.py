# SPDX-License-Identifier: Apache-2.0
"""Compute nodes and services by cell, taken in by delta, and the columns made of them.

Each query to a cell gets a number when it begins. Queries may overlap, and their
answers may come in any order: an answer never undoes what a later query showed.
"""

from __future__ import annotations

import datetime
import itertools
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from novasched.cluster.cell_query import (
    CellAnswer,
    CellQuery,
    NodesNow,
    QueryTime,
    log_invalid,
)
from novasched.cluster.cells import Cells
from novasched.cluster.clock_skew import log_stamps
from novasched.cluster.host_columns import HostColumns, NodeKey, Ratios, host_values
from novasched.cluster.services import Services, Window
from novasched.ports import Cell, ComputeNodeRow, Heartbeats, ServiceRow
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

SERVICES_AGE_S = 5.0
"""How often the service of a node that has none is looked for."""

ASIDE_AGE_S = 60.0
"""How long changes are used of a cell that only requests which name it read."""

ATTEMPTS = 5
"""How often a cell is asked whose answer an older one came in between of."""


@dataclass(eq=False)
class CellNodes:
    """Compute nodes and services of one cell."""

    rows: dict[int, ComputeNodeRow] = field(default_factory=dict)
    total: int = 0  # sum of the marks of rows
    answers: int = 0  # number of answers taken
    services: Services = field(default_factory=Services)
    services_version: int = 0  # grows with each change that filters see
    looked_s: float = float('-inf')
    """When the services of ``hosts_without_service`` were last looked for."""
    hosts_without_service: frozenset[str] = frozenset()
    last_query: CellQuery | None = None  # newest query answered
    last_full_read: int = 0  # number of the newest answered query for all nodes
    last_service_list: int = 0  # number of the newest answered query for all services
    node_reads: dict[int, int] = field(default_factory=dict)
    """By node id, the last query since ``last_full_read`` that returned the node."""
    service_reads: dict[str, int] = field(default_factory=dict)
    """By host, the last query since ``last_service_list`` that showed a change of its
    service."""
    invalid_rows: LogOnce = field(default_factory=LogOnce)
    wrong_clocks: LogOnce = field(default_factory=LogOnce)

    def since(
        self, moment: QueryTime, overlap: datetime.timedelta
    ) -> datetime.datetime | None:
        """Return the time stamp from which a delta must ask; None to ask for all."""
        if self.last_query is None:
            return None
        return self.last_query.moment.before(moment) - overlap

    def is_in_doubt(self, query: CellQuery, answer: CellAnswer) -> bool:
        """Return whether another answer was taken meanwhile that may be older."""
        others = self.answers > query.answers + 1
        return others and answer.summed not in (None, (len(self.rows), self.total))

    def look_for(self, moment: QueryTime) -> frozenset[str]:
        """Return the hosts whose service is to be looked for once more."""
        old = moment.monotonic_s - self.looked_s >= SERVICES_AGE_S
        return self.hosts_without_service if old else frozenset()

    def keep_silent(self, kept: bool) -> None:
        """Let silent computes count as up, or no more."""
        if self.services.kept != kept:
            self.services = self.services._replace(kept=kept)
            self.services_version += 1

    def news(
        self, query: CellQuery, answer: CellAnswer
    ) -> tuple[dict[int, ComputeNodeRow], set[int]]:
        """Return the rows of an answer that differ, and the ids that are gone."""
        nodes = [row for row in answer.nodes if not self._is_superseded(row.id, query)]
        changed = {
            row.id: row
            for row in nodes
            if row.deleted == 0 and row != self.rows.get(row.id)
        }
        gone = {row.id for row in nodes if row.deleted != 0 and row.id in self.rows}
        if query.since is None:
            absent = self.rows.keys() - {row.id for row in answer.nodes}
        else:
            absent = self.rows.keys() & set(answer.gone)
        gone |= {id_ for id_ in absent if not self._is_superseded(id_, query)}
        return changed, gone

    def _is_superseded(self, id_: int, query: CellQuery) -> bool:
        return self.node_reads.get(id_, self.last_full_read) > query.number

    def take(
        self,
        query: CellQuery,
        answer: CellAnswer,
        changed: Mapping[int, ComputeNodeRow],
        gone: Collection[int],
    ) -> None:
        """Take in an answer and its news."""
        self.answers += 1
        number = query.number
        shown = [*gone, *(row.id for row in answer.nodes)]
        new = {id_: number for id_ in shown if not self._is_superseded(id_, query)}
        self.node_reads.update(new)
        if query.since is None and number > self.last_full_read:
            self.last_full_read = number
            self.node_reads = {
                id_: n for id_, n in self.node_reads.items() if n > number
            }
        self._put(changed, gone)
        self._take_services(query, answer)
        if answer.services is not None or answer.news.deleted:
            self._find_services(self.rows, frozenset())
        else:
            self._find_services(changed, self.hosts_without_service)

    def _find_services(
        self, rows: Mapping[int, ComputeNodeRow], others: frozenset[str]
    ) -> None:
        """Note which hosts of some nodes, and which others, have no service."""
        hosts = others.union(row.host for row in rows.values() if row.host)
        knows = self.services.knows
        self.hosts_without_service = frozenset(itertools.filterfalse(knows, hosts))

    def _put(
        self, changed: Mapping[int, ComputeNodeRow], gone: Collection[int]
    ) -> None:
        for id_, row in changed.items():
            before = self.rows.get(id_)
            self.total += row.mark - (0 if before is None else before.mark)
            self.rows[id_] = row
        for id_ in gone:
            self.total -= self.rows.pop(id_).mark

    def take_some(
        self, query: CellQuery, ids: Collection[int], now: NodesNow
    ) -> tuple[dict[int, ComputeNodeRow], set[int]]:
        """Take in nodes with these ids as they are now, with their services. Return the
        rows that differ, and the ids of those that are gone."""
        live = {row.id: row for row in now.nodes if row.deleted == 0}
        before = {id_: self.rows[id_] for id_ in self.rows.keys() & {*ids}}
        nodes = (*live.values(), *before.values())
        hosts = set(filter(None, (row.host for row in nodes)))
        self._take_services_of(hosts, query, now.services)
        settled = {id_ for id_ in ids if not self._is_superseded(id_, query)}
        known = sorted(settled & live.keys())
        news = {id_: live[id_] for id_ in known if live[id_] != before.get(id_)}
        gone = (settled & before.keys()) - live.keys()
        if news or gone:
            self.answers += 1
            self.node_reads.update(dict.fromkeys((*news, *gone), query.number))
            self._put(news, gone)
        return news, gone

    def _take_services_of(
        self, hosts: Collection[str], query: CellQuery, rows: Iterable[ServiceRow]
    ) -> None:
        """Take in the services of hosts, unless they are known by a later query."""
        newest = max(self._last_number, self.last_service_list)
        reads, number = self.service_reads, query.number
        hosts = {h for h in hosts if max(newest, reads.get(h, 0)) < number}
        services = self.services.with_hosts(hosts, rows, query.moment.window)
        if services is not self.services:
            self.services, self.services_version = services, self.services_version + 1
        reads.update(dict.fromkeys(hosts, number))

    @property
    def _last_number(self) -> int:
        return self.last_query.number if self.last_query else 0

    def _take_services(self, query: CellQuery, answer: CellAnswer) -> None:
        services, number = self.services, query.number
        is_newest = self._last_number < number
        if answer.services is not None:
            services = self._listed_services(number, answer.services)
        elif is_newest:
            rows = [*answer.news.live, *answer.found]
            services = services.with_some(rows, answer.news.deleted)
            if services.rows is not self.services.rows:
                news = services.rows.items() ^ self.services.rows.items()
                self.service_reads.update((host, number) for host, _ in news)
        if is_newest:
            self.last_query = query
            services = services.with_unavailable(
                answer.news.live if answer.services is None else answer.services,
                query.moment.window,
            )
        newer = self._services_read_after(number)
        services = services.with_those_of(self.services, newer)
        if query.look_for or answer.services is not None:
            self.looked_s = max(self.looked_s, query.moment.monotonic_s)
        if not services.looks_like(self.services):
            self.services_version += 1
        self.services = services

    def _services_read_after(self, number: int) -> dict[str, int]:
        return {host: n for host, n in self.service_reads.items() if n > number}

    def _listed_services(self, number: int, rows: list[ServiceRow]) -> Services:
        """Return the listed services, with the newer rows of hosts read since."""
        services = self.services
        if self.last_service_list > number:
            return services
        self.last_service_list = number
        self.service_reads = self._services_read_after(number)
        reads = self.service_reads
        newer = [row for host, row in services.rows.items() if host in reads]
        return services.with_rows(
            [*(row for row in rows if row.host not in reads), *newer]
        )


class BuildFailures:
    """When the failed builds of compute nodes were last seen to grow; not to be changed
    by two at once.

    A compute reports a count without a time. The count is reset when a build succeeds.

    ``forget_after_s`` is None if failures are never forgotten. Failures that were
    there when a node was first seen count from then on.
    """

    def __init__(self, clock: Clock, forget_after_s: float | None = None) -> None:
        self._clock = clock
        self._forget_after_s = forget_after_s
        self._seen: dict[NodeKey, tuple[int, float]] = {}

    def see(self, node: NodeKey, count: int) -> None:
        """Note the count of a node. A lower one that is not 0 has new failures, too:
        the count began again when the compute restarted."""
        if self._forget_after_s is None:
            return
        if count <= 0:
            self._seen.pop(node, None)
        elif count != self._seen.get(node, (0, 0.0))[0]:
            self._seen[node] = count, self._clock.monotonic()

    def remove(self, nodes: Iterable[NodeKey]) -> None:
        """Drop nodes that are gone."""
        for node in nodes:
            self._seen.pop(node, None)

    def forgotten(self) -> frozenset[NodeKey]:
        """Return the nodes whose failures do not count any more."""
        if self._forget_after_s is None or not self._seen:
            return frozenset()
        oldest_s = self._clock.monotonic() - self._forget_after_s
        return frozenset(n for n, (_, at_s) in self._seen.items() if at_s <= oldest_s)


class ComputeNodes:
    """Compute nodes and services by cell; not to be changed by two at once.

    ``changes`` grows whenever the columns change.
    """

    def __init__(
        self,
        ratios: Ratios,
        overlap_s: float,
        heartbeats: Heartbeats | None = None,
        failures: BuildFailures | None = None,
    ) -> None:
        self._ratios = ratios
        self.failures = failures or BuildFailures(SYSTEM_CLOCK)
        self._heartbeats = heartbeats
        self._overlap = datetime.timedelta(seconds=overlap_s)
        self._numbers = itertools.count(1)
        self.cells: dict[str, CellNodes] = {}
        self.hosts = HostColumns()
        self.changes = 0

    def begin(
        self,
        cell_uuid: str,
        moment: QueryTime,
        *,
        complete: bool = False,
        all_services: bool = False,
    ) -> CellQuery:
        """Return the query for what changed in a cell since the last, or for all."""
        cell = self.cells.setdefault(cell_uuid, CellNodes())
        return CellQuery(
            cell_uuid=cell_uuid,
            number=next(self._numbers),
            moment=moment,
            since=None if complete else cell.since(moment, self._overlap),
            all_services=all_services,
            rows=cell.rows,
            summed=(len(cell.rows), cell.total),
            answers=cell.answers,
            services=cell.services,
            hosts_without_service=cell.hosts_without_service,
            look_for=cell.look_for(moment),
            heartbeats=self._heartbeats,
        )

    def take(self, query: CellQuery, answer: CellAnswer) -> bool:
        """Take in an answer; rebuild only hosts whose row differs.

        An answer of a cell that was forgotten meanwhile is dropped. Return False if an
        older answer may have been taken meanwhile, so the query must be repeated.
        """
        uuid, cell = query.cell_uuid, self.cells.get(query.cell_uuid)
        if cell is None or cell.rows is not query.rows:
            return True
        log_invalid(cell.invalid_rows, uuid, answer.invalid)
        changed, gone = cell.news(query, answer)
        since = cell.since(query.moment, self._overlap)
        log_stamps(cell.wrong_clocks, query, since, self._overlap, changed.values())
        self._change(uuid, changed, gone)
        cell.take(query, answer, changed, gone)
        return not cell.is_in_doubt(query, answer)

    def take_some(self, query: CellQuery, ids: Collection[int], now: NodesNow) -> None:
        """Take in some nodes of a cell, if it was not forgotten meanwhile."""
        uuid, cell = query.cell_uuid, self.cells.get(query.cell_uuid)
        if cell is None or cell.rows is not query.rows:
            return
        log_invalid(cell.invalid_rows, uuid, now.invalid)
        news, gone = cell.take_some(query, ids, now)
        self._change(uuid, news, gone)

    def forget(self, cell_uuids: Collection[str]) -> None:
        """Forget everything about some cells."""
        for uuid in cell_uuids:
            cell = self.cells.pop(uuid, None)
            if cell is not None:
                self._change(uuid, {}, cell.rows)

    def ids_of(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """Return the ids of the nodes with these uuids, by the uuid of the cell."""
        found: dict[str, list[int]] = {}
        hosts = self.hosts
        for uuid in uuids:
            place = hosts.by_uuid.get(uuid)
            places = [] if place is None else hosts.duplicate_uuids.get(uuid, [place])
            for cell, id_ in (hosts.keys[each] for each in places):
                found.setdefault(cell, []).append(id_)
        return found

    def asked_at(self) -> dict[str, float]:
        """Return when what is known of each cell was asked for, by uuid."""
        queries = [(uuid, cell.last_query) for uuid, cell in list(self.cells.items())]
        return {uuid: last.moment.monotonic_s for uuid, last in queries if last}

    def _change(
        self,
        cell_uuid: str,
        changed: Mapping[int, ComputeNodeRow],
        gone: Collection[int],
    ) -> None:
        if not changed and not gone:
            return
        values, removed = {}, [(cell_uuid, id_) for id_ in gone]
        for id_, row in changed.items():
            key = cell_uuid, id_
            if row.host is None:  # it cannot be used, see cell_query
                removed.append(key)
            else:
                values[key] = host_values(row, self._ratios)
                self.failures.see(key, values[key]['failed_builds'])
        self.hosts.apply(values, removed)
        self.failures.remove(removed)
        self.changes += 1

    def named(
        self, cell_uuids: Iterable[str], host: str | None, node: str | None
    ) -> dict[str, list[ComputeNodeRow]]:
        """Return the nodes of a service host and/or of a node name, by id, of each cell
        that has any. Node names are case-sensitive, hosts are not."""
        folded = None if host is None else host.casefold()

        def is_named(row: ComputeNodeRow) -> bool:
            is_host = folded is None or (row.host or '').casefold() == folded
            return is_host and node in (None, row.hypervisor_hostname)

        cells = {uuid: self.cells[uuid] for uuid in cell_uuids if uuid in self.cells}
        found = {u: filter(is_named, cell.rows.values()) for u, cell in cells.items()}
        by_id = {u: sorted(rows, key=lambda row: row.id) for u, rows in found.items()}
        return {uuid: rows for uuid, rows in by_id.items() if rows}


@dataclass(eq=False)
class CellReader:
    """Reads into ``nodes``, which ``lock`` guards; several may read at once."""

    cells: Cells
    nodes: ComputeNodes
    clock: Clock
    down_time_s: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    _whole_s: dict[str, float] = field(default_factory=dict)

    def window(self) -> Window:
        """Return the heartbeats that count now."""
        return Window.around(self.clock.utcnow(), self.down_time_s)

    def read(
        self,
        cells: Iterable[Cell],
        *,
        complete: bool = False,
        all_services: bool = False,
        probe: bool = False,
        timeout_s: float | None = None,
    ) -> frozenset[str]:
        """Read what changed, or all; return the uuids of the cells that answered."""
        asked, answered = list(cells), set[str]()
        for _ in range(ATTEMPTS):
            taken = self._ask(asked, complete, all_services, probe, timeout_s)
            answered.update(taken)
            asked = [cell for cell in asked if not taken.get(cell.uuid, True)]
            complete = all_services = False
            if not asked:
                break
        return frozenset(answered)

    def _ask(
        self,
        cells: list[Cell],
        complete: bool,
        all_services: bool,
        probe: bool,
        timeout_s: float | None,
    ) -> dict[str, bool]:
        """Put one query to each cell; return by the uuids of those that answered
        whether that is enough."""
        moment = QueryTime(self.window(), self.clock.monotonic())
        with self.lock:
            queries = {
                cell.uuid: self.nodes.begin(
                    cell.uuid, moment, complete=complete, all_services=all_services
                )
                for cell in cells
            }
        answers = self.cells.ask(
            lambda cell, store: queries[cell.uuid].ask(store),
            cells,
            probe=probe,
            timeout_s=timeout_s,
        )
        with self.lock:
            return {u: self.nodes.take(queries[u], a) for u, a in answers.items()}

    def read_some(
        self, nodes: Mapping[str, Collection[int]], timeout_s: float | None
    ) -> frozenset[str]:
        """Read some nodes again, by cell uuid and id, with their services; return the
        uuids of the cells that answered."""
        moment = QueryTime(self.window(), self.clock.monotonic())
        with self.lock:
            known = nodes.keys() & self.nodes.cells.keys()  # the others were forgotten
            queries = {uuid: self.nodes.begin(uuid, moment) for uuid in known}
        answers = self.cells.ask(
            lambda cell, store: queries[cell.uuid].ask_for(store, nodes[cell.uuid]),
            [cell for cell in self.cells.all() if cell.uuid in queries],
            timeout_s=timeout_s,
        )
        with self.lock:
            for uuid, now in answers.items():
                self.nodes.take_some(queries[uuid], nodes[uuid], now)
        return frozenset(answers)

    def read_aside(self, cell: Cell) -> frozenset[str]:
        """Read what changed in a cell; all, if that was not done lately."""
        now_s = self.clock.monotonic()
        complete = now_s - self._whole_s.get(cell.uuid, float('-inf')) >= ASIDE_AGE_S
        may_be_asked = self.cells.may_be_asked(cell)
        answered = self.read([cell], complete=complete, probe=may_be_asked)
        if complete and answered:
            self._whole_s[cell.uuid] = now_s
        return answered
