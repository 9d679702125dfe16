# SPDX-License-Identifier: Apache-2.0
"""The list of hosts: state, place, what is used of each, page by page.

All of it is computed in columns, one row for each host.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from novasched.inspection.questions.capacity import HostSlots, provider_rows, zone_of
from novasched.inspection.questions.reports import HostGroup, HostsReport, ListedHost
from novasched.inspection.session.orders import DISABLED, DOWN, ENABLED, HostsOrder
from novasched.providers.table import ProviderTable
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.columns import Ints, Mask, Objects, Rows
from novasched.scheduler.hosts import HostTable


@dataclass(frozen=True)
class ListedHosts:
    """All hosts, by name. ``nodes`` is the table of their nodes, and ``first`` the
    place in it of one node of each; ``used`` are amounts and capacities by class.
    """

    names: Objects
    cells: Objects
    zones: Objects
    aggregates: Objects
    states: Objects
    servers: Ints
    used: Mapping[str, tuple[Ints, Ints]]
    nodes: HostTable
    first: Rows

    @classmethod
    def of(
        cls,
        nodes: HostTable,
        cells: Mapping[str, str],
        default_zone: str,
        providers: ProviderTable | None,
    ) -> ListedHosts:
        """Make the list of the hosts of some nodes; ``cells`` are names by uuid.
        Without ``providers`` it is not known what is used."""
        names = nodes.host.astype(str)
        names, first, host_of = np.unique(names, return_index=True, return_inverse=True)
        states = np.full(len(nodes), ENABLED, object)
        states[~nodes.service_up] = DOWN
        states[nodes.service_disabled] = DISABLED
        used = {} if providers is None else _used(nodes, providers)
        return cls(
            names=names.astype(object),
            cells=nodes.cell_uuid.map(lambda u: cells.get(u, u), object)[first],
            zones=nodes.aggregates.map(lambda a: zone_of(a, default_zone), object)[
                first
            ],
            aggregates=nodes.aggregates.map(names_of, object)[first],
            states=states[first],
            servers=_summed(nodes.num_instances, host_of, len(names)),
            used={
                name: (
                    _summed(amounts, host_of, len(names)),
                    _summed(capacities, host_of, len(names)),
                )
                for name, (amounts, capacities) in used.items()
            },
            nodes=nodes,
            first=first,
        )

    def __len__(self) -> int:
        return len(self.names)

    def matching(self, criteria: HostsOrder) -> Rows:
        """Return the places of the hosts that meet criteria."""
        found: Mask = np.ones(len(self), bool)
        for column, wanted in (
            (self.cells, criteria.cell),
            (self.zones, criteria.zone),
            (self.states, criteria.state),
        ):
            if wanted:
                found &= column == wanted
        if criteria.aggregate:
            found &= _each(self.aggregates, lambda each: criteria.aggregate in each)
        if criteria.name:
            found &= _each(self.names, _meaning(criteria.name))
        return np.flatnonzero(found)

    def page(self, order: HostsOrder, slots: HostSlots | None = None) -> HostsReport:
        """Return the hosts of a page."""
        found, limit = self.matching(order), order.limit
        shown = found[(order.page - 1) * limit : order.page * limit]
        counts = None if slots is None else self.slots(slots)
        services = self.nodes[self.first[shown]].service
        return HostsReport(
            hosts=[
                self._host(place, services[number], counts)
                for number, place in enumerate(shown.tolist())
            ],
            total=len(found),
            page=order.page,
            pages=max(1, -(-len(found) // limit)),
            cells=sorted(set(self.cells.tolist())),
            zones=sorted(set(self.zones.tolist())),
            aggregates=sorted(set().union(*self.aggregates.tolist())),
        )

    def slots(self, slots: HostSlots) -> list[int | None]:
        """Return how many servers of a flavor each host takes; None if it is off."""
        taken: dict[str, int] = {}
        pairs = zip(slots.hosts.host.tolist(), slots.counts.tolist(), strict=True)
        for host, count in pairs:
            taken[host] = taken.get(host, 0) + count
        pairs = zip(self.names.tolist(), self.states.tolist(), strict=True)
        return [taken.get(name) if state == ENABLED else None for name, state in pairs]

    def _host(
        self, place: int, service: Mapping[str, Any], slots: list[int | None] | None
    ) -> ListedHost:
        return ListedHost(
            host=self.names[place],
            cell=self.cells[place],
            zone=self.zones[place],
            aggregates=self.aggregates[place],
            state=self.states[place],
            reason=service.get('disabled_reason'),
            used={
                name: (amounts.item(place), capacities.item(place))
                for name, (amounts, capacities) in self.used.items()
                if capacities[place]
            },
            servers=self.servers.item(place),
            slots=None if slots is None else slots[place],
        )

    def groups(self, slots: HostSlots) -> list[HostGroup]:
        """Return the hosts with their slots, by zone and aggregate.

        Each host is in one group: its first aggregate, by name, that makes no zone.
        """
        counts = self.slots(slots)
        aggregates = self.nodes.aggregates[self.first].map(group_of, object)
        found: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
        columns = self.zones.tolist(), aggregates.tolist(), self.names.tolist(), counts
        for zone, aggregate, name, count in zip(*columns, strict=True):
            found.setdefault((zone, aggregate), []).append((name, count))
        return [HostGroup(*place, found[place]) for place in sorted(found)]


def _meaning(name: str) -> Callable[[str], bool]:
    """Return the test of a name that was typed: a part of it, a pattern, or several
    whole names or patterns with commas between them."""
    patterns = name.lower().split(',')
    if len(patterns) == 1 and not set(name) & set('*?['):
        patterns = [f'*{patterns[0]}*']
    matches = re.compile('|'.join(fnmatch.translate(p.strip()) for p in patterns)).match
    return lambda each: matches(each.lower()) is not None


def names_of(aggregates: Aggregates) -> tuple[str, ...]:
    """Return the names of aggregates, sorted."""
    return tuple(sorted(each.name or each.uuid or '' for each in aggregates))


def group_of(aggregates: Aggregates) -> str:
    """Return the first of some aggregates that makes no zone; '' for none."""
    return next(iter(names_of([a for a in aggregates if not a.availability_zone])), '')


def _each(column: Objects, test: Any) -> Mask:
    return np.fromiter(map(test, column.tolist()), bool, len(column))


def _summed(amounts: Ints, host_of: Rows, hosts: int) -> Ints:
    """Return the sum over the nodes of each host."""
    found = np.zeros(hosts, np.int64)
    np.add.at(found, host_of, amounts)
    return found


def _used(nodes: HostTable, providers: ProviderTable) -> dict[str, tuple[Ints, Ints]]:
    """Return usage and capacity, by class, of the tree of each node."""
    rows = provider_rows(nodes, providers)
    known = rows >= 0
    found = {}
    for name, inventory in sorted(providers.inventories.items()):
        roots = providers.roots[inventory.rows]
        sums = []
        for amounts in (inventory.used, inventory.capacity):
            of_root = np.zeros(len(providers), np.int64)
            np.add.at(of_root, roots, amounts)
            sums.append(np.where(known, of_root[rows], 0))
        found[name] = (sums[0], sums[1])
    return found
