# SPDX-License-Identifier: Apache-2.0
"""Rows of placement's database about providers, and the table made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np

from novasched import errors
from novasched.providers.rows import (
    has_same_rows,
    of_both,
    of_providers,
    renewed,
    unpaired,
    with_more,
)
from novasched.providers.table import (
    NO_ROWS,
    WORD,
    Inventory,
    ProviderTable,
    TraitBits,
)
from novasched.scheduler.columns import Floats, Ints, Mask, Rows

A = TypeVar('A', Ints, Floats)

MAX_DEPTH = 64
"""Providers one below the other; more are a circle."""

MOST = 2**48
"""A number of an inventory beyond it counts as this much: far more than any amount, and
sums of some are numbers of 64 bits."""

NO_BITS: TraitBits = np.zeros((0, 1), np.uint32)


TABLES = {
    'inventories': 'inventories',
    'usage': 'allocations',
    'traits': 'resource_provider_traits',
    'aggregates': 'resource_provider_aggregates',
}
"""The tables of placement, by the fields of Contents."""


@dataclass(frozen=True)
class Contents:
    """What the tables of placement say, by their ids; shapes (rows, columns)."""

    # id, generation, root id or 0, parent id or 0; ascending
    providers: Ints
    # provider, class, total, reserved, min_unit, max_unit, step_size, ratio as clients
    # read it, ratio as the database computes with it; by provider
    inventories: Floats
    usage: Ints  # provider, class, sum of all allocations
    traits: Ints  # provider, trait; by provider
    aggregates: Ints  # provider, aggregate
    uuids: Mapping[int, str]
    class_names: Mapping[int, str]
    trait_names: Mapping[int, str]
    aggregate_uuids: Mapping[int, str]
    # aggregates all of whose members are known; None if all are
    members: frozenset[str] | None = None
    # providers of which only capacities of inventories are known, if anything
    guessed: frozenset[int] = frozenset()
    # provider, a second of placement's clock: writes that it does not show are not
    # before it; no row if unknown
    read_at: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    def knows(self, aggregates: Iterable[str]) -> bool:
        """Return whether the members of all these aggregates are known."""
        return self.members is None or self.members.issuperset(aggregates)

    def changed(self, providers: Ints, recheck: Collection[int] = ()) -> Ints:
        """Return the ids among rows of providers that are new, have another generation,
        or are to be read again: ``recheck``."""
        if not len(self.providers):
            return providers[:, 0]
        at = np.searchsorted(self.providers[:, 0], providers[:, 0])
        at = np.minimum(at, len(self.providers) - 1)
        same = (self.providers[at, :2] == providers[:, :2]).all(axis=1)
        same &= ~np.isin(providers[:, 0], list(recheck))
        ids: Ints = providers[~same, 0]
        return ids

    def has_regressed(self, providers: Ints) -> bool:
        """Whether a generation among rows of providers is lower than it was: the
        database is another one, or was set back."""
        at, here = of_both(self.providers, providers)
        return bool((providers[here, 1] < self.providers[at, 1]).any())

    def missed(self, later: Contents) -> int:
        """Return how many providers have the same generation in ``later`` contents,
        read as a whole, and yet other inventories or traits."""
        mine, theirs = self.providers, later.providers
        at, here = of_both(mine, theirs)
        same = mine[at, 1] == theirs[here, 1]
        differing = [
            unpaired(self.inventories, later.inventories).astype(np.int64),
            unpaired(self.traits, later.traits),
        ]
        found = np.intersect1d(mine[at[same], 0], np.concatenate(differing))
        return len(found)

    def trees(self, roots: Collection[int]) -> Contents:
        """Return the rows of the trees of some roots, without what is used."""
        providers = self.providers[np.isin(self.providers[:, 2], list(roots))]
        ids = providers[:, 0]
        return replace(
            self,
            providers=providers,
            inventories=of_providers(self.inventories, ids),
            usage=NOTHING.usage,
            traits=of_providers(self.traits, ids),
            aggregates=self.aggregates[np.isin(self.aggregates[:, 0], ids)],
            read_at=of_providers(self.read_at, ids),
            uuids={id_: self.uuids[id_] for id_ in ids.tolist()},
        )

    def says_the_same(self, other: Contents) -> bool:
        """Return whether other contents say the same of the same trees, whatever their
        generations and their usage are."""
        places = [0, 2, 3]
        return (
            self.uuids == other.uuids
            and has_same_rows(self.providers[:, places], other.providers[:, places])
            and has_same_rows(self.inventories, other.inventories)
            and has_same_rows(self.traits, other.traits)
            and has_same_rows(self.aggregates, other.aggregates)
        )

    def like(self, before: Contents) -> Contents:
        """Return the same contents, with each part of ``before`` that says the same,
        in any order; ``before`` itself, if all do, whenever they were read."""
        same = {}
        names = [each.name for each in fields(Contents) if each.name != 'read_at']
        for name in names:
            mine, other = getattr(self, name), getattr(before, name)
            is_table = isinstance(mine, np.ndarray)
            if has_same_rows(mine, other) if is_table else mine == other:
                same[name] = other
        return before if len(same) == len(names) else replace(self, **same)

    def updated(self, fresh: Contents, ids: Ints) -> Contents:
        """Return these contents with ``fresh`` ones for the providers of these ids.

        ``fresh.providers`` are all that there are now; what others had is dropped.
        """
        before, now = self.providers[:, 0], fresh.providers[:, 0]
        gone = np.setdiff1d(before, now) if not np.array_equal(before, now) else now[:0]
        dropped = np.union1d(gone, ids)
        uuids = self.uuids
        if not fresh.uuids.items() <= uuids.items():
            uuids = {**uuids, **fresh.uuids}
        if len(gone):
            left = set(now.tolist())
            uuids = {id_: uuid for id_, uuid in uuids.items() if id_ in left}
        return replace(
            fresh,
            inventories=renewed(self.inventories, dropped, fresh.inventories),
            usage=with_more(self.usage, dropped, fresh.usage),
            traits=renewed(self.traits, dropped, fresh.traits),
            aggregates=with_more(self.aggregates, dropped, fresh.aggregates),
            uuids=uuids,
        )


NOTHING = Contents(
    providers=np.zeros((0, 4), np.int64),
    inventories=np.zeros((0, 9)),
    usage=np.zeros((0, 3), np.int64),
    traits=np.zeros((0, 2), np.int64),
    aggregates=np.zeros((0, 2), np.int64),
    uuids={},
    class_names={},
    trait_names={},
    aggregate_uuids={},
)


def build(
    contents: Contents, before: tuple[Contents, ProviderTable] | None = None
) -> ProviderTable:
    """Return the providers as a table.

    Traits and inventories are taken over from ``before``, if they are the same. Rows
    about a provider, class, trait or aggregate that does not exist are left out:
    placement joins them away. Wrong rows of providers are mended, see _ProviderTrees.
    Raises errors.InconsistentProviders if a provider, or every class, lacks a name.
    """
    trees = _ProviderTrees(contents.providers)
    order, parents, roots, ends = trees.order()
    ids = trees.ids[order]
    rows = _Places(ids)
    raw, (contents, orphans) = contents, _without_orphans(contents, rows)
    table = ProviderTable(
        ids=ids,
        uuids=_kept(_named(contents.uuids, ids), before[1].uuids if before else []),
        parents=parents,
        roots=roots,
        ends=ends,
        classes=frozenset(contents.class_names.values()),
        inventories={},
        traits={name: at for at, name in enumerate(contents.trait_names.values())},
        trait_bits=NO_BITS,
        members={
            uuid: np.sort(rows.of(found[:, 0]))
            for uuid, found in _split(contents.aggregates, contents.aggregate_uuids)
        },
        orphans={**trees.wrong, **orphans},
    )
    known, earlier = None, table
    if before is not None and np.array_equal(before[1].ids, ids):
        known, earlier = before
    trait_bits, inventories = earlier.trait_bits, earlier.inventories
    if (
        known is None
        or known.traits is not raw.traits
        or earlier.traits != table.traits
    ):
        trait_bits = _trait_bits(contents, rows)
    if (
        known is None
        or known.inventories is not raw.inventories
        or known.class_names != contents.class_names
    ):
        inventories = _inventories(contents, rows)
    return replace(
        table, trait_bits=trait_bits, inventories=_used(contents, rows, inventories)
    )


def _without_orphans(
    contents: Contents, places: _Places
) -> tuple[Contents, dict[str, str]]:
    """Return the contents without rows that name what does not exist, and what those
    are, by table and column."""
    kept, orphans = {}, {}
    for table, column, names in (
        ('inventories', 'resource_class_id', contents.class_names),
        ('usage', 'resource_class_id', contents.class_names),
        ('traits', 'trait_id', contents.trait_names),
        ('aggregates', 'aggregate_id', contents.aggregate_uuids),
    ):
        rows = getattr(contents, table)
        if table == 'inventories' and len(rows) and not names:
            raise errors.InconsistentProviders('no resource class has a name')
        known = places.known(rows[:, 0].astype(np.int64))
        named = np.isin(rows[:, 1], list(names))
        there = known
        if not known.all():
            there = np.isin(rows[:, 0], contents.providers[:, 0])
        for at, (name, mask) in enumerate(
            (('resource_provider_id', there), (column, named))
        ):
            if not mask.all():
                ids = rows[~mask, at].astype(np.int64)
                orphans[f'{TABLES[table]}.{name}'] = (
                    f'{len(ids)} with ids that do not exist, such as {ids[0]}'
                )
        kept[table] = rows if (known & named).all() else rows[known & named]
    return replace(contents, **kept), orphans


class _Places:
    """Where ids are in a column."""

    def __init__(self, ids: Ints) -> None:
        self._order = np.argsort(ids, kind='stable')
        self._ids = ids[self._order]

    def __len__(self) -> int:
        return len(self._ids)

    def of(self, ids: Ints) -> Rows:
        """Return the places of ids that are all there."""
        if not len(ids):
            return NO_ROWS
        rows: Rows = self._order[np.searchsorted(self._ids, ids)]
        return rows

    def find(self, ids: Ints, others: Rows) -> Rows:
        """Return the places of ids; of those that are not there, the others."""
        known, found = self.known(ids), others.copy()
        found[known] = self.of(ids[known])
        return found

    def known(self, ids: Ints) -> Mask:
        """Return which of the ids are there."""
        if not len(self._ids):
            return np.zeros(len(ids), bool)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        known: Mask = self._ids[at] == ids
        return known


class _ProviderTrees:
    """The trees of providers, as placement sees them: by the ids of their roots.

    Providers without an existing root are left out. The root replaces a parent that
    does not exist, is of another tree or below the provider. A root that has a parent
    counts as its own: placement checks real roots for root traits. ``wrong`` says what
    differs.
    """

    def __init__(self, providers: Ints) -> None:
        self.wrong: dict[str, str] = {}
        seen = _Places(providers[:, 0]).known(providers[:, 2])
        self.ids, _, tops, above = providers[seen].T
        places, own = _Places(self.ids), np.arange(len(self.ids))
        roots = places.find(tops, own)
        chained = roots[roots] != roots
        self._roots = np.where(chained, own, roots)
        is_root = self._roots == own
        self._has_parent = is_root & (above != 0)
        parents = places.find(above, own)
        astray = ~is_root & (parents == own)
        astray |= self._roots[parents] != self._roots
        parents[astray] = self._roots[astray]
        parents[is_root] = -1
        self._lines = _lines(parents)
        endless = self._lines[-1] >= 0
        if endless.any():
            parents[endless] = self._roots[endless]
            self._lines = _lines(parents)
        self._parents = parents
        self._note('root', 'has another root', self.ids[chained])
        self._note('root', 'does not exist', providers[~seen, 0])
        self._note(
            'parent',
            'does not exist, is of another tree, or is below it',
            self.ids[self._has_parent | (astray & ~is_root) | endless],
        )

    def _note(self, name: str, what: str, ids: Ints) -> None:
        if len(ids):
            text = f'{len(ids)} whose {name} {what}, such as provider {ids[0]}'
            self.wrong[f'resource_providers.{name}_provider_id'] = text

    def order(self) -> tuple[Rows, Rows, Rows, Rows]:
        """Return the order of providers, each right before those below it, and the
        columns ``parents``, ``roots`` and ``ends`` in that order."""
        count, lines = len(self.ids), self._lines
        depths = sum(line >= 0 for line in lines) - np.ones(count, np.intp)
        paths = np.full((count, len(lines)), -1, np.intp)
        sizes = np.zeros(count, np.intp)
        for up, line in enumerate(lines):
            there = np.flatnonzero(line >= 0)
            paths[there, depths[there] - up] = line[there]
            sizes += np.bincount(line[there], minlength=count)
        order = np.lexsort(paths.T[::-1])
        rows = np.empty(count, np.intp)
        rows[order] = np.arange(count)
        parents = np.where(self._parents < 0, -1, rows[self._parents])
        parents = np.where(self._has_parent, rows, parents)[order]
        ends = np.arange(count) + sizes[order]
        return order, parents, rows[self._roots[order]], ends


def _lines(parents: Rows) -> list[Rows]:
    """Return each provider, its parent, and so on, until there is none, or none but
    those that are in a circle or below one."""
    lines = [np.arange(len(parents))]
    while (lines[-1] >= 0).any() and len(lines) <= MAX_DEPTH:
        lines.append(np.where(lines[-1] < 0, -1, parents[lines[-1]]))
    return lines


def _named(names: Mapping[int, str], ids: Ints) -> list[str]:
    """Return the name of each id; raises errors.InconsistentProviders."""
    try:
        return [names[id_] for id_ in ids.tolist()]
    except KeyError as problem:
        raise errors.InconsistentProviders(f'no name for id {problem}') from problem


def _kept(names: list[str], before: Sequence[str]) -> Sequence[str]:
    """Return the same object as before, if the names are the same."""
    return before if names == before else names


def _split(rows: A, names: Mapping[int, str]) -> Iterator[tuple[str, A]]:
    """Yield by the name of their second column what rows there are of it."""
    order = np.argsort(rows[:, 1], kind='stable')
    ids = rows[order, 1].astype(np.int64)
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    groups = np.split(rows[order], starts[1:]) if len(starts) else []
    yield from zip(_named(names, ids[starts]), groups, strict=True)


def _inventories(contents: Contents, places: _Places) -> dict[str, Inventory]:
    """Return the inventories by class, nothing used of them."""
    found = {}
    for name, listed in _split(contents.inventories, contents.class_names):
        rows = places.of(listed[:, 0].astype(np.int64))
        order = np.argsort(rows)
        values = listed[order]
        total, reserved = values[:, 2:4].T
        min_unit, max_unit, step_size = _whole(values[:, 4:7]).T
        exact, as_read = _bounded(values[:, 8]), _bounded(values[:, 7])
        found[name] = Inventory(
            rows=rows[order],
            min_unit=min_unit,
            max_unit=max_unit,
            step_size=np.where(step_size == 0, MOST, step_size),  # no amount fits
            room=_whole(np.floor((total - reserved) * exact)),
            capacity=_whole(np.trunc((total - reserved) * as_read)),
            used=np.zeros(len(rows), np.int64),
        )
    return found


def _bounded(values: A) -> A:
    """Return numbers that are at most MOST from zero; what is none counts as zero."""
    return np.clip(np.nan_to_num(values), -MOST, MOST)


def _whole(values: Floats) -> Ints:
    """Return whole numbers as such, bounded."""
    return _bounded(values).astype(np.int64)


def _used(
    contents: Contents, places: _Places, inventories: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    usage = dict(_split(contents.usage, contents.class_names))
    found = {}
    for name, inventory in inventories.items():
        amounts = np.zeros(len(places), np.int64)
        if name in usage:
            amounts[places.of(usage[name][:, 0])] = _bounded(usage[name][:, 2])
        found[name] = replace(inventory, used=amounts[inventory.rows])
    return found


def _trait_bits(contents: Contents, places: _Places) -> TraitBits:
    """Return the traits of each provider as bits; shape (providers, words)."""
    ids = np.array(list(contents.trait_names), np.int64)
    words = len(ids) // WORD + 1
    rows = places.of(contents.traits[:, 0])
    bits = _Places(ids).of(contents.traits[:, 1])
    # Each pair is there once, so that a sum of the bits of a word is their union.
    sums = np.bincount(
        rows * words + bits // WORD,
        weights=np.left_shift(1, bits % WORD),
        minlength=len(places) * words,
    )
    return sums.astype(np.uint32).reshape(len(places), words)
