# SPDX-License-Identifier: Apache-2.0
"""Placement diagnosis: which condition of a query keeps which host from being offered.

Placement itself answers with what fits, and says nothing of the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from novasched import errors
from novasched.providers.candidates import search
from novasched.providers.table import NO_ROWS, Inventory, ProviderTable
from novasched.resources.query import Group, Query
from novasched.scheduler.columns import Ints, Mask, Rows
from novasched.scheduler.reasons import Code

STATUS_DISABLED = 'COMPUTE_STATUS_DISABLED'

ORDER = (
    Code.NOT_IN_TREE,
    Code.AGGREGATE_MISSING,
    Code.AGGREGATE_FORBIDDEN,
    Code.DISABLED,
    Code.TRAIT_MISSING,
    Code.TRAIT_FORBIDDEN,
    Code.CLASS_MISSING,
    Code.AMOUNT_NOT_ALLOWED,
    Code.EXHAUSTED,
    Code.NOT_TOGETHER,
)
"""The first of these that a host fails counts as the reason.

Conditions on hosts that were not asked for come first: to enable a host of another zone
is no help.
"""


MOST_NAMES = 3
"""Aggregates that are named."""


class Condition(NamedTuple):
    """One condition of a query: ``what`` is a class, a trait, or aggregate uuids."""

    code: Code
    what: str = ''
    amount: int = 0

    def __str__(self) -> str:
        """The condition in words."""
        return {
            Code.DISABLED: 'enabled compute service',
            Code.NOT_IN_TREE: f'provider tree {self.what}',
            Code.AGGREGATE_MISSING: f'in aggregate {self.what}',
            Code.AGGREGATE_FORBIDDEN: f'not in aggregate {self.what}',
            Code.TRAIT_MISSING: f'trait {self.what}',
            Code.TRAIT_FORBIDDEN: f'no trait {self.what}',
            Code.CLASS_MISSING: f'inventory of {self.what}',
            Code.AMOUNT_NOT_ALLOWED: f'{self.amount} {self.what} in one piece',
            Code.EXHAUSTED: f'{self.amount} free {self.what}',
            Code.NOT_TOGETHER: 'all of them at the same providers',
        }[self.code]


@dataclass(frozen=True)
class Judgement:
    """Which rows of a table meet which condition; they count for roots only."""

    met: Mapping[Condition, Mask]
    offered: Mask  # roots that have candidates
    # by condition of code EXHAUSTED, what one provider of the tree has free; of code
    # AMOUNT_NOT_ALLOWED, the most that one gives in one piece
    largest: Mapping[Condition, Ints]


def judge(query: Query, table: ProviderTable) -> Judgement:
    """Judge every tree by every condition of a query; ``limit`` does not count.

    A group that one provider must serve is judged condition by condition, each among
    the providers that meet those before it, where there are any.
    """
    query = query.without_bare_group()
    judging = _Judging(query, table)
    judging.judge()
    found, largest = judging.met, judging.largest
    other = None if query.fallback is None else judge(query.fallback, table)
    if other is not None:
        found, largest = _with_fallback(found, largest, other)
    met = {each: found[each] for each in sorted(found, key=_place)}
    all_met: Mask = np.logical_and.reduce([np.ones(len(table), bool), *met.values()])
    offered = _offered(query, table, all_met)
    if other is not None:
        offered |= other.offered
    met[Condition(Code.NOT_TOGETHER)] = offered | ~all_met
    return Judgement(met, offered, largest)


def _with_fallback(
    met: Mapping[Condition, Mask], largest: Mapping[Condition, Ints], other: Judgement
) -> tuple[dict[Condition, Mask], dict[Condition, Ints]]:
    """Judge by the fallback the rows that have nothing of a class which it does not
    ask for: of dedicated CPUs."""
    missing = [
        ~mask
        for condition, mask in met.items()
        if condition.code is Code.CLASS_MISSING and condition not in other.met
    ]
    by_other: Mask = np.logical_or.reduce([~np.ones_like(other.offered), *missing])
    every, none = np.ones_like(by_other), np.zeros(len(by_other), np.int64)
    conditions = {**met, **other.met}
    conditions.pop(Condition(Code.NOT_TOGETHER), None)
    return (
        {
            each: np.where(by_other, other.met.get(each, every), met.get(each, every))
            for each in conditions
        },
        {
            each: np.where(
                by_other, other.largest.get(each, none), largest.get(each, none)
            )
            for each in {**largest, **other.largest}
        },
    )


def conditions(
    query: Query, table: ProviderTable, uuids: Sequence[str]
) -> dict[str, Mask]:
    """Return which compute nodes meet each condition of a query, by its words.

    The masks have the order of ``uuids``. A node that the table does not have lacks a
    resource provider, and nothing else. A condition that all nodes meet is left out.
    """
    judgement = judge(query, table)
    rows = np.array([table.rows_by_uuid.get(uuid, -1) for uuid in uuids], np.intp)
    known = rows >= 0
    roots = table.roots[rows[known]]
    found = {} if known.all() else {'resource provider': known}
    for condition, met in judgement.met.items():
        mask = np.ones(len(rows), bool)
        mask[known] = met[roots]
        if not mask.all():
            found[str(condition)] = mask
    return found


def diagnose(
    query: Query,
    table: ProviderTable,
    hosts: Mapping[str, str],
    age_s: float = 0.0,
    source: str = 'mirror',
    aggregates: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Count for each condition of a query the hosts that fail it first.

    ``hosts`` has names by uuid of compute node. The counts and ``offered`` add up to
    ``hosts``; ``only`` counts hosts that meet all other conditions. ``largest`` is the
    most that a failed host gives of the ``wanted`` amount. The example is the host
    nearest to being offered.
    """
    roots, places = _roots(table, hosts)
    names = list(hosts.values())
    judgement = judge(query, table)
    left = ~judgement.offered[roots]
    by_reason: dict[tuple[Code, str], Mask] = {}
    largest: dict[tuple[Code, str], Ints] = {}
    wanted: dict[tuple[Code, str], int] = {}
    for condition, met in judgement.met.items():
        key, fails = condition[:2], ~met[roots] & left
        by_reason[key] = by_reason.get(key, np.zeros(len(roots), bool)) | fails
        if condition in judgement.largest and condition.amount > wanted.get(key, 0):
            largest[key] = judgement.largest[condition][roots]
            wanted[key] = condition.amount
    failures = np.sum([*by_reason.values()], axis=0, dtype=np.int64)
    reasons = []
    for key, fails in by_reason.items():
        struck = fails & left
        left = left & ~fails
        if not struck.any():
            continue
        only = fails & (failures == 1)
        has = largest.get(key, np.zeros(len(roots), np.int64))
        nearest = np.lexsort((-has, ~only, ~struck)).item(0)
        reasons.append(
            {
                'code': str(key[0]),
                'what': key[1],
                'named': _named(key, aggregates),
                'hosts': int(struck.sum()),
                'only': int(only.sum()),
                'wanted': wanted.get(key),
                'largest': int(has[struck].max()) if key in largest else None,
                'example': names[places.item(nearest)],
            }
        )
    return {
        'age_s': round(age_s, 1),
        'source': source,
        'hosts': len(roots),
        'offered': int(judgement.offered[roots].sum()),
        'reasons': sorted(reasons, key=lambda each: -int(str(each['hosts']))),
    }


