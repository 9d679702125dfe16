# SPDX-License-Identifier: Apache-2.0
"""The cluster as it is known between requests, refreshed by what changed.

Compute nodes are read by delta on their time stamps, with an overlap that covers
clock skew, whole-second stamps and late commits. Of the services only the
unavailable ones are asked for; of the instances those of the hosts of a request,
when a filter or weigher first looks at them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.cluster.aggregates import AggregateView
from novasched.cluster.cells import Cells
from novasched.cluster.instances import InstanceView
from novasched.cluster.nodes import Composed, Delta, Nodes
from novasched.cluster.refresh import Refresh
from novasched.cluster.rows import Ratios
from novasched.cluster.services import Window
from novasched.ports import ApiStore, Cell, CellStore, Clock, InstanceRow
from novasched.scheduler.hosts import HostTable, Lazy, Objects

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'host_state_max_age',
            default=0.0,
            min=0.0,
            help='Seconds that what is known of the hosts may be old. 0: a decision '
            'sees every compute node committed before its request arrived.',
        ),
        cfg.FloatOpt(
            'host_state_overlap',
            default=10.0,
            min=2.0,
            help='Seconds by which the clocks of those who write compute nodes may '
            'differ, the time of their transactions included.',
        ),
    ]
}


class ClusterView:
    """Hosts, services, aggregates and instances of all cells."""

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
    ) -> None:
        self._api = api
        self._clock = clock
        self._down_time_s = service_down_time_s
        self._nodes = Nodes(ratios or Ratios(), overlap_s)
        self._minimum_version = 0
        self._lock = threading.Lock()
        self.cells = cells
        self.aggregates = AggregateView()
        self.instances = InstanceView(tracks_instances)
        self.refresh = Refresh(self._refresh, clock, max_age_s)

    def load(self) -> None:
        """Read everything, as at the start.

        Raises errors.StoreFailed when the API database cannot be asked; a cell
        that cannot is left out.
        """
        self.check()
        self.reconcile()

    def check(self) -> None:
        """Read the cells and aggregates again, and the lowest compute version."""
        if self.cells.replace(self._api.cells()):
            with self._lock:
                self._nodes.keep_cells({cell.uuid for cell in self.cells.all()})
        self.aggregates.replace(self._api.aggregates())
        cells = self.cells.all()
        if self.cells.cell0 is not None:
            cells.append(self.cells.cell0)
        found = self.cells.ask(lambda c, store: store.minimum_compute_version(), cells)
        self._minimum_version = min((v for v in found.values() if v), default=0)

    def reconcile(self) -> None:
        """Read all hosts of the enabled cells, of those left out too."""
        self._read(self.cells.enabled(), complete=True)

    def retry_left_out(self) -> None:
        """Ask the cells whose time to be tried again has come."""
        self._read(self.cells.due_for_retry(), complete=True)

    def _refresh(self) -> None:
        self._read(self.cells.enabled(), complete=False)

    def minimum_compute_version(self) -> int:
        """Return the lowest nova-compute version of all cells; 0: no computes."""
        return self._minimum_version

    def _window(self) -> Window:
        return Window.around(self._clock.utcnow(), self._down_time_s)

    def _read(self, cells: Sequence[Cell], *, complete: bool) -> None:
        if not cells:
            return
        window = self._window()

        def question(cell: Cell, store: CellStore) -> Delta:
            return self._nodes.ask(cell.uuid, store, window, complete)

        answers = self.cells.ask(question, cells, even_left_out=complete)
        with self._lock:
            for uuid, delta in answers.items():
                self._nodes.take(uuid, delta)

    def _composed(self) -> Composed:
        with self._lock:
            return self._nodes.compose(self.aggregates, self._window())

    def hosts(
        self,
        candidates: Mapping[str, list[Any]] | None,
        cell: Cell | None = None,
    ) -> HostTable:
        """Return the hosts that have candidates, in the order of ``candidates``.

        ``candidates`` are lists of allocation candidates by provider uuid; None:
        all hosts, without candidates. ``cell`` restricts the hosts to one cell,
        even a disabled one; otherwise they are those of the enabled cells. Cells
        that are left out give no hosts. Call ``refresh()`` first.
        """
        if cell is not None and cell not in self.cells.enabled():
            self._read([cell], complete=True)
        snapshot, usable, by_uuid = self._composed()
        wanted = {c.uuid for c in ([cell] if cell else self.cells.enabled())}
        wanted -= {c.uuid for c in self.cells.left_out()}
        if len(snapshot):
            usable = usable & snapshot.column('cell_uuid').map(wanted.__contains__)
        if candidates is None:
            rows = np.flatnonzero(usable)
        else:
            found = [by_uuid[uuid] for uuid in candidates if uuid in by_uuid]
            rows = np.array([row for row in found if usable[row]], np.intp)
        columns = _per_request(len(snapshot))
        uuids = snapshot.aslist('uuid')
        for row in rows.tolist():
            of_host = [] if candidates is None else candidates[uuids[row]]
            columns['allocation_candidates'][row] = list(of_host)
        table = HostTable(snapshot, rows)
        columns['instances'] = Lazy(lambda: self._instances_column(table))
        return table.with_columns(**columns)

    def _instances_column(self, table: HostTable) -> Any:
        names, cells = table.host.tolist(), table.cell_uuid.tolist()
        cell_of = dict(zip(names, cells, strict=True))
        found = self.instances.of_hosts(
            cell_of, lambda hosts: self._read_instances(hosts, cell_of)
        )
        column = np.empty(len(table.snapshot), object)
        for row, name in zip(table.rows.tolist(), names, strict=True):
            column[row] = found[name]
        return column

    def _read_instances(
        self, hosts: Iterable[str], cell_of: Mapping[str, str]
    ) -> list[InstanceRow]:
        by_cell: dict[str, list[str]] = {}
        for host in hosts:
            by_cell.setdefault(cell_of[host], []).append(host)
        asked = [cell for cell in self.cells.all() if cell.uuid in by_cell]
        answers = self.cells.ask(
            lambda cell, store: store.instances_on(by_cell[cell.uuid]), asked
        )
        missing = by_cell.keys() - answers.keys()
        if missing:
            raise errors.StoreFailed(
                f'cell {", ".join(sorted(missing))}', 'no list of its instances'
            )
        return [row for rows in answers.values() for row in rows]

    def nodes_named(
        self, host: str | None, node: str | None, cell: Cell | None = None
    ) -> list[tuple[str, str, str]]:
        """Return (host, node, uuid) of the nodes of a service host and/or of a
        node name, in one cell or in the enabled ones. Call ``refresh()`` first."""
        table = self.hosts(None, cell)
        columns = (table.host.tolist(), table.nodename.tolist(), table.uuid.tolist())
        return [
            (h, n, u)
            for h, n, u in zip(*columns, strict=True)
            if (host is None or h == host) and (node is None or n == node)
        ]

    def close(self) -> None:
        self.cells.close()


def _per_request(length: int) -> dict[str, Any]:
    """Return the columns that no two requests share."""
    return {
        'allocation_candidates': np.empty(length, object),
        'limits': Lazy(lambda: _new_limits(length)),
    }


def _new_limits(length: int) -> Objects:
    column: Objects = np.empty(length, object)
    for row in range(length):
        column[row] = dict[str, Any]()
    return column
