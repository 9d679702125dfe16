# SPDX-License-Identifier: Apache-2.0
"""Packed numbers, and orders of hosts as changes of the order before."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched.scheduler.columns import Floats, Mask, Rows

LONGEST_LIST = 16
"""A longer list of numbers is packed."""
PACKED = 'packed'
_WIDTHS = {'2': '<u2', '4': '<u4', '8': '<i8', 'f': '<f8', 'd': '<i4', 'b': 'u1'}
_PLACE_BITS = 16

Line = dict[str, Any]


def packed(numbers: NDArray[Any]) -> Any:
    """Return numbers in a short form that unpacked() reads."""
    if len(numbers) <= LONGEST_LIST:
        return numbers.tolist()
    if numbers.dtype.kind == 'f':
        return _packed('f', numbers)
    most = 1 << 32 if numbers.min() < 0 else int(numbers.max())
    width = '2' if most < 1 << 16 else '4' if most < 1 << 32 else '8'
    return _packed(width, numbers)


def packed_places(places: Rows, among: int) -> Any:
    """Return places among so many, in a form that unpacked() reads: a bit for each
    place if that is shorter."""
    if len(places) * _PLACE_BITS <= among or (np.diff(places) < 1).any():
        return packed(places)
    return _packed('b', np.packbits(_mask(places, among)))


def _packed(width: str, numbers: NDArray[Any]) -> Line:
    stored = numbers.astype(_WIDTHS[width]).tobytes()
    return {PACKED: width + base64.b64encode(stored).decode()}


def unpacked(found: Any) -> NDArray[Any]:
    """Return the numbers of a short form."""
    if isinstance(found, list):
        return np.array(found, None if found else np.intp)
    width, stored = found[PACKED][0], found[PACKED][1:]
    numbers = np.frombuffer(base64.b64decode(stored), _WIDTHS[width])
    if width == 'b':
        return np.flatnonzero(np.unpackbits(numbers))
    return np.cumsum(numbers) if width == 'd' else numbers


def _mask(places: Rows, among: int) -> Mask:
    mask = np.zeros(among, bool)
    mask[places] = True
    return mask


class HostOrder:
    """All hosts in an order, with a total for each row; it is never modified.

    Any hosts taken out of it keep their order. So an order of some hosts is written as
    the few that have moved, and as which hosts they are.
    """

    def __init__(
        self, hosts: int, rows: Rows | None = None, totals: Floats | None = None
    ) -> None:
        self.rows: Rows = np.arange(hosts) if rows is None else rows
        self.totals: Floats = np.full(hosts, np.nan) if totals is None else totals

    def places(self, rows: Rows) -> Rows:
        """Return the places of some rows in this order, ascending."""
        if len(rows) == len(self.rows):
            return np.arange(len(rows))
        return np.flatnonzero(_mask(rows, len(self.rows))[self.rows])

    def changes(self, rows: Rows, totals: Floats | None = None) -> Line:
        """Return the changes, for changed(), that give some rows their order and
        totals."""
        found = self._moves(rows)
        if totals is None:
            return found
        # as bits: of numbers, -0.0 is 0.0, and NaN is not NaN
        bits = np.asarray(totals, float).view(np.int64)
        differs = self.totals[rows].view(np.int64) != bits
        if differs.any():
            bits, changed = bits[differs], totals[differs]
            is_new = np.append(True, bits[1:] != bits[:-1])
            places = self.changed(found).places(rows)
            found |= {
                'places': packed_places(places[differs], len(self.rows)),
                'starts': packed(np.flatnonzero(is_new)),
                'totals': packed(changed[is_new]),
            }
        return found

    def _moves(self, rows: Rows) -> Line:
        """Return the runs of this order that stand one after the other in the new
        order."""
        places = self.places(rows)
        if np.array_equal(self.rows[places], rows):
            return {}
        ranks = np.empty_like(self.rows)
        ranks[self.rows[places]] = np.arange(len(places))
        wanted = ranks[rows]
        begins = np.flatnonzero(np.diff(wanted, prepend=-2) != 1)
        ends = np.append(begins[1:], len(wanted)) - 1
        bounds = np.append(places, len(self.rows))  # others follow the host before them
        bounds[0] = 0
        firsts = bounds[wanted[begins]]
        counts = bounds[wanted[ends] + 1] - firsts
        return {'firsts': packed(firsts), 'counts': packed(counts)}

    def changed(self, changes: Line) -> HostOrder:
        """Return the order after some changes."""
        rows, totals = self.rows, self.totals
        if 'firsts' in changes:
            firsts, counts = (
                unpacked(changes[name]).astype(np.intp) for name in ('firsts', 'counts')
            )
            steps = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
            rows = rows[np.arange(len(rows)) + steps]
        if 'totals' in changes:
            places, totals = unpacked(changes['places']), totals.copy()
            counts = np.diff(unpacked(changes['starts']), append=len(places))
            totals[rows[places]] = np.repeat(unpacked(changes['totals']), counts)
        return HostOrder(len(rows), rows, totals)
