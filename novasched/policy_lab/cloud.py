# SPDX-License-Identifier: Apache-2.0
"""A cloud in memory: hosts and providers in arrays, which claims and deletes change.

It is what the manager sees as the view of the cells and as placement. Candidates come
from the engine of the copy of placement.
"""

from __future__ import annotations

import functools
import itertools
import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from novasched import errors
from novasched.cluster.aggregates import AggregateView
from novasched.cluster.snapshot import candidates_column, limits_column
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.placement.claimless import ClaimlessPlacement
from novasched.policy_lab.figures import HostLoad
from novasched.policy_lab.providers import of_rows, table_of
from novasched.policy_lab.results import FleetGroup
from novasched.ports import (
    Candidate,
    Candidates,
    Claimed,
    ClaimRequest,
    QueryFailed,
    UndoLeft,
)
from novasched.providers.by_root import CandidatesByRoot, TableSummaries
from novasched.providers.candidates import search
from novasched.providers.table import ProviderTable
from novasched.resources.query import VERSION, Query, decode
from novasched.scheduler.columns import Categories, Ints, Objects, Rows
from novasched.scheduler.fit.claim import book_on
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.requirements import FitRequirements, HostCapacity
from novasched.scheduler.fit.topology import CellLimits, HostCell, Pages
from novasched.scheduler.hosts import HostTable, taken
from novasched.scheduler.snapshot import Snapshot

BUILD_S = 60.0
"""How long a build counts in io-ops."""
MOST_OF_ROOT = 32
"""Candidates of a host, as with a copy of placement."""
MOST_VALUES = 4
"""NUMA topologies for each host that are kept before those not in use are dropped."""
CHANGING = ('free_ram_mb', 'free_disk_mb', 'vcpus_used', 'num_instances', 'num_io_ops')
"""Columns that instances change."""
NAMESPACE = uuid.UUID('5a7cf8b4-6d0f-4d0e-9c61-8d3f6a1f2a55')


class Placed(NamedTuple):
    """Host of an instance, and what it takes there and of providers."""

    row: int  # of its host
    columns: Sequence[tuple[str, int]]
    amounts: Sequence[tuple[str, int, int]]  # class, place in its inventory, amount
    cells: Sequence[tuple[HostCell, HostCell]] = ()  # NUMA cells before and with it