def _named(key: tuple[Code, str], aggregates: Mapping[str, str]) -> str:
    """Return the names of the aggregates of a condition, some of many; '' if it is of
    another kind, or none is known."""
    if key[0] not in (Code.AGGREGATE_MISSING, Code.AGGREGATE_FORBIDDEN):
        return ''
    uuids = key[1].split(',')
    known = sorted(aggregates[uuid] for uuid in uuids if uuid in aggregates)
    shown = known[:MOST_NAMES]
    more = len(uuids) - len(shown)
    if more and shown:
        return f'{", ".join(shown)} or {more} other{"s" * (more > 1)}'
    return ' or '.join(filter(None, [', '.join(shown[:-1]), *shown[-1:]]))


def _roots(table: ProviderTable, hosts: Mapping[str, str]) -> tuple[Rows, Rows]:
    """Return the roots of the trees that have a compute node, and the place of the
    first host of each."""
    rows = np.array([table.rows_by_uuid.get(uuid, -1) for uuid in hosts], np.intp)
    known = np.flatnonzero(rows >= 0)
    roots, first = np.unique(table.roots[rows[known]], return_index=True)
    return roots, known[first]


def _place(condition: Condition) -> int:
    return ORDER.index(condition.code)


def _offered(query: Query, table: ProviderTable, among: Mask) -> Mask:
    """Return which of some rows are roots that have a candidate."""
    found = np.zeros(len(table), bool)
    with contextlib.suppress(errors.InvalidCandidateQuery):
        searched = search(_forbidding_known(query, table), table)
        found[searched.anchors_among(among)] = True
    return found


