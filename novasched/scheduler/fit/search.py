# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a host the nodes of a guest get.

The answer is the first in the order of ``order.py`` in which every pair of nodes
fits, and devices and networks agree; each pair is tested with the guest as it was
asked for. Pairs are tested once, and no choice is made that cannot be completed.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol

from novasched.scheduler.fit import explanation, networks, order
from novasched.scheduler.fit.explanation import Refusals
from novasched.scheduler.fit.guests import Guest, GuestCell
from novasched.scheduler.fit.matching import bits, completable
from novasched.scheduler.fit.pair import Refused, test_pair
from novasched.scheduler.fit.topology import HostCell, Limits
from novasched.scheduler.reasons import Code, Reason


class Devices(order.CountsDevices, Protocol):
    """What the search asks of the devices of a host."""

    def supports(self, nodes: frozenset[int]) -> bool:
        """Return True if the guest gets its devices when it is on these nodes."""

    def sight(self, cell_id: int) -> Hashable:
        """Return what supports() sees of a node; like nodes have equal ones."""

    def why(self, nodes: frozenset[int]) -> Reason:
        """Return why supports() says no."""


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
    if not 0 < len(guest.cells) <= len(cells):
        return Attempt(False, guest)
    tried = order.ordered(cells, guest, devices, pack)
    fits = Fits(tried, guest, limits)
    agrees = Agreement(tried, limits, devices)
    placed = _at_once(fits, agrees) or _first(fits, agrees)
    if placed is None:
        return Attempt(False, guest)
    return Attempt(True, dataclasses.replace(guest, cells=fits.on(placed)))


def explain(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: Limits | None,
    devices: Devices | None,
    pack: bool,
) -> Reason:
    """Return why a guest does not fit onto a host: the first thing that is short.

    Nova's search can miss a place that there is; then the reason says so.
    """
    count = len(guest.cells)
    if count > len(cells):
        return Reason(Code.NODES_MISSING, f'{len(cells)} of {count} NUMA cells')
    tried = order.ordered(cells, guest, devices, pack)
    fits = Fits(tried, guest, limits)
    able = [fits.able(node) for node in range(count)]
    if 0 in able:
        return explanation.unplaced(fits.refused(able.index(0), cells), count)
    kinds = [0] * len(cells)
    if not completable(able, (1 << len(cells)) - 1, kinds, [count]):
        return explanation.contended([_ids(tried, mask) for mask in able])
    placed = _choice(able, kinds, [[count]])
    return Agreement(tried, limits, devices).why_not(placed) or explanation.MISSED


def _ids(cells: Sequence[HostCell], mask: int) -> list[int]:
    return sorted(cells[host].id for host in bits(mask))


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
            self._tested[node, host] = test_pair(cell, wanted, self._limits, reserve)
        return self._tested[node, host]

    def able(self, node: int) -> int:
        """Return the host nodes that can take a guest node, as a mask."""
        return sum(
            1 << host
            for host in range(len(self.cells))
            if isinstance(self.test(node, host), GuestCell)
        )

    def refused(self, node: int, cells: Sequence[HostCell]) -> Refusals:
        """Return why each host node cannot take a guest node, in the host's order."""
        hosts = {cell.id: host for host, cell in enumerate(self.cells)}
        tested = ((cell.id, self.test(node, hosts[cell.id])) for cell in cells)
        by_cell = [(n, found) for n, found in tested if isinstance(found, Refused)]
        return Refusals(node, by_cell)

    def on(self, placed: Sequence[int]) -> tuple[GuestCell, ...]:
        """Return the guest nodes as they are on host nodes that can take them."""
        tested = itertools.starmap(self.test, enumerate(placed))
        return tuple(cell for cell in tested if isinstance(cell, GuestCell))


class Agreement:
    """Whether devices and networks agree to a choice of host nodes, by position."""

    def __init__(
        self, cells: Sequence[HostCell], limits: Limits | None, devices: Devices | None
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
        return not (asked and networks.elsewhere(self._cells, ids, asked))

    def why_not(self, placed: Sequence[int]) -> Reason | None:
        """Return what there is only on other nodes; None if they agree."""
        ids = frozenset(self._cells[host].id for host in placed)
        if self._devices and not self._devices.supports(ids):
            return self._devices.why(ids)
        asked = self._networks
        missed = asked and networks.elsewhere(self._cells, ids, asked)
        if not missed:
            return None
        nodes = explanation.listed('cell', sorted(ids))
        return Reason(Code.NETWORKS_ELSEWHERE, f'{missed} only away from {nodes}')

    def kinds(self) -> list[int]:
        """Return the kind of each host node; it makes no odds which one of a kind."""
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(self._seen(c), len(numbers)) for c in self._cells]

    def _seen(self, cell: HostCell) -> Hashable:
        return (
            self._devices.sight(cell.id) if self._devices else None,
            networks.sight(cell, self._networks) if self._networks else None,
        )


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
    mixes = [
        mix
        for mix in _mixes([kinds.count(kind) for kind in range(len(set(kinds)))], able)
        if agrees(_sample(kinds, mix)) and completable(able, free, kinds, mix)
    ]
    return _choice(able, kinds, mixes) if mixes else None


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