class LabCloud:
    """Hosts of a table and providers of a table; both begin as they are given."""

    def __init__(
        self, hosts: Snapshot, providers: ProviderTable, by_node: bool = False
    ) -> None:
        self._by_node = by_node  # each instance is in one NUMA node
        self._topologies = _Topologies(hosts.column('numa_topology'))
        self._hosts = hosts
        self._providers = providers
        self.columns: dict[str, Ints] = {
            name: hosts.column(name).copy() for name in CHANGING
        }
        self.used: dict[str, Ints] = {
            name: inventory.used.copy()
            for name, inventory in providers.inventories.items()
        }
        self._table: ProviderTable | None = None
        self._snapshot: Snapshot | None = None
        uuids = hosts.column('uuid').tolist()
        self.node_uuids = set(uuids)
        self.rows_by_node = {node: row for row, node in enumerate(uuids)}
        # the host of each provider; -1: it is no node
        self._host_rows = np.array(
            [self.rows_by_node.get(each, -1) for each in providers.uuids], np.intp
        )
        self._takes = functools.cache(_columns_of)
        self._vcpus = self._capacity('VCPU')
        self._ram_mb = self._capacity('MEMORY_MB')

    def copy(self) -> LabCloud:
        """Return an independent cloud in the same state."""
        return LabCloud(self.snapshot(), self.table(), self._by_node)

    def snapshot(self) -> Snapshot:
        """Return the hosts as they are now; it never changes."""
        if self._snapshot is None:
            now: dict[str, Any] = {n: each.copy() for n, each in self.columns.items()}
            now['numa_topology'] = self._topologies.column()
            self._snapshot = self._hosts.with_columns(now)
        return self._snapshot.for_new_request()

    def table(self) -> ProviderTable:
        """Return the providers as they are now; it never changes."""
        if self._table is None:
            now = {name: used.copy() for name, used in self.used.items()}
            self._table = self._providers.with_used(now)
        return self._table

    def candidates(self, query: Query) -> CandidatesByRoot:
        """Return the candidates of a query and of its fallback."""
        both = [query] if query.fallback is None else [query, query.fallback]
        table = self.table()
        searches = [search(each.without_bare_group(), table) for each in both]
        return CandidatesByRoot(searches, MOST_OF_ROOT)

    def hosts(self, candidates: Mapping[str, Any] | None) -> HostTable:
        """Return the hosts of candidates in their order, or all."""
        snapshot = self.snapshot()
        rows: Rows | None = None
        if isinstance(candidates, CandidatesByRoot):
            rows = self._host_rows[candidates.rows]
            rows = rows[rows >= 0]
        elif candidates is not None:
            known = self.rows_by_node
            rows = np.array([known[u] for u in candidates if u in known], np.intp)
        table = HostTable(snapshot, rows)
        return table.with_columns(
            allocation_candidates=candidates_column(table, candidates),
            limits=limits_column(table),
        )

    def load(self) -> HostLoad:
        """Return the capacity and the usage of the hosts, as they are now."""
        return HostLoad(
            self._vcpus,
            self._ram_mb,
            self._of_hosts('VCPU', self.used.get('VCPU')),
            self._of_hosts('MEMORY_MB', self.used.get('MEMORY_MB')),
            self.columns['num_instances'].copy(),
            self._topologies.free() if self._by_node else None,
        )

    def _capacity(self, name: str) -> Ints:
        inventory = self._providers.inventories.get(name)
        if inventory is None:
            return self._of_hosts(name, None)
        return self._of_hosts(name, np.minimum(inventory.room, inventory.capacity))

    def _of_hosts(self, name: str, amounts: Ints | None) -> Ints:
        """Return the amounts of an inventory by host."""
        found = np.zeros(len(self._hosts), np.int64)
        if amounts is None:
            return found
        rows = self._host_rows[self._providers.inventories[name].rows]
        found[rows[rows >= 0]] = amounts[rows >= 0]
        return found

    def slots(self, amounts: Mapping[str, int]) -> Ints:
        """Return how many instances that take such amounts each provider has room for,
        where no provider is below another one."""
        found = np.full(len(self._providers), np.iinfo(np.int64).max)
        for name, amount in amounts.items():
            inventory = self._providers.inventories[name]
            free = inventory.most_in_sum + inventory.used - self.used[name]
            often = np.zeros(len(found), np.int64)
            often[inventory.rows] = np.maximum(free, 0) // amount
            np.minimum(found, often, out=found)
        return found

    def place(
        self, row: int, request: RequestSpec, candidate: Candidate, fitting: Fitting
    ) -> Placed:
        """Let an instance take what a candidate has, and NUMA cells, on the host of a
        row."""
        rows, inventories = self._providers.rows_by_uuid, self._providers.inventories
        placed = Placed(
            row,
            self.takes(request),
            [
                (name, inventories[name].place(rows[provider]), amount)
                for provider, part in candidate['allocations'].items()
                for name, amount in part['resources'].items()
            ],
            self.book(row, request, fitting),
        )
        self.add(placed)
        return placed

    def book(
        self, row: int, request: RequestSpec, fitting: Fitting
    ) -> Sequence[tuple[HostCell, HostCell]]:
        """Book the NUMA cells of an instance; return those that changed."""
        requirements = FitRequirements.of(request, fitting)
        topology = self._topologies[row]
        if requirements.guest is None or not topology:
            return ()
        ratios = (
            self._hosts.column(f'{name}_allocation_ratio').item(row)
            for name in ('cpu', 'ram')
        )
        capacity = HostCapacity(topology, HostPools(None), CellLimits(*ratios))
        left, _, _ = book_on(capacity, replace(requirements, requests=()), None)
        self._topologies[row] = left.topology
        pairs = zip(topology.cells, left.topology.cells, strict=True)
        return [(before, after) for before, after in pairs if after is not before]

    def amounts_on(
        self, row: int, amounts: Mapping[str, int]
    ) -> list[tuple[str, int, int]]:
        """Return amounts of the provider that is the host of a row, as far as it has
        such classes."""
        provider = int(np.flatnonzero(self._host_rows == row)[0])
        places = {n: i.place(provider) for n, i in self._providers.inventories.items()}
        return [(n, places[n], a) for n, a in amounts.items() if places.get(n, -1) >= 0]

    def takes(self, request: RequestSpec) -> Sequence[tuple[str, int]]:
        """Return how the columns of a host change while an instance is there."""
        return self._takes(request.vcpus, request.memory_mb, _disk_gb(request))

    @property
    def changing(self) -> frozenset[str]:
        """The columns that instances change; without disk, its column stays."""
        has_disk = self._hosts.column('total_usable_disk_gb').any()
        changing = {*CHANGING, 'numa_topology'}
        return frozenset(changing if has_disk else changing - {'free_disk_mb'})

    def add(self, placed: Placed) -> None:
        """Let an instance take what it takes."""
        self._change(placed, 1)

    def remove(self, placed: Placed) -> None:
        """Give back what an instance took."""
        self._change(placed, -1)
        topology = self._topologies[placed.row]
        if placed.cells and topology:
            cells = {cell.id: cell for cell in topology.cells}
            for before, after in placed.cells:
                cells[after.id] = _given_back(cells[after.id], before, after)
            self._topologies[placed.row] = HostTopology.of(tuple(cells.values()))

    def count_builds(self, row: int, more: int) -> None:
        """Count builds on a host, or fewer."""
        self.columns['num_io_ops'][row] += more
        self._snapshot = None

    def _change(self, placed: Placed, sign: int) -> None:
        for name, more in placed.columns:
            self.columns[name][placed.row] += sign * more
        for name, place, amount in placed.amounts:
            self.used[name][place] += sign * amount
        self._table = self._snapshot = None


