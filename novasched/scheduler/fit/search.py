# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a host the nodes of a guest get.

The answer is the first in the order of ``order.py`` in which every pair of nodes
fits, and devices and networks agree; each pair is tested with the guest as it was
asked for. Pairs are tested once, and no choice is made that cannot be completed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from novasched.scheduler.fit import order
from novasched.scheduler.fit.agreement import Agreement, Devices
from novasched.scheduler.fit.assignment import bits, completable
from novasched.scheduler.fit.guests import Guest, GuestCell
from novasched.scheduler.fit.pair import fit_pair
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.fit.topology import HostCell, Limits

FEW_MIXES = 64
FIRST_TRIED = 128
"""Where there are more mixes of nodes than a few, one of the first choices may do."""


class Attempt(NamedTuple):
    """Whether a guest fits, and the guest: fitted, or as the search left it."""

    fits: bool
    guest: Guest


def fit(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: Limits | None,
    devices: Devices | None,
    pack: bool,
) -> Attempt:
    """Fit a guest onto a host; one that does not fit is returned as it came."""
    return fit_each(cells, guest, limits, [devices], pack)[0]


def fit_each(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: Limits | None,
    each: Sequence[Devices | None],
    pack: bool,
) -> list[Attempt]:
    """Fit a guest onto a host once for each of some devices.

    These differ in the providers that they may come from, and in nothing else, so
    that the order of the nodes is one, and pairs of nodes are tested once for all.
    """
    if not each or not 0 < len(guest.cells) <= len(cells):
        return [Attempt(False, guest)] * len(each)
    tried = order.ordered(cells, guest, each[0], pack)
    fits = Fits(tried, guest, limits)
    found = []
    for devices in each:
        placed = first_choice(fits, Agreement(tried, limits, devices))
        fitted = () if placed is None else fits.on(placed)
        after = dataclasses.replace(guest, cells=fitted) if fitted else guest
        found.append(Attempt(placed is not None, after))
    return found


def first_choice(fits: Fits, agrees: Agreement) -> list[int] | None:
    """Return the first choice of host nodes that will do; None if none does."""
    if len(fits.guest.cells) == 1:
        return _alone(fits, agrees)
    return _at_once(fits, agrees) or _first(fits, agrees)


def _alone(fits: Fits, agrees: Agreement) -> list[int] | None:
    """Return the first host node that will do for the only guest node."""
    for host in range(len(fits.cells)):
        if isinstance(fits.test(0, host), GuestCell) and agrees([host]):
            return [host]
    return None


class Fits:
    """Which host node can take which guest node; by position, tested when asked."""

    def __init__(
        self, cells: Sequence[HostCell], guest: Guest, limits: Limits | None
    ) -> None:
        self.cells = cells
        self.guest = guest
        self._limits = limits
        self._tested: dict[tuple[int, int], GuestCell | Refused] = {}

    def test(self, node: int, host: int) -> GuestCell | Refused:
        """Return the guest node as it is on a host node, or why it cannot be."""
        if (node, host) not in self._tested:
            reserve = int(self.guest.isolates_emulator and node == 0)
            wanted, cell = self.guest.cells[node], self.cells[host]
            self._tested[node, host] = fit_pair(cell, wanted, self._limits, reserve)
        return self._tested[node, host]

    def able(self, node: int) -> int:
        """Return the host nodes that can take a guest node, as a mask."""
        return sum(
            1 << host
            for host in range(len(self.cells))
            if isinstance(self.test(node, host), GuestCell)
        )

    def on(self, placed: Sequence[int]) -> tuple[GuestCell, ...]:
        """Return the guest nodes as they are on host nodes that can take them."""
        tested = itertools.starmap(self.test, enumerate(placed))
        return tuple(cell for cell in tested if isinstance(cell, GuestCell))


