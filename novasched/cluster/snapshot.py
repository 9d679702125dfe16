# SPDX-License-Identifier: Apache-2.0
"""Snapshot of all hosts, composed of compute nodes, services and aggregates."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from novasched.cluster.aggregates import AggregateView
from novasched.cluster.host_columns import NodeKey
from novasched.cluster.nodes import ComputeNodes
from novasched.cluster.services import Services, Window
from novasched.providers.by_root import CandidatesByRoot
from novasched.providers.table import ProviderTable
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.columns import PerHost, Rows, column_identity
from novasched.scheduler.flavor_sizes import FlavorSizes
from novasched.scheduler.hosts import (
    Categories,
    HostTable,
    Ints,
    Mask,
    Objects,
    Snapshot,
)

UNVERIFIED = {'updated', 'public_flavors', 'recent_failed_builds'}
"""Columns of which no filter asks; a compute changes the first with each write."""

LOG = logging.getLogger(__name__)


class Composed(NamedTuple):
    """A snapshot of all hosts; those without a compute service are not usable.

    ``by_uuid`` gives the place of a node, ``duplicate_uuids`` the places of a uuid that
    several nodes have; ``services`` are by cell uuid. ``places_of_providers`` returns
    the place of each provider of a table, -1 for what is no node.
    """

    snapshot: Snapshot
    usable: Mask
    by_uuid: Mapping[str, int]
    duplicate_uuids: Mapping[str, list[int]]
    services: Mapping[str, Services]
    places_of_providers: Callable[[ProviderTable], Rows]

    def places(self, candidates: Mapping[str, Any]) -> Rows:
        """Return the places of these nodes that are usable, in order."""
        if isinstance(candidates, CandidatesByRoot) and not self.duplicate_uuids:
            found = self.places_of_providers(candidates.table)[candidates.rows]
            found = found[found >= 0]
            return found[self.usable[found]]
        known = [uuid for uuid in candidates if uuid in self.by_uuid]
        listed = [self.by_uuid[uuid] for uuid in known]
        if self.duplicate_uuids:
            listed = [self._usable_place(uuid) for uuid in known]
        return np.array([place for place in listed if self.usable[place]], np.intp)

    def _usable_place(self, uuid: str) -> int:
        """Return the first place of a node that is usable, else its place."""
        places = self.duplicate_uuids.get(uuid, ())
        return next((p for p in places if self.usable[p]), self.by_uuid[uuid])

    def changed(self, uuids: Iterable[str], seen: Snapshot) -> set[str]:
        """Return which of these nodes are not what a snapshot has of them: gone, of no
        use, or other than there in what filters see."""
        now = self.snapshot
        others = [
            name
            for name in now.names - UNVERIFIED
            if column_identity(now.column(name))
            is not column_identity(seen.column(name))
        ]
        return {uuid for uuid in uuids if self._differs(uuid, seen, others)}

    def _differs(self, uuid: str, seen: Snapshot, names: Sequence[str]) -> bool:
        """Return whether a node is not usable, or differs in one of these columns."""
        places = self.duplicate_uuids.get(uuid) or [self.by_uuid.get(uuid, -1)]
        then = [*places]
        if 'uuid' in names:
            then = np.flatnonzero(seen.column('uuid') == uuid).tolist()
        if len(then) != len(places) or min(places) < 0:
            return True
        return not self.usable[places].all() or any(
            _shown(name, self.snapshot, at) != _shown(name, seen, before)
            for at, before in zip(places, then, strict=True)
            for name in names
        )

    def service_column(self, table: HostTable, window: Window) -> Objects:
        """Return the services of the hosts of a table, as filters see them."""
        return object_column(
            table,
            (self.services[c].describe(host, window) for c, host in hosts_of(table)),
        )


def _shown(name: str, hosts: Snapshot, place: int) -> Any:
    """Return a value of a host as filters see it: no other hosts of aggregates."""
    value = hosts.column(name).item(place)
    if name == 'aggregates':
        return [(each.id, each.name, each.metadata) for each in value]
    return value


class Composer:
    """Puts snapshots together, and keeps each part until it has changed."""

    def __init__(self, nodes: ComputeNodes, aggregates: AggregateView) -> None:
        self._nodes = nodes
        self._aggregates = aggregates
        self.public_flavors: FlavorSizes = ()
        self._kept: dict[str, tuple[Any, Any]] = {}

    def compose(self, cell_uuids: frozenset[str]) -> Composed:
        """Return the current snapshot; hosts of other cells than these are not usable.

        The snapshot is the last, if nothing has changed.
        """
        nodes, aggregates = self._nodes, self._aggregates.version
        services = tuple((u, c.services_version) for u, c in nodes.cells.items())
        forgotten, flavors = nodes.failures.forgotten(), self.public_flavors
        snapshot, usable = self._keep(
            'snapshot',
            (nodes.changes, aggregates, services, forgotten, flavors),
            lambda: self._compose(aggregates, services, forgotten),
        )
        cells: Categories[str] = snapshot.column('cell_uuid')
        usable = self._keep(
            'usable',
            (nodes.hosts.members, services, cell_uuids),
            lambda: usable & cells.map(cell_uuids.__contains__),
        )
        return Composed(
            snapshot,
            usable,
            nodes.hosts.by_uuid,
            nodes.hosts.duplicate_uuids,
            {uuid: cell.services for uuid, cell in nodes.cells.items()},
            functools.partial(
                self._places_of, nodes.hosts.members, nodes.hosts.by_uuid
            ),
        )

    def _places_of(
        self, members: int, by_uuid: Mapping[str, int], providers: ProviderTable
    ) -> Rows:
        """Return the place of each provider of a table, -1 for what is no node."""
        places: Rows = self._keep(
            'places',
            (members, providers.uuids),
            lambda: np.array([by_uuid.get(u, -1) for u in providers.uuids], np.intp),
        )
        return places

    def _keep(self, name: str, made_of: Any, make: Callable[[], Any]) -> Any:
        """Make a part again only when what it is made of has changed."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != made_of:
            kept = self._kept[name] = (made_of, make())
        return kept[1]

    def _compose(
        self, aggregates: int, services: Any, forgotten: Iterable[NodeKey]
    ) -> tuple[Snapshot, Mask]:
        columns = self._nodes.hosts.columns()
        columns['recent_failed_builds'] = self._recent_failures(
            columns['failed_builds'], forgotten
        )
        one_for_all = np.zeros(len(self._nodes.hosts), np.intp)
        columns['public_flavors'] = Categories([self.public_flavors], one_for_all)
        hosts, cells = columns['host'], columns['cell_uuid']
        members = self._nodes.hosts.members
        columns['aggregates'] = self._keep(
            'aggregates',
            (members, aggregates),
            lambda: _aggregates_column(hosts.tolist(), self._aggregates),
        )
        usable, disabled, up = self._keep(
            'services',
            (members, services),
            lambda: self._service_columns(hosts, cells),
        )
        columns['service_disabled'], columns['service_up'] = disabled, up
        return Snapshot(columns), usable

    def _recent_failures(self, counts: Ints, forgotten: Iterable[NodeKey]) -> Ints:
        """Return the counts of failed builds, 0 where they are forgotten."""
        places = self._nodes.hosts.places(forgotten)
        if places:
            counts = counts.copy()
            counts[places] = 0
        return counts

    def _service_columns(
        self, hosts: Objects, cells: Categories[str]
    ) -> tuple[Mask, Mask, Mask]:
        """Return which hosts have a service, a disabled one, and one that is up.

        Only the unavailable few are judged one by one.
        """
        usable, disabled = np.zeros(len(hosts), bool), np.zeros(len(hosts), bool)
        up = np.ones(len(hosts), bool)
        for uuid, cell in self._nodes.cells.items():
            known, places = cell.services, np.flatnonzero(cells.map(uuid.__eq__))
            names = hosts[places].tolist()
            unavailable = _among(known.unavailable, names)
            usable[places] = unavailable | _among(known.rows, names)
            for place in places[unavailable].tolist():
                disabled[place] = known.is_disabled(hosts[place])
                up[place] = known.is_up(hosts[place])
        for name in hosts[~usable].tolist():
            LOG.warning('No compute service record found for host %s', name)
        return usable, disabled, up