def _forbidding_known(query: Query, table: ProviderTable) -> Query:
    """Leave out forbidden traits that no provider has, and the table does not know."""
    known = table.traits.keys()
    groups = tuple(
        replace(group, forbidden=group.forbidden & known) for group in query.groups
    )
    forbidden = query.root_forbidden & known
    return replace(query, groups=groups, root_forbidden=forbidden)


class _ServingPairs:
    """Pairs of a root and a provider that may serve it; narrowed step by step."""

    def __init__(self, table: ProviderTable, anchors: Rows, rows: Rows) -> None:
        self._size = len(table)
        self.anchors = anchors
        self.rows = rows

    def keep(self, good: Mask) -> Mask:
        """Keep the good pairs of the roots that have any; return which have."""
        met = np.zeros(self._size, bool)
        met[self.anchors[good]] = True
        if not good.all():
            kept = good | ~met[self.anchors]
            self.anchors, self.rows = self.anchors[kept], self.rows[kept]
        return met

    def best(self, amounts: Ints) -> Ints:
        """Return the largest of some amounts of the pairs, of each root."""
        found = np.zeros(self._size, np.int64)
        np.maximum.at(found, self.anchors, amounts)
        return found


class _Judging:
    """Judges the trees of a table by the conditions of one query."""

    def __init__(self, query: Query, table: ProviderTable) -> None:
        self._query = query
        self._table = table
        self.met: dict[Condition, Mask] = {}
        self.largest: dict[Condition, Ints] = {}

    def judge(self) -> None:
        """Fill ``met`` and ``largest``."""
        every = np.arange(len(self._table))
        self._traits_of_roots(_ServingPairs(self._table, every, every))
        pools: list[tuple[Group, _ServingPairs]] = []
        for group in self._query.groups:
            of_group = list(self._pools(group, every))
            pools += [(replace(group, resources=part), pool) for part, pool in of_group]
            for part, pool in of_group:
                self._judge_pool(group, part, pool)
            if not group.suffix:
                self._joined_traits(group, [pool for _, pool in of_group])
        for part_of_group, pool in pools:
            self._resources(part_of_group.resources, pool)
        self._sums()

    def _set(self, condition: Condition, met: Mask) -> None:
        before = self.met.get(condition)
        self.met[condition] = met if before is None else before & met

    def _pools(
        self, group: Group, every: Rows
    ) -> Iterator[tuple[Mapping[str, int], _ServingPairs]]:
        """Yield what is to be served by one provider each, and which may serve it."""
        if group.suffix:
            yield (
                group.resources,
                _ServingPairs(self._table, *self._table.pairs(every, every)),
            )
            return
        for name, amount in group.resources.items():
            inventory = self._table.inventories.get(name)
            rows = NO_ROWS if inventory is None else inventory.rows
            anchors, rows = self._table.pairs(rows, rows)
            is_left = self._table.parents < 0
            is_left[anchors] = False
            without = np.flatnonzero(is_left)
            anchors = np.concatenate([anchors, without])
            rows = np.concatenate([rows, without])
            yield {name: amount}, _ServingPairs(self._table, anchors, rows)

    def _traits_of_roots(self, pool: _ServingPairs) -> None:
        query, table = self._query, self._table
        for name in sorted(query.root_forbidden):
            self._set(_forbids(name), ~_having(table, {name}, pool.rows))
        for name in sorted(query.root_required):
            met = _having(table, {name}, pool.rows)
            self._set(Condition(Code.TRAIT_MISSING, name), met)

    def _judge_pool(
        self, group: Group, part: Mapping[str, int], pool: _ServingPairs
    ) -> None:
        """Judge where the providers are, and which traits they have themselves."""
        table = self._table
        if group.in_tree is not None and part:
            row = table.rows_by_uuid.get(group.in_tree)
            tree = -1 if row is None else table.roots.item(row)
            good = table.roots[pool.rows] == tree
            if not group.suffix:
                good &= pool.anchors == tree
            self._set(Condition(Code.NOT_IN_TREE, group.in_tree), pool.keep(good))
        for uuids in group.member_of:
            members = table.in_any(uuids)
            good = members[pool.rows]
            if not group.suffix:
                own = table.roots[pool.rows] == pool.anchors
                good |= members[pool.anchors] & own
            what = ','.join(sorted(uuids))
            self._set(Condition(Code.AGGREGATE_MISSING, what), pool.keep(good))
        if group.not_member_of:
            outside = ~table.in_any(group.not_member_of)
            good = outside[pool.rows]
            if not group.suffix:
                good &= outside[pool.anchors]
            what = ','.join(sorted(group.not_member_of))
            self._set(Condition(Code.AGGREGATE_FORBIDDEN, what), pool.keep(good))
        for names in _alternatives(group) if group.suffix else ():
            good = _having(table, names, pool.rows)
            self._set(_requires(names), pool.keep(good))
        for name in sorted(group.forbidden):
            good = ~_having(table, {name}, pool.rows)
            self._set(_forbids(name), pool.keep(good))

    def _joined_traits(self, group: Group, pools: Sequence[_ServingPairs]) -> None:
        """Judge traits that any of the providers of the unsuffixed group may have."""
        for names in _alternatives(group):
            met = np.zeros(len(self._table), bool)
            for pool in pools:
                met[pool.anchors[_having(self._table, names, pool.rows)]] = True
            self._set(_requires(names), met)

    def _resources(self, resources: Mapping[str, int], pool: _ServingPairs) -> None:
        """Judge what the providers of a pool have, and have left."""
        for name in resources:
            inventory = self._table.inventories.get(name)
            has = np.zeros(len(self._table), bool)
            if inventory is not None:
                has[inventory.rows] = True
            self._set(Condition(Code.CLASS_MISSING, name), pool.keep(has[pool.rows]))
        for code in (Code.AMOUNT_NOT_ALLOWED, Code.EXHAUSTED):
            for name, amount in resources.items():
                if name in self._table.inventories:
                    self._amount(Condition(code, name, amount), pool)

    def _amount(self, condition: Condition, pool: _ServingPairs) -> None:
        """Judge whether a provider gives an amount in one piece, or has it left."""
        inventory = self._table.inventories[condition.what]
        places, there = _places(inventory, pool.rows)
        allows = _allows(inventory, condition.amount)[places]
        if condition.code is Code.EXHAUSTED:
            most = np.where(there, inventory.most[places], 0)
            good = ~there | ~allows | (most >= condition.amount)
        else:
            most = np.where(there, inventory.max_unit[places], 0)
            good = ~there | allows
        self.largest[condition] = pool.best(most)
        self._set(condition, pool.keep(good))

    def _sums(self) -> None:
        """Judge what several groups take of one class, all together."""
        asked: dict[str, list[int]] = {}
        for group in self._query.groups:
            for name, amount in group.resources.items():
                asked.setdefault(name, []).append(amount)
        for name, amounts in asked.items():
            inventory = self._table.inventories.get(name)
            if len(amounts) < 2 or inventory is None:
                continue
            anchors, rows = self._table.pairs(inventory.rows, inventory.rows)
            places, _ = _places(inventory, rows)
            left = np.maximum(inventory.most_in_sum[places], 0)
            sums = np.zeros(len(self._table), np.int64)
            np.add.at(sums, anchors, left)
            condition = Condition(Code.EXHAUSTED, name, sum(amounts))
            self.largest[condition] = sums
            has = np.zeros(len(self._table), bool)
            has[anchors] = True
            self._set(condition, ~has | (sums >= sum(amounts)))


