# SPDX-License-Identifier: Apache-2.0
"""Vectorised precheck: rejects hosts whose NUMA cells cannot hold the guest.

The largest guest cell needs room in some cell, the second largest in another, and so
on. Free CPUs, CPUs and memory are compared by rank. A host that passes may fail to fit,
but no host that fits is rejected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from novasched.scheduler.columns import Categories, Mask, PerValue
from novasched.scheduler.fit.parse import HostTopology
from novasched.scheduler.fit.topology import ANY, LARGE, SMALL, Guest, HostCell, Pages

RANKS = 4
MOST_PAGE_SIZES = 16
NO_CELL = -1
MOST = 2**62
Ranked = PerValue[HostTopology | None]


class Precheck:
    """Free amounts of each topology, largest cell first, kept across requests."""

    def __init__(self) -> None:
        self._free_cpus = _ranked_by(lambda cell: len(cell.free_cpus))
        self._cpus = _ranked_by(lambda cell: len(cell.cpuset))
        self._memory = functools.lru_cache(MOST_PAGE_SIZES)(_memory)

    def may_fit(
        self, topologies: Categories[HostTopology | None], guest: Guest
    ) -> Mask:
        """Return False for each host that cannot take the guest in any case."""
        cells = guest.cells
        reserve = [int(guest.isolates_emulator), *[0] * len(cells)]
        pinned = [
            len(cell.pcpuset) + extra if cell.pins else 0
            for cell, extra in zip(cells, reserve, strict=False)
        ]
        shared = [len(cell.cpuset) if cell.shares else 0 for cell in cells]
        found = _holds(self._free_cpus, topologies, pinned)
        found &= _holds(self._cpus, topologies, shared)
        asked = {
            (cell.pagesize or 0, cell.pins, cell.within_free_memory) for cell in cells
        }
        if len(asked) == 1:
            ranked = self._memory(*asked.pop())
            found &= _holds(ranked, topologies, [cell.memory * 1024 for cell in cells])
        return found


def _ranked_by(amount: Callable[[HostCell], int]) -> Ranked:
    return Ranked(lambda topology: _ranked(topology, amount), shape=(RANKS,))


def _ranked(
    topology: HostTopology | None, amount: Callable[[HostCell], int]
) -> list[int]:
    """Return the largest amounts of all cells; NO_CELL where there are too few."""
    cells = topology.cells if topology is not None else ()
    found = sorted((_counted(amount(cell)) for cell in cells), reverse=True)
    return [*found, *[NO_CELL] * RANKS][:RANKS]


def _counted(amount: int) -> int:
    """Return an amount as it fits into a column."""
    return min(max(amount, 0), MOST)


def _holds(
    ranked: Ranked, topologies: Categories[HostTopology | None], needs: Sequence[int]
) -> Mask:
    largest = sorted(map(_counted, needs), reverse=True)[:RANKS]
    found = ranked.of(topologies)[:, : len(largest)] >= np.array(largest)
    enough: Mask = np.logical_and.reduce(found, axis=1)
    return enough


def _memory(pagesize: int, pins: bool, within_free: bool) -> Ranked:
    def room_kb(cell: HostCell) -> int:
        if not (pins and within_free):
            return _room_kb(cell, pagesize, pins)
        return min(cell.free_memory * 1024, _room_kb(cell, pagesize, False))

    return _ranked_by(room_kb)


def _room_kb(cell: HostCell, pagesize: int, pins: bool) -> int:
    """Return the KiB that guests may have on a cell in usable pages.

    Without a page size, guests that share CPUs may share memory, too.
    """
    smallest = cell.smallest_pages
    if pagesize == 0:
        if smallest is None:
            return (cell.free_memory if pins else cell.memory) * 1024
        return (smallest.free if pins else smallest.total) * smallest.size_kb
    sizes = [
        pages.free * pages.size_kb
        for pages in cell.mempages
        if _will_do(pages, pagesize, smallest)
    ]
    return max(sizes, default=0)


def _will_do(pages: Pages, pagesize: int, smallest: Pages | None) -> bool:
    if pagesize in (SMALL, LARGE):
        is_smallest = smallest is not None and pages.size_kb == smallest.size_kb
        return is_smallest == (pagesize == SMALL)
    return pagesize in (ANY, pages.size_kb)