class _Topologies:
    """NUMA topologies of hosts by row; equal ones are one object."""

    def __init__(self, column: Categories[HostTopology | None]) -> None:
        self._codes = column.codes.copy()
        self._values = list(column.values)
        self._numbers = {value: code for code, value in enumerate(self._values)}

    def __getitem__(self, row: int) -> HostTopology | None:
        return self._values[self._codes.item(row)]

    def __setitem__(self, row: int, topology: HostTopology) -> None:
        if len(self._values) > MOST_VALUES * len(self._codes):
            used, self._codes = np.unique(self._codes, return_inverse=True)
            self._values = [self._values[code] for code in used.tolist()]
            self._numbers = {value: code for code, value in enumerate(self._values)}
        code = self._numbers.setdefault(topology, len(self._values))
        if code == len(self._values):
            self._values.append(topology)
        self._codes[row] = code

    def column(self) -> Categories[HostTopology | None]:
        """Return the topologies as they are now; the list of values may grow."""
        return Categories(self._values, self._codes.copy())

    def free(self) -> tuple[Ints, Ints]:
        """Return the free vCPUs and MiB of the nodes; shape (nodes, hosts)."""
        rows = [each.cells if each else () for each in self.column().tolist()]
        found: Ints = np.zeros((2, max(map(len, rows)), len(rows)), np.int64)
        for row, cells in enumerate(rows):
            for node, cell in enumerate(cells):
                vcpus = len(cell.cpuset) - cell.cpu_usage
                found[:, node, row] = vcpus, cell.free_memory
        return found[0], found[1]


def _given_back(cell: HostCell, before: HostCell, after: HostCell) -> HostCell:
    """Return a cell without what an instance took when it was added."""
    pages = zip(cell.mempages, before.mempages, after.mempages, strict=True)
    return replace(
        cell,
        cpu_usage=cell.cpu_usage - after.cpu_usage + before.cpu_usage,
        memory_usage=cell.memory_usage - after.memory_usage + before.memory_usage,
        pinned_cpus=cell.pinned_cpus - (after.pinned_cpus - before.pinned_cpus),
        mempages=tuple(
            now._replace(used=now.used - there.used + then.used)
            for now, then, there in pages
        ),
    )


def _disk_gb(request: RequestSpec) -> int:
    return request.root_gb + request.ephemeral_gb


def _columns_of(vcpus: int, ram_mb: int, disk_gb: int) -> Sequence[tuple[str, int]]:
    """Return how the columns of a host change for as long as an instance is there."""
    asked: Any = SimpleNamespace(
        memory_mb=ram_mb, vcpus=vcpus, root_gb=disk_gb, ephemeral_gb=0
    )
    return [(name, more) for name, more in taken(asked).items() if name != 'num_io_ops']


class LabView:
    """The view of the cells, as the manager and its driver ask it."""

    def __init__(self, cloud: LabCloud) -> None:
        self.cloud = cloud
        self.cells = SimpleNamespace(enabled=list, broken=set, get=lambda uuid: None)
        self.aggregates = AggregateView()
        known = cloud.snapshot().column('aggregates').values
        self.aggregates.update(itertools.chain.from_iterable(known))

    def hosts(self, candidates: Any, *where: Any) -> HostTable:
        return self.cloud.hosts(candidates)

    def node_uuids(self) -> Collection[str]:
        return self.cloud.node_uuids

    def refresh(self) -> float:
        """Return when the hosts were read: always now."""
        return math.inf

    known = refresh

    def changed(self, node_uuids: Collection[str], *seen: Any, **how: Any) -> set[str]:
        return set()

    def unavailable_cells(self, *asked: Any) -> tuple[str, ...]:
        return ()

    def minimum_compute_version(self) -> int:
        return 74

    def current_aggregates(self) -> list[Any]:
        return self.aggregates.all()

    def group_members(self, group_uuid: str) -> list[str]:
        return []

    def nodes_named(
        self, host: str | None, node: str | None, cell_uuid: str | None = None
    ) -> list[tuple[str, str, str]]:
        snapshot = self.cloud.snapshot()
        names = ('host', 'nodename', 'uuid')
        rows = zip(*(snapshot.column(n).tolist() for n in names), strict=True)
        return [
            row for row in rows if host in (None, row[0]) and node in (None, row[1])
        ]


