# SPDX-License-Identifier: Apache-2.0
"""One tree of providers as placement has it now, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from novasched.providers.contents import Contents, build


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
