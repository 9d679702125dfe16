# SPDX-License-Identifier: Apache-2.0
"""Providers of the copy of placement as lines of a history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched.history.orders import Line, packed, packed_places, unpacked
from novasched.providers.table import ProviderTable
from novasched.scheduler.columns import Rows

LIMITS = ('capacity', 'min_unit', 'max_unit', 'step_size', 'used')


class ProviderEncoder:
    """Encodes what has changed of the providers of the copy of placement."""

    def __init__(self) -> None:
        self._table: ProviderTable | None = None

    def lines(self, table: ProviderTable | None, at: float) -> list[Line]:
        """Return the line of the providers that are not what they were."""
        before = self._table
        if table is None or (before is not None and _has_same_limits(before, table)):
            return []
        self._table, gone = table, list[str]()
        rows = np.arange(len(table))
        if before is not None and len(before):
            gone = [*(before.rows_by_uuid.keys() - table.rows_by_uuid.keys())]
            rows = _changed_rows(before, table)
        if not gone and not len(rows):
            return []
        return [{'providers': {**_encoded(table, rows), 'gone': gone}, 'at': at}]


def _has_same_limits(before: ProviderTable, now: ProviderTable) -> bool:
    """Return whether two tables differ in what is used, at most."""
    if before.uuids != now.uuids or before.traits != now.traits:
        return False
    if before.inventories.keys() != now.inventories.keys():
        return False
    if before.members.keys() != now.members.keys():
        return False
    pairs: list[tuple[Any, Any]] = [
        (before.parents, now.parents),
        (before.trait_bits, now.trait_bits),
    ]
    pairs += [(before.members[uuid], now.members[uuid]) for uuid in now.members]
    for name, inventory in now.inventories.items():
        other = before.inventories[name]
        fields = ('rows', *LIMITS[:-1])
        pairs += [(getattr(other, each), getattr(inventory, each)) for each in fields]
    return all(one is other or np.array_equal(one, other) for one, other in pairs)


def _changed_rows(before: ProviderTable, now: ProviderTable) -> Rows:
    """Return the rows of providers that are new, or differ in more than what is
    used."""
    known = np.array([before.rows_by_uuid.get(uuid, -1) for uuid in now.uuids], int)
    differs, old, new = known < 0, _columns(before), _columns(now)
    for key in old.keys() | new.keys():
        was = old.get(key, np.zeros(len(before)))
        differs |= was[known] != new.get(key, np.zeros(len(now)))
    return np.flatnonzero(differs)


def _columns(table: ProviderTable) -> dict[tuple[str, ...], NDArray[Any]]:
    """Return what is compared of each provider: 0 where it has none of it."""
    found: dict[tuple[str, ...], NDArray[Any]] = {}
    found['parent',] = np.array([*table.uuids, ''], object)[table.parents]
    for trait in table.traits:
        found['trait', trait] = table.having_any([trait])
    for uuid in table.members:
        found['aggregate', uuid] = table.in_any([uuid])
    for name, inventory in table.inventories.items():
        for field in LIMITS[:-1]:
            column = found[name, field] = np.zeros(len(table), np.int64)
            column[inventory.rows] = getattr(inventory, field)
        found['inventory', name] = found[name, field] * 0
        found['inventory', name][inventory.rows] = 1
    return found


def _encoded(table: ProviderTable, rows: Rows) -> Line:
    """Return the providers in some rows, as columns."""
    places = np.full(len(table), -1)
    places[rows] = np.arange(len(rows))
    traits: dict[bytes, list[str]] = {}
    words = [table.trait_bits[row].tobytes() for row in rows.tolist()]
    for row, bits in zip(rows.tolist(), words, strict=True):
        if bits not in traits:
            traits[bits] = table.traits_of(row)
    codes = {bits: code for code, bits in enumerate(traits)}
    parents = np.array([*table.uuids, None], object)[table.parents[rows]]
    inventories, aggregates = {}, {}
    for name, inventory in table.inventories.items():
        at = places[inventory.rows]
        limits = {n: packed(getattr(inventory, n)[at >= 0]) for n in LIMITS}
        inventories[name] = {'of': packed_places(at[at >= 0], len(rows)), **limits}
    for uuid, members in table.members.items():
        at = places[members]
        aggregates[uuid] = packed_places(at[at >= 0], len(rows))
    return {
        'uuids': [table.uuids[row] for row in rows.tolist()],
        'parents': parents.tolist(),
        'traits': [*traits.values()],
        'codes': packed(np.array([codes[bits] for bits in words], int)),
        'inventories': inventories,
        'aggregates': aggregates,
    }


def decoded(found: Line) -> dict[str, Mapping[str, Any] | None]:
    """Return the providers of a line by uuid; None for one that is gone."""
    if 'uuids' not in found:
        return {uuid: each and _of_form_1(each) for uuid, each in found.items()}
    traits = [found['traits'][code] for code in unpacked(found['codes']).tolist()]
    made: list[Line] = [
        {'parent': parent, 'inventories': {}, 'traits': of_row, 'aggregates': []}
        for parent, of_row in zip(found['parents'], traits, strict=True)
    ]
    for name, columns in found['inventories'].items():
        values = [unpacked(columns[each]).tolist() for each in ('of', *LIMITS)]
        for place, *limits in zip(*values, strict=True):
            made[place]['inventories'][name] = dict(zip(LIMITS, limits, strict=True))
    for uuid, places in found['aggregates'].items():
        for place in unpacked(places).tolist():
            made[place]['aggregates'].append(uuid)
    return {
        **dict(zip(found['uuids'], made, strict=True)),
        **dict.fromkeys(found['gone']),
    }


def _of_form_1(provider: Line) -> Line:
    inventories = provider['inventories'].items()
    named = {n: dict(zip(LIMITS, limits, strict=True)) for n, limits in inventories}
    return {**provider, 'inventories': named}
