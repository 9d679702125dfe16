# SPDX-License-Identifier: Apache-2.0
"""Resource providers of placement as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from novasched.scheduler.columns import Ints, Mask, Rows

SHARES = 'MISC_SHARES_VIA_AGGREGATE'
"""Trait of a provider that serves the trees of its aggregates."""

WORD = 32
"""Traits in one number of the trait bits."""

TraitBits = np.ndarray[tuple[int, int], np.dtype[np.uint32]]
"""Traits as bits; shape (providers, words)."""

_OF_TREES = ('rows_by_uuid', 'is_flat', 'sharing')
"""Properties of a table that what is used does not change."""

Amounts = Mapping[str, Mapping[str, int]]
"""Amounts by class by provider uuid."""

NO_ROWS = np.zeros(0, np.intp)
ALL = slice(None)


@dataclass(frozen=True)
class Inventory:
    """Inventory of one resource class; shape (providers that have any) each."""

    rows: Rows  # of the table, ascending
    min_unit: Ints
    max_unit: Ints
    step_size: Ints
    # (total - reserved) x ratio, rounded down: as the database compares it; then as
    # placement reports it, which differs on MariaDB and MySQL, as their ratios are of
    # single precision
    room: Ints
    capacity: Ints
    used: Ints

    @cached_property
    def free(self) -> Ints:
        """What is left of each provider, for however many requests."""
        left: Ints = np.minimum(self.room, self.capacity) - self.used
        return np.maximum(left, 0)

    @cached_property
    def most(self) -> Ints:
        """The largest amount that one group may take, of each provider."""
        most: Ints = np.minimum(self.room - self.used, self.most_in_sum)
        return most

    @cached_property
    def most_in_sum(self) -> Ints:
        """The largest sum over the groups of a request, of each provider."""
        most: Ints = np.minimum(self.capacity - self.used, self.max_unit)
        return most

    @cached_property
    def _has_units(self) -> bool:
        """Some provider has another smallest amount, or step, than 1."""
        return bool((self.min_unit != 1).any() or (self.step_size != 1).any())

    def fitting(self, amount: int) -> Rows:
        """Return the rows of the providers that one group may take the amount from."""
        fits = self.most >= amount
        if self._has_units:
            fits &= (self.min_unit <= amount) & (amount % self.step_size == 0)
        return self.rows[fits]

    def after(self, amounts: Mapping[int, int]) -> Inventory:
        """Return the inventory once more is used: amounts by row of the table."""
        used = self.used.copy()
        for row, amount in amounts.items():
            if (place := self.place(row)) >= 0:
                used[place] += amount
        return replace(self, used=used)

    def place(self, row: int) -> int:
        """Return where a row of the table is in these columns; -1: it has none."""
        place = int(np.searchsorted(self.rows, row))
        there = place < len(self.rows) and self.rows.item(place) == row
        return place if there else -1


@dataclass(frozen=True)
class ProviderTable:
    """All providers, each right before all that are below it."""

    ids: Ints  # of placement's database
    uuids: Sequence[str]
    # rows; of a root -1, or itself if its row in placement's database names a parent
    parents: Rows
    roots: Rows
    ends: Rows  # where the rows below each provider end
    classes: frozenset[str]  # all known names
    inventories: Mapping[str, Inventory]
    traits: Mapping[str, int]  # the bit of each known name
    trait_bits: TraitBits = field(repr=False)  # shape (providers, words)
    members: Mapping[str, Rows]  # ascending, by aggregate
    # wrong rows, by column
    orphans: Mapping[str, str] = field(default_factory=dict[str, str])

    def __len__(self) -> int:
        return len(self.uuids)

    @cached_property
    def rows_by_uuid(self) -> dict[str, int]:
        return {uuid: row for row, uuid in enumerate(self.uuids)}

    def ids_of(self, uuids: Iterable[str]) -> Ints:
        """Return the ids of these providers, where the table has them."""
        rows = self.rows_by_uuid
        return self.ids[[rows[uuid] for uuid in uuids if uuid in rows]]

    def after(self, taken: Amounts) -> ProviderTable:
        """Return the table once more is used.

        What is not in the table does not count.
        """
        by_class: dict[str, dict[int, int]] = {}
        for uuid, amounts in taken.items():
            row = self.rows_by_uuid.get(uuid)
            for name in amounts.keys() & self.inventories.keys():
                if row is not None:
                    by_class.setdefault(name, {})[row] = amounts[name]
        return self._with(
            {
                name: self.inventories[name].after(each)
                for name, each in by_class.items()
            }
        )

    def after_each(self, taken: Mapping[str, Ints]) -> ProviderTable:
        """Return the table once every provider gives more: amounts of each class, one
        for each provider."""
        changed = {}
        for name, amounts in taken.items():
            inventory = self.inventories[name]
            used = inventory.used + amounts[inventory.rows]
            changed[name] = replace(inventory, used=used)
        return self._with(changed)

    def with_used(self, used: Mapping[str, Ints]) -> ProviderTable:
        """Return the table with other used amounts of some classes."""
        inventories = self.inventories
        return self._with(
            {name: replace(inventories[name], used=of) for name, of in used.items()}
        )

    def _with(self, changed: Mapping[str, Inventory]) -> ProviderTable:
        made = replace(self, inventories={**self.inventories, **changed})
        vars(made).update({n: vars(self)[n] for n in _OF_TREES if n in vars(self)})
        return made

    def trait_words(self, names: Iterable[str]) -> dict[int, np.uint32]:
        """Return the bits of known traits, by the word in which they are."""
        found: dict[int, int] = {}
        for name in names:
            word, bit = divmod(self.traits[name], WORD)
            found[word] = found.get(word, 0) | 1 << bit
        return {word: np.uint32(bits) for word, bits in found.items()}

    def having_any(self, names: Iterable[str], rows: Rows | slice = ALL) -> Mask:
        """Return which of the rows have at least one of the traits."""
        found = np.zeros(len(self), bool)[rows]
        for word, wanted in self.trait_words(names).items():
            found |= (self.trait_bits[rows, word] & wanted) != 0
        return found

    def having_all(self, names: Iterable[str], rows: Rows | slice = ALL) -> Mask:
        """Return which of the rows have every one of the traits."""
        found = np.ones(len(self), bool)[rows]
        for word, wanted in self.trait_words(names).items():
            found &= (self.trait_bits[rows, word] & wanted) == wanted
        return found

    def in_any(self, uuids: Iterable[str]) -> Mask:
        """Return which providers are a member of at least one of the aggregates."""
        found = np.zeros(len(self), bool)
        for uuid in uuids:
            found[self.members.get(uuid, NO_ROWS)] = True
        return found

    @cached_property
    def is_flat(self) -> bool:
        """No provider is below another one."""
        return bool((self.roots == np.arange(len(self))).all())

    @cached_property
    def sharing(self) -> Mapping[int, Rows]:
        """The roots that each sharing provider serves beyond its own, by its row."""
        having = self.having_any({SHARES} & self.traits.keys())
        found: dict[int, list[Rows]] = {
            row: [] for row in np.flatnonzero(having).tolist()
        }
        for rows in self.members.values() if found else ():
            for row in found.keys() & set(rows.tolist()):
                found[row].append(self.roots[rows])
        served = {
            row: np.unique(np.concatenate([NO_ROWS, *roots]))
            for row, roots in found.items()
        }
        return {row: roots[roots != self.roots[row]] for row, roots in served.items()}

    def pairs(self, own: Rows, shared: Rows) -> tuple[Rows, Rows]:
        """Return the roots of providers in their own trees, and of those that share in
        others, and the providers; sorted by root."""
        anchors = self.roots[own]
        sharing = self.sharing
        beyond = [row for row in shared.tolist() if row in sharing] if sharing else []
        if not beyond:
            return anchors, own
        others = [sharing[row] for row in beyond]
        counts = [len(each) for each in others]
        anchors = np.concatenate([anchors, *others])
        rows = np.concatenate([own, np.repeat(np.array(beyond, np.intp), counts)])
        order = np.argsort(anchors, kind='stable')
        return anchors[order], rows[order]

    def used(self, row: int, name: str) -> int | None:
        """Return the used amount of a class at a row; None without an inventory."""
        inventory = self.inventories.get(name)
        place = -1 if inventory is None else inventory.place(row)
        return inventory.used.item(place) if inventory and place >= 0 else None

    def summary(self, row: int) -> dict[str, object]:
        """Return the entry of a provider in placement's provider_summaries."""
        parent = self.parents.item(row)
        resources = {}
        for name, inventory in self.inventories.items():
            if (place := inventory.place(row)) >= 0:
                resources[name] = {
                    'capacity': inventory.capacity.item(place),
                    'used': inventory.used.item(place),
                }
        return {
            'resources': resources,
            'traits': self.traits_of(row),
            'parent_provider_uuid': None if parent < 0 else self.uuids[parent],
            'root_provider_uuid': self.uuids[self.roots.item(row)],
        }

    def traits_of(self, row: int) -> list[str]:
        names, words = list(self.traits), self.trait_bits[row].astype('<u4')
        bits = np.unpackbits(words.view(np.uint8), bitorder='little')
        return [names[at] for at in np.flatnonzero(bits).tolist()]