def _alternatives(group: Group) -> Iterable[frozenset[str]]:
    """Return the required traits: one of each set."""
    return [
        *(frozenset([name]) for name in sorted(group.required)),
        *group.required_any,
    ]


def _requires(names: frozenset[str]) -> Condition:
    return Condition(Code.TRAIT_MISSING, ','.join(sorted(names)))


def _forbids(name: str) -> Condition:
    if name == STATUS_DISABLED:
        return Condition(Code.DISABLED)
    return Condition(Code.TRAIT_FORBIDDEN, name)


def _having(table: ProviderTable, names: Iterable[str], rows: Rows) -> Mask:
    """Return which rows have one of the traits; no row has one that is not known."""
    return table.having_any(table.traits.keys() & set(names), rows)


def _allows(inventory: Inventory, amount: int) -> Mask:
    """Return which providers give an amount in one piece, however much is free."""
    allowed: Mask = (
        (inventory.max_unit >= amount)
        & (inventory.min_unit <= amount)
        & (amount % inventory.step_size == 0)
    )
    return allowed


def _places(inventory: Inventory, rows: Rows) -> tuple[Rows, Mask]:
    """Return where rows of the table are in an inventory, and which of them are."""
    places = np.searchsorted(inventory.rows, rows)
    places[places == len(inventory.rows)] = 0
    return places, inventory.rows[places] == rows
