# SPDX-License-Identifier: Apache-2.0
"""Search for the host cells of a guest.

The answer is the first choice, in the order of ``ordered()``, in which every pair of
cells fits, and devices and networks agree. Each pair is tested once, with the guest as
it was asked for. No choice is made that cannot be completed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from novasched.scheduler.fit.numa import CellRefusal, fit_pair
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.topology import (
    CellLimits,
    Guest,
    GuestCell,
    HostCell,
    Networks,
)

FEW_MIXES = 64
FIRST_TRIED = 128
"""Where there are more mixes of cells than a few, one of the first choices may do."""


class Attempt(NamedTuple):
    """Result of a search: the guest is fitted, or as the search left it."""

    fits: bool
    guest: Guest


def fit_each(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: CellLimits | None,
    each: Sequence[HostDevices | None],
    pack: bool,
) -> list[Attempt]:
    """Fit a guest onto a host once for each of some devices.

    These differ in their providers only, so pairs of cells are tested once for all. A
    guest that does not fit is returned as it came.
    """
    if not each or not 0 < len(guest.cells) <= len(cells):
        return [Attempt(False, guest)] * len(each)
    tried = ordered(cells, guest, each[0], pack)
    fits = Fits(tried, guest, limits)
    found = []
    for devices in each:
        placed = first_choice(fits, NumaAffinity(tried, limits, devices))
        fitted = () if placed is None else fits.on(placed)
        after = dataclasses.replace(guest, cells=fitted) if fitted else guest
        found.append(Attempt(placed is not None, after))
    return found


def first_choice(fits: Fits, agrees: NumaAffinity) -> list[int] | None:
    """Return the first choice of host cells that fits; None if none does."""
    if len(fits.guest.cells) == 1:
        return _alone(fits, agrees)
    return _at_once(fits, agrees) or _first(fits, agrees)


def _alone(fits: Fits, agrees: NumaAffinity) -> list[int] | None:
    """Return the first host cell that fits the only guest cell."""
    for host in range(len(fits.cells)):
        if isinstance(fits.test(0, host), GuestCell) and agrees([host]):
            return [host]
    return None


class Fits:
    """Fits of guest cells on host cells, by position, each tested once when asked."""

    def __init__(
        self, cells: Sequence[HostCell], guest: Guest, limits: CellLimits | None
    ) -> None:
        self.cells = cells
        self.guest = guest
        self._limits = limits
        self._tested: dict[tuple[int, int], GuestCell | CellRefusal] = {}

    def test(self, guest_cell: int, host: int) -> GuestCell | CellRefusal:
        """Return the guest cell as it is on a host cell, or why it cannot be."""
        if (guest_cell, host) not in self._tested:
            reserve = int(self.guest.isolates_emulator and guest_cell == 0)
            wanted = self.guest.cells[guest_cell]
            cell = self.cells[host]
            self._tested[guest_cell, host] = fit_pair(
                cell, wanted, self._limits, reserve
            )
        return self._tested[guest_cell, host]

    def able(self, guest_cell: int) -> int:
        """Return the host cells that can take a guest cell, as a mask."""
        return sum(
            1 << host
            for host in range(len(self.cells))
            if isinstance(self.test(guest_cell, host), GuestCell)
        )

    def on(self, placed: Sequence[int]) -> tuple[GuestCell, ...]:
        """Return the guest cells as they are on host cells that can take them."""
        tested = itertools.starmap(self.test, enumerate(placed))
        return tuple(cell for cell in tested if isinstance(cell, GuestCell))


def _at_once(fits: Fits, agrees: NumaAffinity) -> list[int] | None:
    """Return the first free host cell for each guest cell in turn, if that fits.

    If it will, no choice comes before it; on most hosts it does.
    """
    placed: list[int] = []
    for guest_cell in range(len(fits.guest.cells)):
        for host in range(len(fits.cells)):
            if host not in placed and isinstance(
                fits.test(guest_cell, host), GuestCell
            ):
                placed.append(host)
                break
        else:
            return None
    return placed if agrees(placed) else None


def _first(fits: Fits, agrees: NumaAffinity) -> list[int] | None:
    """Return the first choice of host cells that fits; None if none does."""
    count, hosts = len(fits.guest.cells), len(fits.cells)
    able = [fits.able(guest_cell) for guest_cell in range(count)]
    free, alike, any_mix = (1 << hosts) - 1, [0] * hosts, [[count]]
    if not completable(able, free, alike, [count]):
        return None
    kinds = agrees.kinds()
    sizes = [kinds.count(kind) for kind in range(len(set(kinds)))]
    several = itertools.islice(_mixes(sizes, count), FEW_MIXES + 1)
    if sum(1 for _ in several) > FEW_MIXES:
        tried = itertools.islice(_choices(able, free, alike, any_mix), FIRST_TRIED)
        if (placed := next(filter(agrees, tried), None)) is not None:
            return placed
    mixes = [
        mix
        for mix in _mixes(sizes, count)
        if agrees(_sample(kinds, mix)) and completable(able, free, kinds, mix)
    ]
    return next(_choices(able, free, kinds, mixes), None)


def _choices(
    able: Sequence[int], free: int, kinds: Sequence[int], mixes: Sequence[Sequence[int]]
) -> Iterator[list[int]]:
    """Yield the choices of free host cells in one of the mixes, in their order."""
    if not able:
        yield []
        return
    first, rest = able[0], able[1:]
    for host in bits(first & free):
        left = free & ~(1 << host)
        fewer = [_less(mix, kinds[host]) for mix in mixes if mix[kinds[host]]]
        if any(completable(rest, left, kinds, mix) for mix in fewer):
            for others in _choices(rest, left, kinds, fewer):
                yield [host, *others]


def _less(mix: Sequence[int], kind: int) -> list[int]:
    return [count - (number == kind) for number, count in enumerate(mix)]


def _mixes(sizes: Sequence[int], wanted: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to take so many host cells, as a number of each kind."""
    if not sizes:
        yield ()
        return
    first, others = sizes[0], sizes[1:]
    for taken in range(max(0, wanted - sum(others)), min(first, wanted) + 1):
        for mix in _mixes(others, wanted - taken):
            yield (taken, *mix)