class LabPlacement(ClaimlessPlacement):
    """Placement, which grants claims; ``held`` are the claims of the last request."""

    def __init__(self, cloud: LabCloud) -> None:
        nothing: Any = SimpleNamespace(
            answers=lambda: True, aggregates=lambda *asked: frozenset()
        )
        super().__init__(nothing)
        self.cloud = cloud
        self.held: dict[str, Candidate] = {}
        self._decode = functools.cache(decode)

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        try:
            found = self.cloud.candidates(self._decode(query))
        except errors.InvalidCandidateQuery as problem:
            return QueryFailed(400, str(problem))
        # ``further``: there are no others, as nothing else happens meanwhile
        summaries = TableSummaries(found.table)
        return Candidates(found, VERSION, summaries, further=True)

    def grant(self, wanted: ClaimRequest) -> Claimed:
        self.held[wanted.consumer_uuid] = wanted.candidate
        return super().grant(wanted)

    def undo(self, context: RequestContext, claims: Any, *how: Any, **more: Any) -> Any:
        for claim in claims:
            self.held.pop(claim.consumer_uuid, None)
        return UndoLeft()


# -- hosts that are all alike


def plain_cloud(groups: Sequence[FleetGroup]) -> LabCloud:
    """Return a cloud of empty hosts."""
    alike = list(itertools.chain.from_iterable([g] * g.count for g in groups))
    count = len(alike)
    vcpus = np.array([group.vcpus for group in alike], np.int64)
    ram_mb = np.array([group.ram_mb for group in alike], np.int64)
    disk_gb = np.array([group.disk_gb for group in alike], np.int64)
    names = objects([f'host-{number:05}' for number in range(count)])
    uuids = objects([str(uuid.uuid5(NAMESPACE, name)) for name in names])
    none = np.zeros(count, np.int64)
    columns: dict[str, Any] = {
        'host': names,
        'nodename': names,
        'hypervisor_hostname': names,
        'uuid': uuids,
        'cell_uuid': _same(str(NAMESPACE), count),
        'total_usable_ram_mb': ram_mb,
        'free_ram_mb': ram_mb,
        'total_usable_disk_gb': disk_gb,
        'disk_mb_used': none,
        'free_disk_mb': disk_gb * 1024,
        'vcpus_total': vcpus,
        'vcpus_used': none,
        'num_instances': none,
        'num_io_ops': none,
        'failed_builds': none,
        'recent_failed_builds': none,
        **{
            f'{name}_allocation_ratio': np.ones(count)
            for name in ('cpu', 'ram', 'disk')
        },
        'hypervisor_type': _same('QEMU', count),
        'hypervisor_version': np.full(count, 8002002.0),
        'cpu_info': _same(None, count),
        'supported_instances': _same([['x86_64', 'kvm', 'hvm']], count),
        'numa_topology': Categories(
            [_topology(group) for group in groups],
            np.repeat(np.arange(len(groups)), [group.count for group in groups]),
        ),
        'pci_stats': _same(HostPools(None), count),
        'metrics': _same(None, count),
        'aggregates': _same((), count),
        'public_flavors': _same((), count),
        'host_ip': objects([None] * count),
        'stats': objects([{} for _ in range(count)]),
        'service': objects([{'disabled': False} for _ in range(count)]),
        'updated': objects([None] * count),
        'instances': objects([{} for _ in range(count)]),
        'instance_images': objects([{} for _ in range(count)]),
        'service_disabled': np.zeros(count, bool),
        'is_source': np.zeros(count, bool),
        'service_up': np.ones(count, bool),
    }
    hosts = HostTable(Snapshot(columns))
    by_node = any(group.numa_nodes for group in groups)
    return LabCloud(hosts.snapshot, table_of(of_rows(hosts)), by_node)


def _topology(group: FleetGroup) -> HostTopology | None:
    """Return the NUMA nodes of an empty host, all alike; None if there are none."""
    if not group.numa_nodes:
        return None
    vcpus, ram_mb = group.vcpus // group.numa_nodes, group.ram_mb // group.numa_nodes
    cpus = [range(node * vcpus, (node + 1) * vcpus) for node in range(group.numa_nodes)]
    pages = (Pages(4, ram_mb * 256),)
    return HostTopology.of(
        tuple(
            HostCell(node, frozenset(of), frozenset(), ram_mb, mempages=pages)
            for node, of in enumerate(cpus)
        )
    )


def objects(values: Sequence[Any]) -> Objects:
    """Return a column of Python objects."""
    column: Objects = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _same(value: Any, count: int) -> Categories[Any]:
    return Categories([value], np.zeros(count, np.intp))
