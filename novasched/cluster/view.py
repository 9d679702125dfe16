# SPDX-License-Identifier: Apache-2.0
"""Cluster view: cells, hosts, services, aggregates and instances between requests.

Compute nodes are read by delta on their time stamps, and checked by a sum over all
rows. The sum shows rows that slow clocks stamped, or that were committed late. Only
unavailable services are read. Instances are read for the hosts of a request, when a
filter or weigher first asks for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    KeysView,
    Mapping,
    Sequence,
    Set,
)
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched.cluster.aggregates import AggregateReader, AggregateView
from novasched.cluster.cells import Cells
from novasched.cluster.clock_skew import ClockSkew
from novasched.cluster.group_members import GroupMembers
from novasched.cluster.heartbeat_grace import HeartbeatGrace
from novasched.cluster.host_columns import Ratios
from novasched.cluster.instances import InstanceReader, InstanceView
from novasched.cluster.nodes import BuildFailures, CellReader, ComputeNodes
from novasched.cluster.services import down_time
from novasched.cluster.shared_read import Refresh, SharedVerification
from novasched.cluster.snapshot import Composer, candidates_column, limits_column
from novasched.ports import ApiStore, Cell, ComputeNodeRow, Heartbeats
from novasched.resources.request import Target
from novasched.runtime.clock import Clock
from novasched.runtime.periodic import PeriodicTask
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.hosts import HostTable, Lazy, Snapshot
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'host_state_max_age',
            default=1.0,
            min=0.0,
            help='Maximum age of the cached hosts in seconds when a decision begins. '
            'Each pick is verified in its cell before it is claimed. All cells are '
            'read again before a request gets no host, or fewer alternates than it '
            'asks for. 0: every request reads all cells first.',
        ),
        cfg.FloatOpt(
            'host_state_overlap',
            default=10.0,
            min=2.0,
            help='Seconds by which the clocks that stamp compute nodes usually differ, '
            'the time of their transactions included. Rows stamped by others are seen '
            'as soon, by one or two questions more, and the log names their hosts.',
        ),
    ]
}

BACKGROUND_TIMEOUT_S = 60.0
"""How long a full read may take that no request waits for. A start waits for it, but
not for cells that are late with a small question."""


IDLE_S = 10.0
"""How often it is found out, at least, that there is nothing to do."""

SPARE_S = 0.1
"""How long before what is known is too old the next look should have ended."""


class ClusterView:
    """Hosts, services, aggregates and instances of all cells.

    A request sees the cells that answered the newest refresh, and no other.
    """

    def __init__(
        self,
        api: ApiStore,
        cells: Cells,
        clock: Clock,
        *,
        ratios: Ratios | None = None,
        service_down_time_s: int = 60,
        max_age_s: float = 0.0,
        overlap_s: float = 10.0,
        tracks_instances: bool = True,
        heartbeat_grace: HeartbeatGrace | None = None,
        measure_refresh: Callable[[], AbstractContextManager[None]] = nullcontext,
        heartbeats: Heartbeats | None = None,
        idle_s: float = IDLE_S,
        forget_failures_s: float | None = None,
        needs_public_flavors: Callable[[Iterable[Aggregate]], bool] = lambda _: False,
    ) -> None:
        self._api = api
        self.cells = cells
        self._available: frozenset[str] = frozenset()
        self._versions: dict[str, int] = {}
        self._clock_skew = ClockSkew(cells, clock, overlap_s, service_down_time_s)
        self._heartbeat_grace = heartbeat_grace or HeartbeatGrace(clock)
        self.aggregates = AggregateView()
        self._aggregate_reader = AggregateReader(api, self.aggregates, clock, overlap_s)
        self._group_members = GroupMembers(api, clock)
        self.instances = InstanceView(tracks_instances)
        failures = BuildFailures(clock, forget_failures_s)
        self._nodes = ComputeNodes(ratios or Ratios(), overlap_s, heartbeats, failures)
        self._reader = CellReader(cells, self._nodes, clock, service_down_time_s)
        self._lock = self._reader.lock
        self._composer = Composer(self._nodes, self.aggregates)
        self._needs_public_flavors = needs_public_flavors
        self._shared_refresh = Refresh(self._refresh, clock)
        self._verifications: dict[str, SharedVerification] = {}
        self._looks = 0
        self.max_age_s = max_age_s
        self._clock = clock
        self._known_for = float('-inf')
        self._pause_s, self._idle_s = max_age_s / 2, idle_s
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._measure_refresh = measure_refresh
        self.asked_at = self._nodes.asked_at

    @classmethod
    def from_conf(
        cls,
        conf: Any,
        api: ApiStore,
        cells: Cells,
        clock: Clock,
        measure_refresh: Callable[[], AbstractContextManager[None]] = nullcontext,
        heartbeats: Heartbeats | None = None,
    ) -> Self:
        down_time_s, _ = down_time(conf.service_down_time, conf.report_interval)
        keep_room = KeepRoomWeigher.from_conf(conf)
        return cls(
            api,
            cells,
            clock,
            ratios=Ratios.from_conf(conf),
            service_down_time_s=down_time_s,
            max_age_s=conf.novasched.host_state_max_age,
            overlap_s=conf.novasched.host_state_overlap,
            tracks_instances=conf.filter_scheduler.track_instance_changes,
            heartbeat_grace=HeartbeatGrace.from_conf(conf, clock),
            measure_refresh=measure_refresh,
            heartbeats=heartbeats,
            forget_failures_s=conf.filter_scheduler.build_failure_forget_after,
            needs_public_flavors=keep_room.needs_public_flavors,
        )

    def load(self) -> None:
        """Read everything, as at the start.

        Raises errors.StoreFailed when the API database cannot be asked; a cell
        that cannot is unavailable, and read in the background when it answers.
        """
        self.check(judges=True)
        self.read_public_flavors()
        self._set_available(self._read_patiently(self.cells.enabled()))

    def _read_patiently(
        self, cells: list[Cell], *, all_services: bool = False
    ) -> frozenset[str]:
        """Read all, or all services, without the haste of a request."""
        return self._reader.read(
            cells,
            complete=not all_services,
            all_services=all_services,
            timeout_s=BACKGROUND_TIMEOUT_S,
        )

    def check(self, *, judges: bool = False) -> None:
        """Read the cells and aggregates again, and the lowest compute version.

        ``judges``: a cell that is late with the latter is unavailable from then on.
        Raises errors.StoreFailed when the API database cannot be asked.
        """
        changed = self.cells.replace(self._api.cells())
        if changed:
            with self._lock:
                self._nodes.forget(changed)
                for uuid in changed:
                    self._verifications.pop(uuid, None)
        self._aggregate_reader.read()
        self._read_versions(judges)

    def read_public_flavors(self) -> None:
        """Read the public flavors, if decisions need them. Raises errors.StoreFailed
        when the API database cannot be asked."""
        if self._needs_public_flavors(self.aggregates.all()):
            self._composer.public_flavors = self._api.public_flavors()

    def _read_versions(self, judges: bool) -> None:
        """Ask the cells, disabled ones and cell0 too; one that fails keeps its own."""
        cells = self.cells.all()
        if self.cells.cell0 is not None:
            cells.append(self.cells.cell0)
        found = self.cells.ask(
            lambda cell, store: store.minimum_compute_version(),
            cells,
            what='the lowest compute version',
            judges=judges,
        )
        known = {cell.uuid for cell in cells}
        kept = {u: v for u, v in self._versions.items() if u in known}
        self._versions = {**kept, **found}

    def minimum_compute_version(self) -> int:
        """Return the lowest nova-compute version of all cells; 0: no computes."""
        return min(filter(None, self._versions.values()), default=0)

    def group_members(self, group_uuid: str) -> list[str]:
        """Return the members of a server group, the newest first, as they are now.
        Raises errors.StoreFailed, without a long wait."""
        return self._group_members.of(group_uuid)

    def current_aggregates(self) -> list[Aggregate]:
        """Return the aggregates by id as they are now, if the database can be asked."""
        return self._aggregate_reader.current()

    def read_services(self) -> None:
        """Find services that came or went without a word, and clocks that differ."""
        self._clock_skew.check()
        answered = self._read_patiently(self.cells.enabled(), all_services=True)
        with self._lock:
            services = {
                uuid: cell.services.rows
                for uuid, cell in self._nodes.cells.items()
                if uuid in answered
            }
        for uuid, rows in services.items():
            self._clock_skew.compare(uuid, rows.values())

    def reconcile(self) -> None:
        """Read all hosts of the available cells."""
        self._read_patiently(self.cells.enabled())
        self.instances.keep(
            {host for names in self._hosts().values() for host in names}
        )

    def check_instances(self) -> None:
        """Find instances that moved unreported, if requests ask for instances."""
        hosts = {u: names for u, names in self._hosts().items() if u in self._available}
        reader = InstanceReader(self.cells, BACKGROUND_TIMEOUT_S)
        self.instances.compare(hosts, reader.instances)

    def _hosts(self) -> dict[str, set[str]]:
        """Return the names of the hosts of each cell."""
        with self._lock:
            return {
                uuid: {row.host for row in cell.rows.values() if row.host}
                for uuid, cell in self._nodes.cells.items()
            }

    def retry_unavailable(self) -> None:
        """Ask the cells whose time has come; the next refresh shows them again."""
        self._retry(self.cells.due_for_retry())

    def _retry(self, cells: list[Cell]) -> Collection[str]:
        """Ask cells, and read those that answer; return their uuids."""
        answering = self.cells.ask(
            lambda _, store: store.minimum_compute_version(), cells, probe=True
        )
        self._read_patiently([c for c in self.cells.enabled() if c.uuid in answering])
        return answering

    def answers(self, name: str) -> bool:
        """Probe an unavailable cell; an unknown cell counts as available.

        The next refresh shows its hosts.
        """
        cells = [c for c in self.cells.all() if name in (c.name, c.uuid)]
        return len(self._retry(cells)) == len(cells)

    def api_answers(self) -> bool:
        """Ask the API database whether it answers; raises errors.StoreFailed."""
        self._api.aggregates_mark()
        return True

    def refresh(self) -> float:
        """Read what changed in the enabled cells since the last time; return when that
        began.

        Callers at the same time share one read, which began after each of them called.
        """
        with self._measure_refresh():
            return self._shared_refresh()

    def known(self) -> float:
        """Return when the known host state was read; refresh if older than
        ``max_age_s``.

        For as long from now, the cells are refreshed in the background.
        """
        self._known_for = self._clock.monotonic() + self.max_age_s
        self._wake.set()
        began_s = self._shared_refresh.newest(self.max_age_s)
        if began_s is not None:
            return began_s
        with self._measure_refresh():
            return self._shared_refresh(self.max_age_s)

    def periodic_tasks(self) -> list[PeriodicTask]:
        """Return the task that looks at the cells while requests come."""
        return [(0.0, self.keep_up)] if self.max_age_s else []

    def keep_up(self) -> None:
        """Wait until it is time to look, or there are requests again; then look."""
        is_asked = self._clock.monotonic() < self._known_for
        is_asked = is_asked or self._wake.wait(self._idle_s)
        self._wake.clear()
        if is_asked and not self._stopped.wait(self._pause_s):
            began_s = self._shared_refresh(self._pause_s)
            took_s = self._clock.monotonic() - began_s
            # So that the next one has ended when this one is too old.
            pause_s = self.max_age_s - 2 * took_s - SPARE_S
            self._pause_s = max(self.max_age_s / 2, pause_s)

    def stop(self) -> None:
        """Let ``keep_up`` end soon."""
        self._stopped.set()
        self._wake.set()

    def changed(
        self,
        node_uuids: Collection[str],
        seen: Snapshot,
        *,
        cell_uuid: str | None = None,
        with_rows: bool = True,
        with_aggregates: bool = False,
    ) -> set[str]:
        """Read compute nodes again, with their services; return those that changed.

        ``seen`` has hosts of a disabled cell only if that cell is ``cell_uuid``. Nodes
        of an unavailable cell count as changed: no host is taken from it before a
        refresh.
        """
        unread = self._verified(node_uuids) if with_rows else set[str]()
        if with_aggregates:
            self.current_aggregates()
        named = self.cells.get(cell_uuid) if cell_uuid else None
        aside = {named.uuid} if named is not None and named.disabled else set[str]()
        with self._lock:
            composed = self._composer.compose(self._available | aside)
        return composed.changed(node_uuids, seen) | (unread & {*node_uuids})

    def _verified(self, node_uuids: Collection[str]) -> set[str]:
        """Read compute nodes again; return the nodes that cannot be read.

        Concurrent reads of one cell are shared.
        """
        with self._lock:
            cells = [*self._nodes.ids_of(node_uuids)]
            verify: Callable[[Collection[str]], set[str]] = self._read_nodes
            if len(cells) == 1:
                shared = SharedVerification(self._read_nodes)
                verify = self._verifications.setdefault(cells[0], shared)
        return verify(node_uuids)

    def _read_nodes(self, node_uuids: Collection[str]) -> set[str]:
        """Read compute nodes again; return the nodes of cells that do not answer."""
        with self._lock:
            ids, looks = self._nodes.ids_of(node_uuids), self._looks
            has_others = bool(self._available - ids.keys())
        limit_s = self.cells.timeout_s if has_others else None
        silent = ids.keys() - self._reader.read_some(ids, limit_s)
        if not silent:
            return set()
        with self._lock:
            if looks == self._looks:  # else a look has shown since which ones answer
                self._available -= silent
            return {
                uuid
                for uuid in node_uuids
                if not silent.isdisjoint(self._nodes.ids_of([uuid]))
            }

    def _refresh(self) -> None:
        if not self.cells.all():
            LOG.warning('No cells were found')
        self._set_available(self._reader.read(self.cells.enabled()))

    def _set_available(self, cell_uuids: frozenset[str]) -> None:
        """Let requests see these cells, and judge those that have fallen silent."""
        with self._lock:
            self._heartbeat_grace.judge(self._nodes.cells, cell_uuids)
            self._available = cell_uuids
            self._looks += 1

    def _wanted(self, cell_uuid: str | None) -> frozenset[str]:
        """Return the cells to take hosts from; read one that no refresh has read."""
        if cell_uuid is None:
            return self._available & {known.uuid for known in self.cells.enabled()}
        known = self.cells.get(cell_uuid) or self._look_up(cell_uuid)
        if known is not None and known.disabled:
            return self._reader.read_aside(known)
        return self._available & {cell_uuid}

    def _look_up(self, uuid: str) -> Cell | None:
        """Find a cell that was mapped since the last look, and read it."""
        self.check()
        found = self.cells.get(uuid)
        if found is not None and not found.disabled:
            answered = self._reader.read([found])
            with self._lock:
                self._available |= answered
        return found

    def hosts(
        self,
        candidates: Mapping[str, list[Any]] | None,
        cell_uuid: str | None = None,
        moved_uuid: str | None = None,
    ) -> HostTable:
        """Return the hosts that have candidates, in the order of ``candidates``.

        ``candidates`` are allocation candidates by provider uuid; None returns all
        hosts, without candidates. ``cell_uuid`` replaces the enabled cells by one cell,
        even a disabled one. ``moved_uuid`` is the instance that a request moves.
        Unavailable cells give no hosts. Call ``refresh()`` first. Raises
        errors.StoreFailed if that cell cannot be found.
        """
        wanted = self._wanted(cell_uuid)
        with self._lock:
            composed = self._composer.compose(wanted)
        if candidates is None:
            rows = np.flatnonzero(composed.usable)
        else:
            rows = composed.places(candidates)
        table = HostTable(composed.snapshot.for_new_request(), rows)
        window, reader = self._reader.window(), InstanceReader(self.cells)
        return table.with_columns(
            allocation_candidates=candidates_column(table, candidates),
            limits=limits_column(table),
            service=Lazy(lambda: composed.service_column(table, window)),
            instances=Lazy(lambda: self.instances.column(table, reader.instances)),
            instance_images=Lazy(lambda: reader.images(table)),
            is_source=Lazy(lambda: reader.is_source(table, moved_uuid)),
        )

    def unavailable_cells(
        self,
        cell_uuid: str | None = None,
        target: Target | None = None,
        offered: Collection[str] | None = None,
    ) -> tuple[str, ...]:
        """Return the names of the enabled cells, or of one, that do not answer.

        They give no hosts before a refresh finds that they answer again. ``target`` and
        ``offered`` keep only cells that may have the target of a request, and a host
        among the offered providers. A cell that was never read may have any host.
        """
        silent = {
            cell.uuid: cell.name or cell.uuid
            for cell in self.cells.enabled()
            if cell_uuid in (None, cell.uuid) and cell.uuid not in self._available
        }
        may_have = self._may_have(silent.keys(), target, offered)
        return tuple(name for uuid, name in silent.items() if uuid in may_have)

    def _may_have(
        self, cells: Set[str], target: Target | None, offered: Collection[str] | None
    ) -> Collection[str]:
        """Return which cells may have a target, and a host among providers."""
        if target is None and offered is None:
            return cells
        if offered is not None and not offered:
            return ()
        with self._lock:
            known: Mapping[str, object] = (
                self._nodes.ids_of(offered or ())
                if target is None
                else self._nodes.named(cells, target.host, target.node)
            )
        return known.keys() | (cells - self.asked_at().keys())

    def node_uuids(self) -> KeysView[str]:
        """Return the uuids of all compute nodes, of disabled cells, too; the same
        object until they change."""
        with self._lock:
            return self._nodes.hosts.uuids

    def hosts_by_node(self) -> dict[str, str]:
        """Return the name of the host of each compute node, by its uuid."""
        known = self.hosts(None).snapshot
        uuids, hosts = known.column('uuid').tolist(), known.column('host').tolist()
        return {uuid: host for uuid, host in zip(uuids, hosts, strict=True) if uuid}

    def nodes_named(
        self, host: str | None, node: str | None, cell_uuid: str | None = None
    ) -> list[tuple[str, str, str]]:
        """Return (host, node, uuid) of the nodes of a service host and/or a node name.

        Hosts are not case-sensitive; nodes need no service. Nodes are in order of id,
        all of one cell: ``cell_uuid``, or the first enabled cell that has any. If
        several cells have some, it is the cell that the host is mapped to. See hosts.
        """
        wanted = self._wanted(cell_uuid)
        order = [c.uuid for c in self.cells.enabled() if c.uuid in wanted]
        with self._lock:
            found = self._nodes.named(order or wanted, host, node)
        rows = found[self._cell_of(host, found)] if found else ()
        return [
            (row.host or '', row.hypervisor_hostname or '', row.uuid)
            for row in rows
            if row.uuid
        ]

    def _cell_of(
        self, host: str | None, found: Mapping[str, Sequence[ComputeNodeRow]]
    ) -> str:
        """Return the cell that a host is mapped to, of several that have such nodes."""
        first = next(iter(found))
        if len(found) == 1 or host is None:
            return first
        mapped = self._api.host_cell(found[first][0].host or host)
        return first if mapped is None or mapped not in found else mapped

    def close(self, join_s: float = 0.0) -> None:
        """Ask nothing more, wait so long for the threads, close the connections."""
        self.cells.close(join_s)
