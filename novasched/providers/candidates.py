# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates computed from a table of providers, as placement 16 does."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from novasched import errors
from novasched.providers.table import ALL, NO_ROWS, ProviderTable
from novasched.resources.query import Group, Query
from novasched.scheduler.columns import Ints, Mask, Rows

Choice = np.ndarray[tuple[int, int], np.dtype[np.intp]]
"""Rows of providers; shape (combinations, slots)."""

CHUNK = 1024
"""Anchors whose first candidates are looked for at once."""

FEW = 16
"""Fewer anchors than that are searched one by one."""

MAX_NODES = 20_000
"""Partial candidates that are looked at for one anchor, then it counts as done."""


@dataclass(frozen=True)
class Slot:
    """One provider that a candidate needs: of a suffixed group, or for one class of
    the unsuffixed group.

    ``anchors`` and ``providers`` are the pairs of a root and a provider that serves
    it, as rows, sorted by anchor.
    """

    suffix: str
    resources: Mapping[str, int]
    anchors: Rows
    providers: Rows

    def spans(self, anchors: Rows) -> tuple[Rows, Rows]:
        """Return where the pairs of each of these anchors begin and end."""
        starts = np.searchsorted(self.anchors, anchors)
        return starts, np.searchsorted(self.anchors, anchors, 'right')

    def choices(self, anchor: int) -> Rows:
        """Return the providers of one anchor."""
        start = self.anchors.searchsorted(anchor)
        return self.providers[start : self.anchors.searchsorted(anchor, 'right')]


def search(
    query: Query, providers: ProviderTable, max_nodes: int = MAX_NODES
) -> CandidateSearch:
    """Return the candidates of a query, none of them made yet.

    Raises errors.InvalidCandidateQuery where placement answers 400: the query
    contradicts itself, or names a trait or class that the table does not know.
    """
    query.check()
    slots = _Groups(query, providers).slots()
    return CandidateSearch(query, providers, slots, max_nodes)


