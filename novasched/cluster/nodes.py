# SPDX-License-Identifier: Apache-2.0
"""The compute nodes and services of all cells: taken in by delta, shown as one
snapshot."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from novasched.cluster.aggregates import AggregateView
from novasched.cluster.columns import HostColumns, Key
from novasched.cluster.rows import Ratios, host_values
from novasched.cluster.services import Services, Window
from novasched.ports import CellStore, ComputeNodeRow, ServiceRow
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.hosts import Categories, Lazy, Mask, Snapshot

LOG = logging.getLogger(__name__)


class Delta(NamedTuple):
    """What one cell answered. ``complete``: the nodes are all that there are;
    ``services`` are all, or None when only the unavailable ones were asked for."""

    nodes: list[ComputeNodeRow]
    services: list[ServiceRow] | None
    unavailable: list[ServiceRow]
    window: Window
    complete: bool


class Composed(NamedTuple):
    """A snapshot of all hosts; those without a compute service are not usable."""

    snapshot: Snapshot
    usable: Mask
    by_uuid: Mapping[str, int]


class Nodes:
    """Compute nodes and services by cell; not to be changed by two at once."""

    def __init__(self, ratios: Ratios, overlap_s: float) -> None:
        self._ratios = ratios
        self._overlap = datetime.timedelta(seconds=overlap_s)
        self._rows: dict[Key, ComputeNodeRow] = {}
        self._hosts = HostColumns()
        self._read_at: dict[str, datetime.datetime] = {}
        self._services: dict[str, Services] = {}
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._changes = 0

    def ask(
        self, cell_uuid: str, store: CellStore, window: Window, complete: bool
    ) -> Delta:
        """Read what changed since the last delta of the cell, or all."""
        read_at = self._read_at.get(cell_uuid)
        if complete or read_at is None:
            complete, nodes = True, store.compute_nodes()
        else:
            nodes = store.compute_nodes_since(read_at - self._overlap)
        services = self._services.get(cell_uuid)
        unknown = services is None or any(
            row.host not in services for row in nodes if not row.deleted
        )
        return Delta(
            nodes,
            store.compute_services() if complete or unknown else None,
            store.unavailable_services(window.oldest, window.newest),
            window,
            complete,
        )

    def take(self, cell_uuid: str, delta: Delta) -> None:
        """Take in what a cell answered; rebuild only hosts whose row differs."""
        services = self._services.setdefault(cell_uuid, Services())
        if delta.services is not None:
            services.replace(delta.services)
        services.set_unavailable(delta.unavailable, delta.window)
        changed = {}
        for row in delta.nodes:
            key = (cell_uuid, row.id)
            if not row.deleted and self._is_news(row, self._rows.get(key)):
                self._rows[key] = row
                changed[key] = host_values(row, self._ratios)
        gone = self._gone(cell_uuid, delta)
        self._change(changed, gone)
        self._read_at[cell_uuid] = delta.window.now

    def _is_news(self, row: ComputeNodeRow, held: ComputeNodeRow | None) -> bool:
        """A long full read may bring a row that is older than what is held."""
        if held is None or not (held.updated_at and row.updated_at):
            return row != held
        return row != held and row.updated_at >= held.updated_at

    def _gone(self, cell_uuid: str, delta: Delta) -> set[Key]:
        gone = {(cell_uuid, row.id) for row in delta.nodes if row.deleted}
        if delta.complete:
            present = {row.id for row in delta.nodes}
            since = delta.window.now - self._overlap
            for id_ in self._hosts.ids_in(cell_uuid) - present:
                created = self._rows[cell_uuid, id_].created_at
                if created is None or created < since:
                    gone.add((cell_uuid, id_))
        return {key for key in gone if key in self._rows}

    def _change(
        self, changed: Mapping[Key, dict[str, Any]], gone: Collection[Key]
    ) -> None:
        for key in gone:
            del self._rows[key]
        if changed or gone:
            self._hosts.apply(changed, gone)
            self._changes += 1

    def keep_cells(self, uuids: Collection[str]) -> None:
        """Forget everything about all other cells."""
        self._change({}, [key for key in self._rows if key[0] not in uuids])
        self._read_at = {u: t for u, t in self._read_at.items() if u in uuids}
        self._services = {u: s for u, s in self._services.items() if u in uuids}

    def compose(self, aggregates: AggregateView, window: Window) -> Composed:
        """Return the snapshot of what is known now: the last, if nothing changed."""
        services = tuple((u, s.version) for u, s in self._services.items())
        made_of = (self._changes, aggregates.version, services)
        composed: Composed = self._keep(
            'composed', made_of, lambda: self._compose(aggregates, window)
        )
        return composed

    def _keep(self, name: str, made_of: Any, make: Callable[[], Any]) -> Any:
        """Make a part again only when what it is made of has changed."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != made_of:
            kept = self._kept[name] = (made_of, make())
        return kept[1]

    def _compose(self, aggregates: AggregateView, window: Window) -> Composed:
        columns = self._hosts.columns()
        hosts = columns['host'].tolist()
        members = self._hosts.members
        versions = tuple((u, s.version) for u, s in self._services.items())
        columns['aggregates'] = self._keep(
            'aggregates',
            (members, aggregates.version),
            lambda: _aggregates_column(hosts, aggregates),
        )
        service_columns = self._keep(
            'services',
            (members, versions),
            lambda: self._service_columns(hosts, columns['cell_uuid'], window),
        )
        usable = service_columns['usable']
        columns.update({k: v for k, v in service_columns.items() if k != 'usable'})
        return Composed(Snapshot(columns), usable, self._hosts.by_uuid)

    def _service_columns(
        self, hosts: list[str], cells: Categories[str], window: Window
    ) -> dict[str, Any]:
        found = [
            (host, self._services[cell])
            for host, cell in zip(hosts, cells.tolist(), strict=True)
        ]
        usable = np.array([host in services for host, services in found], bool)
        for position in np.flatnonzero(~usable).tolist():
            LOG.warning('No compute service record found for host %s', hosts[position])
        return {
            'usable': usable,
            'service': Lazy(lambda: _describe(found, window)),
            'service_disabled': np.array([s.is_disabled(h) for h, s in found], bool),
            'service_up': np.array([s.is_up(h) for h, s in found], bool),
        }


def _describe(found: list[tuple[str, Services]], window: Window) -> Any:
    column = np.empty(len(found), object)
    for position, (host, services) in enumerate(found):
        if host in services:
            column[position] = services.describe(host, window)
    return column


def _aggregates_column(
    hosts: list[str], aggregates: AggregateView
) -> Categories[Aggregates]:
    codes: dict[tuple[int, ...], int] = {}
    values: list[Aggregates] = []
    column = np.empty(len(hosts), np.intp)
    for position, host in enumerate(hosts):
        of_host = aggregates.of_host(host)
        key = tuple(a.id for a in of_host)
        if key not in codes:
            codes[key] = len(values)
            values.append(of_host)
        column[position] = codes[key]
    return Categories(values, column)
