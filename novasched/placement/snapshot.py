# SPDX-License-Identifier: Apache-2.0
"""Placement snapshot: what placement knows of all providers, where no copy is kept.

It is read by one query for candidates, whose summaries have the whole trees, or from
placement's database; seldom enough to cost placement next to nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from keystoneauth1.adapter import Adapter

from novasched.clock import Clock
from novasched.placement.providers import NotFound, ProvidersApi, Throttle, Trees
from novasched.ports import ProviderDatabase
from novasched.providers.contents import NOTHING, Contents, build, by_provider
from novasched.providers.table import SHARES, ProviderTable
from novasched.scheduler.columns import Floats, Ints
from novasched.scheduler.hosts import HostTable

MEMORY = 'MEMORY_MB'
CLASSES = (MEMORY, 'VCPU', 'PCPU', 'DISK_GB')
"""Every compute has memory, so that one query for it shows all trees, but for those
whose memory is used up: the others are for them."""

NOTHING_SAID = {
    'inventories': NOTHING.inventories,
    'usages': NOTHING.usage,
    'traits': NOTHING.traits,
    'aggregates': NOTHING.aggregates,
}
"""What the API tells of providers, by the end of the path."""


class NodeSize(NamedTuple):
    """What a compute node reports of itself: the largest amounts that one server may
    have, which placement's summaries do not show, and whether memory is free."""

    vcpus: int
    memory_mb: int
    local_gb: int
    has_memory: bool

    def max_units(self) -> dict[str, int]:
        """Return the largest amount by resource class."""
        return {'VCPU': self.vcpus, MEMORY: self.memory_mb, 'DISK_GB': self.local_gb}


def node_sizes(hosts: HostTable) -> dict[str, NodeSize]:
    """Return the sizes of the nodes of a table, by uuid."""
    free_mb = hosts.free_ram_mb + hosts.total_usable_ram_mb * (
        np.nan_to_num(hosts.ram_allocation_ratio, nan=1.0) - 1.0
    )
    columns = (
        hosts.uuid.tolist(),
        hosts.vcpus_total.tolist(),
        hosts.total_usable_ram_mb.tolist(),
        hosts.total_usable_disk_gb.tolist(),
        (free_mb >= 1).tolist(),
    )
    return {uuid: NodeSize(*size) for uuid, *size in zip(*columns, strict=True) if uuid}


@dataclass(frozen=True)
class PlacementSnapshot:
    """What was read of placement at ``as_of``, seconds since 1970, within ``took_s``.

    ``members`` are the aggregates whose members are known; None: all. ``missing`` is
    the number of compute nodes with free memory that placement did not show: its
    answer was cut, or it is out of step with the computes.
    """

    contents: Contents
    as_of: float
    took_s: float
    members: frozenset[str] | None = None
    missing: int = 0

    @cached_property
    def table(self) -> ProviderTable:
        """The providers in columns."""
        return build(self.contents)

    @property
    def source(self) -> str:
        """The place that it was read from."""
        return 'database' if self.members is None else 'api'

    def knows(self, aggregates: Iterable[str]) -> bool:
        """Return whether the members of all these aggregates are known."""
        return self.members is None or self.members.issuperset(aggregates)


class InventoryState(NamedTuple):
    """One inventory as placement has it now."""

    total: int
    reserved: int
    ratio: float
    max_unit: int
    used: int

    @property
    def capacity(self) -> int:
        """What may be used, before anything is."""
        return int((self.total - self.reserved) * self.ratio)


class ProviderState(NamedTuple):
    """One provider as placement has it now."""

    uuid: str
    parent: str | None
    inventories: Mapping[str, InventoryState]
    traits: Sequence[str]
    aggregates: Sequence[str]