def _sample(kinds: Sequence[int], mix: Sequence[int]) -> list[int]:
    """Return the first host cells of each kind, as many as the mix takes."""
    left = list(mix)
    placed = []
    for host, kind in enumerate(kinds):
        if left[kind]:
            left[kind] -= 1
            placed.append(host)
    return placed


def ordered(
    cells: Sequence[HostCell],
    guest: Guest,
    devices: HostDevices | None,
    pack: bool,
) -> tuple[HostCell, ...]:
    """Return the cells in the order to try them; ``pack`` fills full ones first.

    Where every cell is needed, they stay as they are. Sorts are stable, and the
    last one has the most weight. Nova: virt/hardware.py.
    """
    if len(cells) <= len(guest.cells):
        return tuple(cells)
    tried = sorted(cells, key=lambda cell: cell.free_memory, reverse=not pack)
    if guest.cells[0].pins:
        tried.sort(key=lambda cell: len(cell.free_cpus), reverse=not pack)
    else:
        tried.sort(key=lambda cell: cell.cpu_usage, reverse=pack)
    if devices is not None:
        counted = {cell.id: devices.on_cell(cell.id) for cell in tried}
        tried.sort(key=lambda cell: counted[cell.id], reverse=devices.wanted)
    return tuple(tried)


class NumaAffinity:
    """Affinity of devices and networks to a choice of host cells, by position.

    Calling it says whether both agree to the choice.
    """

    def __init__(
        self,
        cells: Sequence[HostCell],
        limits: CellLimits | None,
        devices: HostDevices | None,
    ) -> None:
        self._cells = cells
        self._devices = devices if devices and devices.wanted else None
        self._networks = limits.networks if limits else None
        self._known: dict[frozenset[int], bool] = {}

    def __call__(self, placed: Sequence[int]) -> bool:
        ids = frozenset(self._cells[host].id for host in placed)
        if ids not in self._known:
            self._known[ids] = self._agrees(ids)
        return self._known[ids]

    def _agrees(self, ids: frozenset[int]) -> bool:
        if self._devices and not self._devices.supports(ids):
            return False
        asked = self._networks
        return not (asked and networks_elsewhere(self._cells, ids, asked))

    def kinds(self) -> list[int]:
        """Return the equivalence class of each host cell, as a number."""
        numbers: dict[Hashable, int] = {}
        return [
            numbers.setdefault(self._class_of(c), len(numbers)) for c in self._cells
        ]

    def _class_of(self, cell: HostCell) -> Hashable:
        return (
            self._devices.cell_class(cell.id) if self._devices else None,
            network_class(cell, self._networks) if self._networks else None,
        )


