# SPDX-License-Identifier: Apache-2.0
"""Nova's search for host cells, with its defects: it remembers, and changes the guest.

Pairs of cells are remembered by host id and by the guest cell's id at the time. That is
the id of the host cell that it was last put on. So one pair is refused or accepted
because of another. Page sizes and host CPUs stay with a guest cell. Nova:
virt/hardware.py, numa_fit_instance_to_host.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from novasched.scheduler.fit.numa import examine
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.search import Attempt, NumaAffinity, ordered
from novasched.scheduler.fit.topology import CellLimits, Guest, GuestCell, HostCell

PATIENCE = 2000
"""Nova goes on; with eight cells of sixteen to choose, for hours."""


def fit_as_nova(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: CellLimits | None,
    devices: HostDevices | None,
    pack: bool,
    patience: int = PATIENCE,
) -> Attempt:
    """Fit a guest onto a host; one that does not fit is as the search left it.

    After ``patience`` tries the search is cut short where its end is known.
    """
    if not 0 < len(guest.cells) <= len(cells):
        return Attempt(False, guest)
    tried = ordered(cells, guest, devices, pack)
    agrees = NumaAffinity(tried, limits, devices)
    search = _Search(tried, guest, limits)
    fits = search.run(agrees, patience)
    return Attempt(fits, dataclasses.replace(guest, cells=tuple(search.guests)))


class _Search:
    """The guest cells as they are now, and the pairs that are remembered."""

    def __init__(
        self, cells: Sequence[HostCell], guest: Guest, limits: CellLimits | None
    ) -> None:
        self._cells = cells
        self._limits = limits
        self._reserve = int(guest.isolates_emulator)
        self._good: set[tuple[int, int]] = set()
        self._bad: set[tuple[int, int]] = set()
        self.guests = list(guest.cells)

    def run(self, agrees: NumaAffinity, patience: int) -> bool:
        """Try every choice of host cells until one is accepted.

        If a try changed nothing, other choices with the same beginning would fail
        at the same place, and are left out.
        """
        chosen: list[int] | None = list(range(len(self.guests)))
        tries = 0
        while chosen is not None:
            tries += 1
            if tries == patience and (ends := self._ends(agrees)) is not None:
                return ends
            before = self._state()
            reached = self._tried(chosen)
            if reached == len(chosen):
                if agrees(chosen):
                    return True
                reached -= 1
            elif self._state() != before:
                reached = len(chosen) - 1
            chosen = following(chosen, reached, len(self._cells))
        return False

    def _ends(self, agrees: NumaAffinity) -> bool | None:
        """Return how the search ends; None if that takes more tries.

        If no set of host cells is agreed to, no choice is accepted. If every cell is
        accepted everywhere, the first choice from an agreed set is accepted. Host CPUs
        then come from one try instead of many.
        """
        count = len(self.guests)
        sets = itertools.combinations(range(len(self._cells)), count)
        chosen = next(filter(agrees, sets), None)
        last = range(len(self._cells) - 1, -1, -1)[:count]
        if not self._accepts_everywhere():
            return False if chosen is None else None
        self._good.clear()
        self._tried(last if chosen is None else chosen)
        return chosen is not None

    def _accepts_everywhere(self) -> bool:
        return not self._bad and not any(
            examine(cell, guest, self._limits, self._reserve if guest_cell == 0 else 0)[
                1
            ]
            for guest_cell, guest in enumerate(self.guests)
            for cell in self._cells
        )

    def _state(self) -> tuple[list[GuestCell], int]:
        return list(self.guests), len(self._good) + len(self._bad)

    def _tried(self, chosen: Sequence[int]) -> int:
        """Put guest cells on host cells; return how many there was a place for."""
        for guest_cell, host in enumerate(chosen):
            if not self._accepts(guest_cell, self._cells[host]):
                return guest_cell
        return len(chosen)

    def _accepts(self, guest_cell: int, cell: HostCell) -> bool:
        guest = self.guests[guest_cell]
        pair = (cell.id, guest.id)
        if pair in self._bad:
            return False
        if pair not in self._good:
            reserve = self._reserve if guest_cell == 0 else 0
            guest, refused = examine(cell, guest, self._limits, reserve)
            (self._bad if refused else self._good).add(pair)
            self.guests[guest_cell] = guest
            if refused:
                return False
        if guest.id != cell.id:
            self.guests[guest_cell] = dataclasses.replace(guest, id=cell.id)
        return True


def following(chosen: Sequence[int], place: int, count: int) -> list[int] | None:
    """Return the next choice that differs at a place or before; None if there is none.

    Choices are distinct numbers below ``count``, in lexicographic order.
    """
    for at in range(place, -1, -1):
        begin = list(chosen[:at])
        later = [n for n in range(chosen[at] + 1, count) if n not in begin]
        if later:
            begin.append(later[0])
            rest = (n for n in range(count) if n not in begin)
            return [*begin, *(n for n, _ in zip(rest, chosen[at + 1 :], strict=False))]
    return None