def _among(services: Mapping[str, Any], hosts: list[str]) -> Mask:
    return np.fromiter(map(services.__contains__, hosts), bool, len(hosts))


def _aggregates_column(
    hosts: list[str], aggregates: AggregateView
) -> Categories[Aggregates]:
    found = aggregates.of_hosts(hosts)
    values = list({id(of_host): of_host for of_host in found}.values())
    codes = {id(of_host): code for code, of_host in enumerate(values)}
    column = np.fromiter((codes[id(of_host)] for of_host in found), np.intp, len(hosts))
    return Categories(values, column)


def hosts_of(table: HostTable) -> list[tuple[str, str]]:
    """Return the uuid of the cell and the name of each host of a table."""
    return list(zip(table.cell_uuid.tolist(), table.host.tolist(), strict=True))


def object_column(table: HostTable, values: Iterable[Any]) -> Objects:
    """Return a column of a value for each host of a table, None for other hosts."""
    column: Objects = np.empty(len(table.snapshot), object)
    for place, value in zip(table.rows.tolist(), values, strict=True):
        column[place] = value
    return column


def candidates_column(
    table: HostTable, candidates: Mapping[str, list[Any]] | None
) -> PerHost:
    """Return new lists of the candidates of each host of a table."""
    uuids = table.snapshot.column('uuid')

    def make(row: int) -> list[Any]:
        return [] if candidates is None else list(candidates[uuids.item(row)])

    return PerHost(len(table.snapshot), make)


def limits_column(table: HostTable) -> PerHost:
    """Return a new dict for each host of a table, for filters to write to."""
    return PerHost(len(table.snapshot), lambda row: {})