def networks_elsewhere(
    cells: Collection[HostCell], chosen: Collection[int], asked: Networks
) -> str:
    """Return the devices that only cells near to none chosen have; '' if none.

    ``chosen`` are ids of cells. A network that no cell is near to is no constraint.
    """
    near = _networks_of(cell for cell in cells if cell.id in chosen)
    far = _networks_of(cell for cell in cells if cell.id not in chosen)
    missed = asked.physnets & (far.physnets - near.physnets)
    words = [f'physical network {name}' for name in sorted(missed)]
    if asked.tunneled and far.tunneled and not near.tunneled:
        words.append('tunnelled networks')
    return ' and '.join(words)


def network_class(cell: HostCell, asked: Networks) -> Networks:
    """Return the equivalence class of a cell for networks_elsewhere()."""
    near = _networks_of([cell])
    return Networks(near.physnets & asked.physnets, near.tunneled and asked.tunneled)


def _networks_of(cells: Iterable[HostCell]) -> Networks:
    """Return the networks that any of the cells is near to."""
    known = [cell.network_metadata for cell in cells if cell.network_metadata]
    physnets = frozenset[str]().union(*(networks.physnets for networks in known))
    return Networks(physnets, any(networks.tunneled for networks in known))


def bits(mask: int) -> Iterator[int]:
    """Return the positions of a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def completable(
    able: Sequence[int], free: int, kinds: Sequence[int], most: Sequence[int]
) -> bool:
    """Return whether each guest cell can have a free host cell that is able.

    Found by matching, without trying all ways. ``able`` has a bit mask of host cells
    for each guest cell. ``kinds`` has the kind of each host cell, ``most`` how many
    host cells of a kind may be used.
    """
    matching = _Matching(able, free, kinds, most)
    return all(matching.gain(guest, set(), set()) for guest in range(len(able)))


class _Matching:
    """A matching that grows by one guest cell at a time, along augmenting paths."""

    def __init__(
        self, able: Sequence[int], free: int, kinds: Sequence[int], most: Sequence[int]
    ) -> None:
        self._able = [mask & free for mask in able]
        self._kinds = kinds
        self._left = list(most)
        self._guest_of: dict[int, int] = {}

    def gain(self, guest: int, seen: set[int], full: set[int]) -> bool:
        """Match one more guest cell; return False if there is no way.

        ``seen`` are host cells, ``full`` kinds, that were tried on this path.
        """
        for host in bits(self._able[guest]):
            if host in seen:
                continue
            seen.add(host)
            if self._vacate(host, seen, full):
                self._guest_of[host] = guest
                return True
        return False

    def _vacate(self, host: int, seen: set[int], full: set[int]) -> bool:
        """Make a host cell available, if need be by moving another guest cell."""
        kind = self._kinds[host]
        if host in self._guest_of:
            return self.gain(self._guest_of[host], seen, full)
        if self._left[kind]:
            self._left[kind] -= 1
            return True
        if kind in full:
            return False
        full.add(kind)
        return any(
            self._release(other, seen, full)
            for other in list(self._guest_of)
            if self._kinds[other] == kind and other not in seen
        )

    def _release(self, host: int, seen: set[int], full: set[int]) -> bool:
        seen.add(host)
        if not self.gain(self._guest_of[host], seen, full):
            return False
        del self._guest_of[host]
        return True