class _Groups:
    """Finds the providers that each group of a query can be served by."""

    def __init__(self, query: Query, providers: ProviderTable) -> None:
        self._query = query
        self._providers = providers

    def slots(self) -> list[Slot]:
        """Return the slots of all groups; empty: some group cannot be served."""
        roots = np.ones(len(self._providers), bool)
        root_required, forbidden = self._query.root_required, self._query.root_forbidden
        if root_required or forbidden:
            self._known_traits(root_required | forbidden)
            roots = self._providers.parents < 0
            roots &= self._with_traits(root_required, (), forbidden)
        found: list[Slot] = []
        if not roots.any():
            return found
        for group in self._query.groups:
            slots = list(self._of(group, roots))
            if not slots:
                return []
            found += slots
        return found

    def _of(self, group: Group, roots: Mask) -> Iterator[Slot]:
        """Yield the slots of a group; none: it cannot be served."""
        for name in group.resources:
            if name not in self._providers.classes:
                raise errors.InvalidCandidateQuery(f'no such resource class {name}')
        members = self._members(group)
        if members is not None and not members.any():
            return
        self._known_traits(group.required.union(group.forbidden, *group.required_any))
        tree = None
        if group.in_tree is not None:
            row = self._providers.rows_by_uuid.get(group.in_tree)
            if row is None:
                return
            tree = self._providers.roots.item(row)
        if group.suffix:
            slots = [self._suffixed(group, roots, members, tree)]
        else:
            slots = [
                self._unsuffixed(group, name, roots, members, tree)
                for name in group.resources
            ]
        if all(len(slot.anchors) for slot in slots):
            yield from slots

    def _suffixed(
        self, group: Group, roots: Mask, members: Mask | None, tree: int | None
    ) -> Slot:
        """Return the pairs of a group that one provider serves."""
        rows = self._fitting(group.resources)
        if not group.resources and not (
            group.required or group.required_any or group.member_of
        ):
            rows = NO_ROWS
        if members is not None:
            rows = rows[members[rows]]
        if group.not_member_of:
            rows = rows[~self._providers.in_any(group.not_member_of)[rows]]
        if tree is not None and group.resources:
            rows = rows[self._providers.roots[rows] == tree]
        wanted = group.required, group.required_any, group.forbidden
        if any(wanted):
            rows = rows[self._with_traits(*wanted, rows)]
        anchors, rows = self._providers.pairs(rows, rows)
        good = roots[anchors]
        if not good.all():
            anchors, rows = anchors[good], rows[good]
        return Slot(group.suffix, group.resources, anchors, rows)

    def _unsuffixed(
        self,
        group: Group,
        name: str,
        roots: Mask,
        members: Mask | None,
        tree: int | None,
    ) -> Slot:
        """Return the pairs that can give one class of the unsuffixed group.

        Its required traits are not looked at: the providers of all its classes count
        together.
        """
        resources = {name: group.resources[name]}
        rows = self._fitting(resources)
        if group.forbidden:
            rows = rows[~self._providers.having_any(group.forbidden, rows)]
        shared = rows
        if tree is not None:
            rows, shared = rows[self._providers.roots[rows] == tree], NO_ROWS
        if members is not None:
            shared = shared[members[shared]]
        anchors, rows = self._providers.pairs(rows, shared)
        good = roots[anchors]
        if members is not None:
            good &= members[rows] | members[anchors]
        if group.not_member_of:
            outside = ~self._providers.in_any(group.not_member_of)
            good &= outside[rows] & outside[anchors]
        return Slot('', resources, anchors[good], rows[good])

    def _fitting(self, resources: Mapping[str, int]) -> Rows:
        """Return the rows of the providers that have room for all the resources."""
        found: Rows | None = None
        for name, amount in resources.items():
            inventory = self._providers.inventories.get(name)
            rows = NO_ROWS if inventory is None else inventory.fitting(amount)
            if found is None:
                found = rows
            else:
                found = np.intersect1d(found, rows, assume_unique=True)
        return np.arange(len(self._providers)) if found is None else found

    def _members(self, group: Group) -> Mask | None:
        """Return the members of one aggregate of each set; None if all are welcome."""
        if not group.member_of:
            return None
        masks = [self._providers.in_any(uuids) for uuids in group.member_of]
        found: Mask = np.logical_and.reduce(masks)
        return found

    def _with_traits(
        self,
        required: Iterable[str],
        required_any: Iterable[Iterable[str]],
        forbidden: Iterable[str],
        rows: Rows | slice = ALL,
    ) -> Mask:
        """Return which rows have the traits themselves."""
        found = self._providers.having_all(required, rows)
        for names in required_any:
            found &= self._providers.having_any(names, rows)
        return found & ~self._providers.having_any(forbidden, rows)

    def _known_traits(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._providers.traits:
                raise errors.InvalidCandidateQuery(f'no such trait {name}')


class _Rules:
    """What the providers of different slots must have in common, or must not."""

    def __init__(
        self, query: Query, providers: ProviderTable, slots: Sequence[Slot]
    ) -> None:
        self._providers = providers
        self._slots = slots
        isolates = query.group_policy == 'isolate'
        self.isolated = [
            at for at, slot in enumerate(slots) if isolates and slot.suffix
        ]
        self._rivals = [
            [i for i in range(at) if slots[i].resources.keys() & slot.resources.keys()]
            for at, slot in enumerate(slots)
        ]
        self._subtrees = _subtrees(query, slots)
        plain = next((group for group in query.groups if not group.suffix), Group())
        self._union = [frozenset([name]) for name in plain.required]
        self._union += plain.required_any

    def bind(self, at: int) -> bool:
        """Whether the slots before this one restrict what serves it."""
        return bool(
            at in self.isolated[1:]
            or self._rivals[at]
            or any(tree[-1] == at for tree in self._subtrees)
            or (self._union and at == len(self._slots) - 1)
        )

    def allow(self, chosen: Choice, rows: Rows) -> Mask:
        """Return where a row may serve the next slot after those that are chosen.

        ``chosen`` has the shape (combinations, slots so far), ``rows`` (combinations,).
        """
        at = chosen.shape[1]
        found = np.ones(len(rows), bool)
        if at in self.isolated[1:]:
            others = self.isolated[: self.isolated.index(at)]
            found &= (chosen[:, others] != rows[:, None]).all(axis=1)
        if self._rivals[at]:
            found &= self._has_room(chosen, rows)
        for tree in self._subtrees:
            if tree[-1] == at:
                found &= self._is_subtree(np.column_stack([chosen[:, tree[:-1]], rows]))
        if self._union and at == len(self._slots) - 1:
            found &= self._has_union(np.column_stack([chosen, rows]))
        return found

    def _has_room(self, chosen: Choice, rows: Rows) -> Mask:
        """Return where a provider has room for all that several slots take from it."""
        at = chosen.shape[1]
        found = np.ones(len(rows), bool)
        same = chosen[:, self._rivals[at]] == rows[:, None]
        for name, amount in self._slots[at].resources.items():
            others = [self._slots[i].resources.get(name, 0) for i in self._rivals[at]]
            more = same @ np.array(others)
            found &= (more == 0) | (amount + more <= self._most(name, rows))
        return found

    def _is_subtree(self, rows: Choice) -> Mask:
        """Return where one provider of each combination is an ancestor of all others.

        It is the first row of them, as a provider comes right before what is below it.
        """
        tops = rows.min(axis=1)
        found: Mask = rows.max(axis=1) < self._providers.ends[tops]
        return found

    def _has_union(self, rows: Choice) -> Mask:
        """Return where the unsuffixed group has its required traits, all together."""
        plain = [at for at, slot in enumerate(self._slots) if not slot.suffix]
        found = np.ones(len(rows), bool)
        for names in self._union:
            has = np.zeros(len(rows), bool)
            for at in plain:
                has |= self._providers.having_any(names, rows[:, at])
            found &= has
        return found

    def _most(self, name: str, rows: Rows) -> Ints:
        """Return the largest sum of a class, of providers that have any of it."""
        inventory = self._providers.inventories[name]
        return inventory.most_in_sum[np.searchsorted(inventory.rows, rows)]

    def allow_none(self, choices: Sequence[Rows]) -> bool:
        """Whether the choices of one anchor show at once that nothing fits.

        Isolated slots need a provider each, and a class as many units as all ask for.
        """
        if not _has_matching([choices[at].tolist() for at in self.isolated]):
            return True
        for name in {name for slot in self._slots for name in slot.resources}:
            asking = [i for i, slot in enumerate(self._slots) if name in slot.resources]
            wanted = sum(self._slots[i].resources[name] for i in asking)
            rows = np.unique(np.concatenate([choices[i] for i in asking]))
            if self._most(name, rows).sum() < wanted:
                return True
        return False


def _subtrees(query: Query, slots: Sequence[Slot]) -> list[list[int]]:
    """Return the places of the slots that must share a subtree, where several must."""
    places = {slot.suffix: at for at, slot in enumerate(slots) if slot.suffix}
    asked = query.same_subtree if slots else ()
    trees = [sorted(places[suffix] for suffix in each) for each in asked]
    return [tree for tree in trees if len(tree) > 1]


def _has_matching(choices: Sequence[Sequence[int]]) -> bool:
    """Whether each slot can have a provider of its own, by augmenting paths."""
    owners: dict[int, int] = {}

    def place(slot: int, tried: set[int]) -> bool:
        for row in choices[slot]:
            if row not in tried:
                tried.add(row)
                if row not in owners or place(owners[row], tried):
                    owners[row] = slot
                    return True
        return False

    return all(place(slot, set()) for slot in range(len(choices)))


class CandidateSearch:
    """The candidates of a query: for each slot one provider, all of one anchor."""

    def __init__(
        self,
        query: Query,
        providers: ProviderTable,
        slots: Sequence[Slot],
        max_nodes: int,
    ) -> None:
        self.providers = providers
        self._max_nodes = max_nodes
        # The slot of the fewest pairs first, so that what is impossible shows early.
        self.slots = sorted(slots, key=lambda slot: len(slot.anchors))
        self._rules = _Rules(query, providers, self.slots)
        self._is_free = not any(map(self._rules.bind, range(len(slots))))

    @cached_property
    def anchors(self) -> Rows:
        """The roots that have a candidate, as rows, ascending."""
        common = self._common_anchors
        return common if self._is_free else self._firsts(common)[0]

    def anchors_among(self, roots: Mask) -> Rows:
        """Return the roots, among these, that have a candidate, as ascending rows."""
        common = self._common_anchors
        common = common[roots[common]]
        return common if self._is_free else self._firsts(common)[0]

    @property
    def shares(self) -> bool:
        """Some provider serves roots beyond its own tree."""
        return bool(self.providers.sharing) and any(
            (self.providers.roots[slot.providers] != slot.anchors).any()
            for slot in self.slots
        )

    @property
    def amounts_of_root(self) -> Mapping[str, int] | None:
        """The amounts that each root gives by itself, in its only candidate; None if
        there are other candidates."""
        amounts: dict[str, int] = {}
        for slot in self.slots:
            if slot.suffix or not np.array_equal(slot.anchors, slot.providers):
                return None
            amounts |= slot.resources
        return amounts

    @property
    def most_of_root(self) -> float:
        """No root has more candidates than that."""
        counts = np.ones(len(self.providers))
        for slot in self.slots:
            counts *= np.bincount(slot.anchors, minlength=len(counts))
        return float(counts.max(initial=0))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each candidate once: the first of each anchor before all others."""
        seen: set[tuple[int, ...]] = set()
        for rows in self._breadth_first():
            if rows not in seen:
                seen.add(rows)
                yield self._candidate(rows)

    def under(self, anchor: int) -> Iterator[dict[str, Any]]:
        """Yield the candidates of one of the anchors."""
        yield from map(self._candidate, self._combinations(anchor))

    def _candidate(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return the allocation request that takes each slot from its row."""
        allocations: dict[str, dict[str, dict[str, int]]] = {}
        mappings: dict[str, list[str]] = {}
        for slot, row in zip(self.slots, rows, strict=True):
            uuid = self.providers.uuids[row]
            if slot.suffix not in mappings:
                mappings[slot.suffix] = [uuid]
            elif uuid not in mappings[slot.suffix]:
                mappings[slot.suffix].append(uuid)
            if slot.resources and uuid not in allocations:
                allocations[uuid] = {'resources': dict(slot.resources)}
            elif slot.resources:
                amounts = allocations[uuid]['resources']
                for name, amount in slot.resources.items():
                    amounts[name] = amounts.get(name, 0) + amount
        return {'allocations': allocations, 'mappings': mappings}

    def _breadth_first(self) -> Iterator[tuple[int, ...]]:
        """Yield combinations: the first of each anchor, then the second, and so on."""
        begun: deque[Iterator[tuple[int, ...]]] = deque()
        for start in range(0, len(self._common_anchors), CHUNK):
            chunk = self._common_anchors[start : start + CHUNK]
            anchors, firsts = self._firsts(chunk)
            yield from map(tuple, firsts.tolist())
            begun += (
                itertools.islice(self._combinations(anchor), 1, None)
                for anchor in anchors.tolist()
            )
        while begun:
            combinations = begun.popleft()
            for rows in itertools.islice(combinations, 1):
                yield rows
                begun.append(combinations)

    def _firsts(self, anchors: Rows) -> tuple[Rows, Choice]:
        """Return the anchors that have a candidate, and the first candidate of each.

        Shapes (anchors,) and (anchors, slots). Each slot takes the first provider that
        is allowed, for all anchors at once; anchors where this leads nowhere are
        searched one by one.
        """
        chosen = np.empty((len(anchors), len(self.slots)), np.intp)
        stuck = np.full(len(anchors), len(anchors) < FEW)
        for at, slot in enumerate(self.slots):
            starts, ends = slot.spans(anchors)
            chosen[:, at] = slot.providers[starts]
            trying = np.flatnonzero(~stuck) if self._rules.bind(at) else NO_ROWS
            while len(trying):
                rows = slot.providers[starts[trying]]
                chosen[trying, at] = rows
                trying = trying[~self._rules.allow(chosen[trying, :at], rows)]
                starts[trying] += 1
                over = starts[trying] == ends[trying]
                stuck[trying[over]] = True
                trying = trying[~over]
        for place in np.flatnonzero(stuck).tolist():
            for first in itertools.islice(self._combinations(anchors.item(place)), 1):
                chosen[place] = first
                stuck[place] = False
        return anchors[~stuck], chosen[~stuck]

    @cached_property
    def _common_anchors(self) -> Rows:
        """The roots for which each slot has a provider, ascending."""
        if not self.slots:
            return NO_ROWS
        found = np.ones(len(self.providers), bool)
        for slot in self.slots:
            has = np.zeros(len(self.providers), bool)
            has[slot.anchors] = True
            found &= has
        return np.flatnonzero(found)

    def _combinations(self, anchor: int) -> Iterator[tuple[int, ...]]:
        """Yield one row for each slot, wherever the rules allow them together."""
        choices = [slot.choices(anchor) for slot in self.slots]
        if not choices:  # some group cannot be served anywhere
            return
        if self._is_free:
            every = itertools.product(*(rows.tolist() for rows in choices))
            yield from itertools.islice(every, self._max_nodes)
            return
        if self._rules.allow_none(choices):
            return
        last = len(choices) - 1
        pending: list[tuple[int, ...]] = [()]
        for _ in range(self._max_nodes):
            if not pending:
                return
            chosen = pending.pop()
            rows = choices[len(chosen)]
            before = np.tile(np.array(chosen, np.intp), (len(rows), 1))
            allowed = rows[self._rules.allow(before, rows)].tolist()
            longer = [(*chosen, row) for row in allowed]
            if len(chosen) == last:
                yield from longer
            else:
                pending += reversed(longer)