class SnapshotSource(Protocol):
    """Reads placement. Raises errors.StoreFailed."""

    def read(
        self, sizes: Mapping[str, NodeSize], aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        """Return a new snapshot; ``sizes`` are those of all compute nodes by uuid."""

    def with_members(
        self, snapshot: PlacementSnapshot, aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        """Return a snapshot that knows the members of these aggregates, too."""

    def tree(self, root: str) -> list[ProviderState]:
        """Return the providers of one tree as they are now, the root first; []: there
        is no such provider."""


def tree_of(contents: Contents, root: str) -> list[ProviderState]:
    """Return the providers of the tree of a root, which comes first."""
    table = build(contents)
    if (first := table.rows_by_uuid.get(root)) is None:
        return []
    used = {(id_, class_): n for id_, class_, n in contents.usage.tolist()}
    found = []
    for row in range(first, int(table.ends[first])):
        id_, parent = int(table.ids[row]), int(table.parents[row])
        inventories = {
            contents.class_names[int(each[1])]: InventoryState(
                total=int(each[2]),
                reserved=int(each[3]),
                ratio=float(each[7]),
                max_unit=int(each[5]),
                used=int(used.get((id_, int(each[1])), 0)),
            )
            for each in contents.inventories[contents.inventories[:, 0] == id_]
            if int(each[1]) in contents.class_names
        }
        traits = contents.traits[contents.traits[:, 0] == id_, 1].tolist()
        found.append(
            ProviderState(
                table.uuids[row],
                None if row == first else table.uuids[parent],
                inventories,
                sorted(contents.trait_names[each] for each in traits),
                sorted(uuid for uuid, rows in table.members.items() if row in rows),
            )
        )
    return found


class DatabaseSource:
    """Reads placement's database: exact, and quick."""

    def __init__(self, store: ProviderDatabase, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tree(self, root: str) -> list[ProviderState]:
        return tree_of(self._store.read_tree(root), root)

    def read(
        self, sizes: Mapping[str, NodeSize], aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        as_of, began_at = self._clock.time(), self._clock.monotonic()
        contents = self._store.read()
        return PlacementSnapshot(contents, as_of, self._clock.monotonic() - began_at)

    def with_members(
        self, snapshot: PlacementSnapshot, aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        return snapshot


class ApiSource:
    """Reads placement's API: one query for all trees, and one for each aggregate.

    Smallest amounts and steps are not seen there; they count as 1. The largest amount
    is what the compute node reports, and the capacity for all other providers.
    """

    def __init__(self, adapter: Adapter, clock: Clock) -> None:
        self._clock = clock
        self._adapter = adapter
        self._throttle = Throttle(1.0, clock, threading.Event())

    def _make_api(self) -> ProvidersApi:
        return ProvidersApi(self._adapter, self._throttle)

    def read(
        self, sizes: Mapping[str, NodeSize], aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        as_of, began_at = self._clock.time(), self._clock.monotonic()
        api = self._make_api()
        classes, traits = api.class_ids(), api.trait_ids()
        trees, absent = _trees(api, sizes)
        sharing, limits = _sharing(api, trees.providers[:, 0])
        trees = _with(trees, sharing)
        contents = Contents(
            providers=trees.providers[np.argsort(trees.providers[:, 0])],
            inventories=_inventories(api, trees.capacities, sizes, limits),
            usage=trees.usage[trees.usage[:, 2] > 0],
            traits=by_provider(trees.traits),
            aggregates=np.zeros((0, 2), np.int64),
            uuids=api.uuids.named(trees.providers[:, 0]),
            class_names=api.classes.named([*classes, *trees.capacities[:, 1]]),
            trait_names=api.traits.named([*traits, *trees.traits[:, 1]]),
            aggregate_uuids={},
        )
        snapshot = PlacementSnapshot(
            contents,
            as_of,
            0.0,
            frozenset(),
            sum(size.has_memory for size in absent),
        )
        shared = frozenset(api.aggregates.names.values())
        snapshot = self.with_members(snapshot, shared.union(aggregates))
        return replace(snapshot, took_s=self._clock.monotonic() - began_at)

    def tree(self, root: str) -> list[ProviderState]:
        api = self._make_api()
        providers = api.providers(f'?in_tree={root}')
        said = {
            table: np.concatenate(
                [NOTHING_SAID[table]]
                + [api.of(id_, table).rows for id_ in providers[:, 0].tolist()]
            )
            for table in NOTHING_SAID
        }
        contents = Contents(
            providers=providers[np.argsort(providers[:, 0])],
            inventories=said['inventories'],
            usage=said['usages'],
            traits=said['traits'],
            aggregates=said['aggregates'],
            uuids=dict(api.uuids.names),
            class_names=dict(api.classes.names),
            trait_names=dict(api.traits.names),
            aggregate_uuids=dict(api.aggregates.names),
        )
        return tree_of(contents, root)

    def with_members(
        self, snapshot: PlacementSnapshot, aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        known = snapshot.members
        wanted = sorted(set(aggregates) - (known or set()))
        if known is None or not wanted:
            return snapshot
        contents, api = snapshot.contents, self._make_api()
        ids = {uuid: id_ for id_, uuid in contents.uuids.items()}
        rows, names = [contents.aggregates], dict(contents.aggregate_uuids)
        for number, uuid in enumerate(wanted, len(names) + 1):
            names[number] = uuid
            listed = api.providers(f'?member_of={uuid}')[:, 0].tolist()
            members = (ids.get(api.uuids.names[each]) for each in listed)
            pairs = [(id_, number) for id_ in members if id_ is not None]
            rows.append(np.array(pairs, np.int64).reshape(-1, 2))
        contents = replace(
            contents, aggregates=np.concatenate(rows), aggregate_uuids=names
        )
        return replace(snapshot, contents=contents, members=known.union(wanted))


def _with(trees: Trees, more: Trees) -> Trees:
    """Return the rows of both."""
    return Trees(*map(np.concatenate, zip(trees, more, strict=True)))


def _trees(
    api: ProvidersApi, sizes: Mapping[str, NodeSize]
) -> tuple[Trees, list[NodeSize]]:
    """Return all trees where anything is free, and the nodes that are in none.

    Further queries are only for nodes that say that their memory is used up.
    """
    found = Trees(*(np.zeros((0, width), np.int64) for width in (4, 3, 3, 2)))
    absent = list(sizes.values())
    for name in CLASSES:
        more = api.trees(name)
        known = found.providers[:, 0]
        found = _with(
            found, Trees(*(rows[~np.isin(rows[:, 0], known)] for rows in more))
        )
        shown = set(api.uuids.named(found.providers[:, 0]).values())
        absent = [size for uuid, size in sizes.items() if uuid not in shown]
        if all(size.has_memory for size in absent):
            break
    return found, absent


def _sharing(api: ProvidersApi, shown: Ints) -> tuple[Trees, Floats]:
    """Return the providers that share with the trees of their aggregates, and their
    inventories: they are in no tree of a compute."""
    parts = [Trees(*(np.zeros((0, width), np.int64) for width in (4, 3, 3, 2)))]
    limits = [np.zeros((0, 9))]
    listed = api.providers(f'?required={SHARES}')
    for row in listed[~np.isin(listed[:, 0], shown)]:
        id_ = int(row[0])
        try:
            said = {
                table: api.of(id_, table).rows
                for table in ('inventories', 'usages', 'traits', 'aggregates')
            }
        except NotFound:
            continue
        # A tree that was not shown may have a part that shares: it stands alone here.
        alone = np.array([[id_, 0, id_, 0]])
        capacities = said['inventories'][:, [0, 1, 2]].astype(np.int64)
        parts.append(Trees(alone, capacities, said['usages'], said['traits']))
        limits.append(said['inventories'])
    for row in listed[np.isin(listed[:, 0], shown)]:
        api.of(int(row[0]), 'aggregates')
    joined = parts[0]
    for part in parts[1:]:
        joined = _with(joined, part)
    return joined, np.concatenate(limits)


def _inventories(
    api: ProvidersApi, capacities: Ints, sizes: Mapping[str, NodeSize], known: Floats
) -> Floats:
    """Return inventories of these capacities; those that are known stay as they are.

    Shape (rows, 9), as in Contents.
    """
    capacities = capacities[~np.isin(capacities[:, 0], known[:, 0])]
    units = {uuid: size.max_units() for uuid, size in sizes.items()}
    most = [
        units.get(api.uuids.names[id_], {}).get(api.classes.names[number], capacity)
        for id_, number, capacity in capacities.tolist()
    ]
    one, none = np.ones(len(most)), np.zeros(len(most))
    columns = [*capacities.T, none, one, np.array(most), one, one, one]
    return np.concatenate([np.stack(columns, axis=1), known]).astype(np.float64)
