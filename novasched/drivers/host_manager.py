# SPDX-License-Identifier: Apache-2.0
"""The host manager that drivers written for nova expect to find.

Nova: scheduler/host_manager.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from novasched.drivers import Parts
from novasched.drivers.milestones import log_decision
from novasched.drivers.scope import target_cell
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Categories, Lazy, Objects
from novasched.scheduler.consumption import consume
from novasched.scheduler.hosts import (
    OWN,
    Column,
    Columns,
    HostState,
    HostTable,
    Snapshot,
)
from novasched.scheduler.pipeline import Profile, decide, descending, weigh

COMPUTE = 'compute'
CONSUMED = ('free_ram_mb', 'free_disk_mb', 'vcpus_used', 'num_instances', 'num_io_ops')
NAMES = [name for name, value in vars(Columns).items() if isinstance(value, Column)]


class ConsumableHost(HostState):
    """A host that a driver may let take an instance."""

    __slots__ = ('_origin',)

    def __init__(self, origin: HostTable, row: int) -> None:
        super().__init__(origin.snapshot, row)
        self._origin = origin

    def consume_from_request(self, spec_obj: RequestSpec) -> None:
        """Subtract what the instance takes. Raises errors.UnsetField."""
        after = consume(self.as_table(), self.row, spec_obj).state(0)
        for name in CONSUMED:
            self._set(name, getattr(after, name))
        if spec_obj.instance_group is not None:
            self._set('instances', after.instances)


class WeighedHost(NamedTuple):
    """A host and the sum of its weights."""

    obj: HostState
    weight: float


class HostManager:
    """Shows the hosts of the cluster view, filters and weighs them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def get_all_host_states(self, context: Any) -> Iterator[HostState]:
        """Return all nodes of the enabled cells, as they are now."""
        return _states(self._refreshed(None))

    def get_host_states_by_uuids(
        self, context: Any, compute_uuids: Iterable[str], spec_obj: RequestSpec
    ) -> Iterator[HostState]:
        """Return the nodes with these uuids, of the cell of the request if it has
        one, in the order of the uuids."""
        return _states(self._refreshed(compute_uuids, spec_obj))

    def refresh_cells_caches(self) -> None:
        """Look at the cells again. Raises errors.StoreFailed."""
        self._parts.view.check()

    def hosts_up(self, topic: str) -> list[str]:
        """Return the names of the hosts whose service is enabled and up.

        Only services of the topic ``compute`` are known.
        """
        if topic != COMPUTE:
            return []
        hosts = self._refreshed(None)
        usable = hosts[~hosts.service_disabled & hosts.service_up]
        return list(dict.fromkeys(usable.host.tolist()))

    def _refreshed(
        self, uuids: Iterable[str] | None, request: RequestSpec | None = None
    ) -> HostTable:
        view = self._parts.view
        view.refresh()
        wanted = None if uuids is None else {uuid: list[Any]() for uuid in uuids}
        return view.hosts(wanted, target_cell(view, request) if request else None)

    def get_filtered_hosts(
        self, hosts: Iterable[HostState], spec_obj: RequestSpec, index: int = 0
    ) -> list[HostState]:
        """Return the hosts that the request allows and every filter passes."""
        states = list(hosts)
        if not states:
            return []
        profile = Profile(self._parts.profile.filters, weighers=())
        decision = decide(profile, table_of(states), spec_obj, random.Random(0), index)
        log_decision(decision)
        self._parts.on_decision(decision)
        return list(_states(decision.weighed.hosts))

    def get_weighed_hosts(
        self, hosts: Iterable[HostState], spec_obj: RequestSpec
    ) -> list[WeighedHost]:
        """Return the hosts with their weights, the best one first."""
        states = list(hosts)
        if not states:
            return []
        totals = weigh(self._parts.profile.weighers, table_of(states), spec_obj).totals
        order = descending(totals).tolist()
        return [WeighedHost(states[place], float(totals[place])) for place in order]


def _states(hosts: HostTable) -> Iterator[HostState]:
    return (ConsumableHost(hosts, row) for row in hosts.rows.tolist())


def table_of(states: Sequence[HostState]) -> HostTable:
    """Return hosts as a table in their order, with what was set on them.

    They may come from several tables.
    """
    origins = [getattr(state, '_origin', state.as_table()) for state in states]
    if all(each.snapshot is origins[0].snapshot for each in origins):
        return origins[0].keep(states)
    tables = [state.as_table().keep([state]) for state in states]
    columns: dict[str, Any] = {name: _column(tables, name) for name in NAMES}
    columns['host'] = columns['host'].column()
    if any(vars(state) for state in states):
        columns[OWN] = _objects([vars(state) for state in states])
    return HostTable(Snapshot(columns))


def _column(tables: Sequence[HostTable], name: str) -> Lazy:
    """Return a column of tables of one host each, made when it is first read."""

    def make() -> Any:
        column = getattr(tables[0], name)
        values = [getattr(table, name).item(0) for table in tables]
        if isinstance(column, Categories):
            return Categories(values, np.arange(len(tables)))
        if isinstance(column, np.ndarray) and column.dtype != object:
            return np.array(values, column.dtype)
        return _objects(values)

    return Lazy(make)


def _objects(values: Sequence[Any]) -> Objects:
    made = np.empty(len(values), object)
    for place, value in enumerate(values):
        made[place] = value
    return made
