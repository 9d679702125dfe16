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
    old, new = _parts(before), _parts(now)
    return old.keys() == new.keys() and all(
        part is old[key] or np.array_equal(part, old[key]) for key, part in new.items()
    )


def _parts(table: ProviderTable) -> dict[tuple[str, ...], Any]:
    """Return the parts of a table, but for the amounts that are used."""
    of_table = ('uuids', 'parents', 'traits', 'trait_bits')
    found: dict[tuple[str, ...], Any] = {(n,): getattr(table, n) for n in of_table}
    found |= {('members', uuid): rows for uuid, rows in table.members.items()}
    for name, inventory in table.inventories.items():
        for field in ('rows', *LIMITS[:-1]):
            found[name, field] = getattr(inventory, field)
    return found


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
    """Return the compared values of each provider, 0 where it has none."""
    found = _named(table)
    found['parent',] = np.array([*table.uuids, ''], object)[table.parents]
    for name, inventory in table.inventories.items():
        for field in ('', *LIMITS[:-1]):
            column = found[name, field] = np.zeros(len(table), np.int64)
            column[inventory.rows] = getattr(inventory, field) if field else 1
    return found


def _named(table: ProviderTable) -> dict[tuple[str, ...], NDArray[Any]]:
    """Return the masks of the providers that have a trait, or are in an aggregate."""
    found: dict[tuple[str, ...], NDArray[Any]] = {}
    for trait in table.traits:
        found['traits', trait] = table.having_any([trait])
    for uuid in table.members:
        found['aggregates', uuid] = table.in_any([uuid])
    return found


def _encoded(table: ProviderTable, rows: Rows) -> Line:
    """Return the providers in some rows, as columns."""
    parents = np.array([*table.uuids, None], object)[table.parents[rows]]
    found: Line = {
        'uuids': [table.uuids[row] for row in rows.tolist()],
        'parents': parents.tolist(),
        'inventories': {},
        'traits': {},
        'aggregates': {},
    }
    for (kind, name), mask in _named(table).items():
        found[kind][name] = packed_places(np.flatnonzero(mask[rows]), len(rows))
    for name, inventory in table.inventories.items():
        is_written = np.isin(inventory.rows, rows)
        places = np.searchsorted(rows, inventory.rows[is_written])
        limits = {n: packed(getattr(inventory, n)[is_written]) for n in LIMITS}
        found['inventories'][name] = {'of': packed_places(places, len(rows)), **limits}
    return found


def decoded(found: Line) -> dict[str, Mapping[str, Any] | None]:
    """Return the providers of a line by uuid; None for one that is gone."""
    if 'uuids' not in found:
        return {uuid: each and _of_form_1(each) for uuid, each in found.items()}
    made: list[Line] = [
        {'parent': parent, 'inventories': {}, 'traits': [], 'aggregates': []}
        for parent in found['parents']
    ]
    for kind in ('traits', 'aggregates'):
        for name, places in found[kind].items():
            for place in unpacked(places).tolist():
                made[place][kind].append(name)
    for name, columns in found['inventories'].items():
        values = [unpacked(columns[each]).tolist() for each in ('of', *LIMITS)]
        for place, *limits in zip(*values, strict=True):
            made[place]['inventories'][name] = dict(zip(LIMITS, limits, strict=True))
    gone = dict.fromkeys(found['gone'])
    return {**dict(zip(found['uuids'], made, strict=True)), **gone}


def _of_form_1(provider: Line) -> Line:
    inventories = provider['inventories'].items()
    named = {n: dict(zip(LIMITS, limits, strict=True)) for n, limits in inventories}
    return {**provider, 'inventories': named}