def _at_once(fits: Fits, agrees: Agreement) -> list[int] | None:
    """Return the first free host node for each guest node in turn, if that will do.

    If it will, no choice comes before it; on most hosts it does.
    """
    placed: list[int] = []
    for node in range(len(fits.guest.cells)):
        for host in range(len(fits.cells)):
            if host not in placed and isinstance(fits.test(node, host), GuestCell):
                placed.append(host)
                break
        else:
            return None
    return placed if agrees(placed) else None


def _first(fits: Fits, agrees: Agreement) -> list[int] | None:
    """Return the first choice of host nodes that will do; None if none does."""
    able = [fits.able(node) for node in range(len(fits.guest.cells))]
    free = (1 << len(fits.cells)) - 1
    if not completable(able, free, [0] * len(fits.cells), [len(able)]):
        return None
    kinds = agrees.kinds()
    sizes = [kinds.count(kind) for kind in range(len(set(kinds)))]
    several = itertools.islice(_mixes(sizes, able), FEW_MIXES + 1)
    if sum(1 for _ in several) > FEW_MIXES:
        tried = itertools.islice(_choices(able, free), FIRST_TRIED)
        if (placed := next(filter(agrees, tried), None)) is not None:
            return placed
    mixes = [
        mix
        for mix in _mixes(sizes, able)
        if agrees(_sample(kinds, mix)) and completable(able, free, kinds, mix)
    ]
    return _choice(able, kinds, mixes) if mixes else None


def _choices(
    able: Sequence[int], free: int, placed: Sequence[int] = ()
) -> Iterator[list[int]]:
    """Yield the choices of host nodes that go on from those placed, in their order."""
    if len(placed) == len(able):
        yield list(placed)
        return
    rest = able[len(placed) + 1 :]
    kinds, most = [0] * free.bit_length(), [len(rest)]
    for host in bits(able[len(placed)] & free):
        left = free & ~(1 << host)
        if completable(rest, left, kinds, most):
            yield from _choices(able, left, [*placed, host])


def _mixes(sizes: Sequence[int], able: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return every way to take one host node per guest node, by kinds."""

    def rest(sizes: Sequence[int], wanted: int) -> Iterator[tuple[int, ...]]:
        if not sizes:
            yield ()
            return
        others = sum(sizes[1:])
        for taken in range(max(0, wanted - others), min(sizes[0], wanted) + 1):
            for mix in rest(sizes[1:], wanted - taken):
                yield (taken, *mix)

    return rest(sizes, len(able))


def _sample(kinds: Sequence[int], mix: Sequence[int]) -> list[int]:
    """Return the first host nodes of each kind, as many as the mix takes."""
    left = list(mix)
    placed = []
    for host, kind in enumerate(kinds):
        if left[kind]:
            left[kind] -= 1
            placed.append(host)
    return placed


def _choice(
    able: Sequence[int], kinds: Sequence[int], mixes: Sequence[Sequence[int]]
) -> list[int]:
    """Return the first choice of host nodes in one of the mixes, which there is."""
    placed: list[int] = []
    free = (1 << len(kinds)) - 1
    for node in range(len(able)):
        rest = able[node + 1 :]
        steps = (_step(host, free, kinds, mixes) for host in bits(able[node] & free))
        host, free, mixes = next(
            step
            for step in steps
            if any(completable(rest, step.free, kinds, mix) for mix in step.mixes)
        )
        placed.append(host)
    return placed


class _Step(NamedTuple):
    """A host node that is taken, those then free, and what is left of the mixes."""

    host: int
    free: int
    mixes: Sequence[Sequence[int]]


def _step(
    host: int, free: int, kinds: Sequence[int], mixes: Sequence[Sequence[int]]
) -> _Step:
    kind = kinds[host]
    left = [_less(mix, kind) for mix in mixes if mix[kind]]
    return _Step(host, free & ~(1 << host), left)


def _less(mix: Sequence[int], kind: int) -> list[int]:
    return [count - (number == kind) for number, count in enumerate(mix)]
