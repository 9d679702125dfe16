# SPDX-License-Identifier: Apache-2.0
"""Allocation of the PCI requests of a guest from the pools of a host.

A request is served from the pools that match it and are on the cells that its policy
admits. Requests are served in their order, each from what those before it left, without
a second thought. Nova: pci/stats.py, PciDeviceStats.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from novasched.errors import RequestError
from novasched.scheduler.fit.pci import (
    DeviceRequest,
    Pool,
    PoolMismatch,
    Pools,
    ProviderMapping,
    devices_by_cell,
    providers_of,
)
from novasched.scheduler.fit.topology import listed
from novasched.scheduler.reasons import Code, Reason


class AdmittedCells(NamedTuple):
    """Cells whose devices a request may use."""

    cells: frozenset[int | None]
    others: bool = False  # whether it may then use the devices of any cell

    def total(self, devices: Mapping[int | None, int]) -> int:
        """Return how many devices the request may use, given devices by cell."""
        if self.others:
            return sum(devices.values())
        return sum([devices.get(cell, 0) for cell in self.cells])


ANY_CELL = AdmittedCells(frozenset(), others=True)


@dataclass(eq=False)
class PciAllocation:
    """Allocation of one PCI request from the pools of a host."""

    request: DeviceRequest
    providers: Mapping[str | None, int]
    pools: Sequence[Pool]

    def mismatch(self, pool: Pool) -> PoolMismatch | None:
        """Say why no device of a pool would do, leaving cells aside."""
        lost = self.request.mismatch(pool)
        if lost not in (None, PoolMismatch.MIGRATION) or not self.providers:
            return lost
        wanted = self.providers.get(pool.rp_uuid, 0)
        return lost if 0 < wanted <= pool.count else PoolMismatch.PROVIDER

    @functools.cached_property
    def matching(self) -> Mapping[int | None, int]:
        """Devices by cell that match the request, whether they may be used or not."""
        mismatch = self.request.mismatch
        return devices_by_cell(
            [pool for pool in self.pools if mismatch(pool) is not PoolMismatch.SPEC]
        )

    @functools.cached_property
    def usable(self) -> Mapping[int | None, int]:
        """Devices by cell that the request may use."""
        return devices_by_cell(
            [pool for pool in self.pools if self.mismatch(pool) is None]
        )

    @functools.cached_property
    def ambiguous(self) -> bool:
        """True if providers are given and one of the host's is in two pools."""
        if not self.providers:
            return False
        uuids = [pool.rp_uuid for pool in self.pools if pool.rp_uuid is not None]
        return len(set(uuids)) < len(uuids)

    def admitted(
        self, cells: frozenset[int], sockets: Mapping[int, int | None]
    ) -> AdmittedCells:
        """Return the cells whose devices the policy of the request admits.

        Devices that match count even if they may not be used. So a function that was
        not asked for can hide devices on another cell, as in nova.
        """
        if not cells:
            return ANY_CELL
        near = AdmittedCells(cells)
        policy, count = self.request.numa_policy, self.request.count
        if policy == 'required' or near.total(self.matching) >= count:
            return near
        if policy == 'socket':
            return AdmittedCells(_on_sockets_of(cells, sockets))
        near = AdmittedCells(cells | {None})
        others = policy == 'preferred' and near.total(self.matching) < count
        return AdmittedCells(near.cells, others)

    def fits(self, cells: frozenset[int], sockets: Mapping[int, int | None]) -> bool:
        """Return whether the request can be served."""
        if self.ambiguous:
            return False
        total = self.admitted(cells, sockets).total(self.usable)
        return total >= max(self.request.count, 1)

    def left(
        self, cells: frozenset[int], sockets: Mapping[int, int | None]
    ) -> list[Pool]:
        """Return the pools less what the request takes, if it fits."""
        admitted = self.admitted(cells, sockets)
        is_far = [pool.numa_node not in admitted.cells for pool in self.pools]
        taken: dict[int, int] = {}
        wanted = self.request.count
        for i in sorted(range(len(self.pools)), key=is_far.__getitem__):
            pool = self.pools[i]
            if (is_far[i] and not admitted.others) or self.mismatch(pool) is not None:
                continue
            if self.providers:
                taken[i] = self.providers[pool.rp_uuid]
            elif wanted:
                taken[i] = min(pool.count, wanted)
                wanted -= taken[i]
        return [
            pool.less(taken[i]) if i in taken else pool
            for i, pool in enumerate(self.pools)
            if i not in taken or pool.count > taken[i]
        ]

    def why(self, cells: frozenset[int], sockets: Mapping[int, int | None]) -> Reason:
        """Say why the request does not fit: where devices were lost."""
        request = self.request
        if self.ambiguous:
            return Reason(
                Code.PCI_PROVIDER_AMBIGUOUS,
                f'{request}: two pools of the host have one resource provider',
            )
        admitted = self.admitted(cells, sockets)
        lost = self._lost(admitted)
        left, code = sum(pool.count for pool in self.pools), PoolMismatch.SPEC.code
        for step in lost:
            if left >= request.count:
                left, code = left - lost[step], step.code
        free = f'{admitted.total(self.usable)} of {request.count} free'
        parts = [f'{lost[step]} {step.words}' for step in lost]
        if self.providers:
            wanted = sorted(uuid for uuid in self.providers if uuid)
            free = f'{free} of {listed("resource provider", wanted)}'
        return Reason(code, f'{request}: {", ".join([free, *parts])}')

    def _lost(self, admitted: AdmittedCells) -> dict[PoolMismatch, int]:
        """Return how many devices are lost at each step, in their order."""
        lost = dict.fromkeys(PoolMismatch, 0)
        for pool in self.pools:
            step = self.mismatch(pool)
            near = admitted.others or pool.numa_node in admitted.cells
            if not near and step is not PoolMismatch.SPEC:
                step = PoolMismatch.CELL
            if step is not None:
                lost[step] += pool.count
        return {step: count for step, count in lost.items() if count}


def _on_sockets_of(
    cells: frozenset[int], sockets: Mapping[int, int | None]
) -> frozenset[int]:
    """Return all cells on the sockets of some; none if a socket is unknown."""
    if None in sockets.values():
        return frozenset()
    near = {sockets.get(cell) for cell in cells}
    return frozenset(cell for cell, socket in sockets.items() if socket in near)


class DeviceRequestFailed(RequestError):
    """A request for devices cannot be served. Nova: PciDeviceRequestFailed.

    ``left`` has the pools as the requests before it left them.
    """

    def __init__(self, reason: Reason, left: Pools) -> None:
        super().__init__(reason.text)
        self.reason = reason
        self.left = left


class HostDevices:
    """The free devices of a host, as far as the requests of a guest go.

    ``mapping`` belongs to the allocation candidate; ``sockets`` gives the socket of
    each cell of the host, None if unknown.
    """

    def __init__(
        self,
        pools: Pools,
        requests: Sequence[DeviceRequest],
        mapping: ProviderMapping | None,
        sockets: Mapping[int, int | None],
    ) -> None:
        self.wanted = bool(requests)
        self._pools = pools
        self._requests = requests
        self._mapping = mapping
        self._sockets = sockets
        self._supported: dict[Hashable, bool] = {}

    def on_cell(self, cell_id: int) -> int:
        """Return how many free devices of any kind are on a cell."""
        return self._by_cell.get(cell_id, 0)

    def support_key(self, cells: frozenset[int]) -> Hashable:
        """Return a key of supports(): equal keys, equal answers."""
        near = cells.intersection(self._by_cell)
        if not self._asks_for_sockets:
            return bool(cells), near
        return bool(cells), near, frozenset(self._sockets.get(cell) for cell in cells)

    def cell_class(self, cell_id: int) -> Hashable:
        """Return the equivalence class of a cell for supports()."""
        return self._cell_classes[cell_id]

    def supports(self, cells: frozenset[int]) -> bool:
        """Return whether all requests can be served to a guest on these cells.

        Without cells, the guest has no NUMA topology and devices may be anywhere.
        """
        key = self.support_key(cells)
        if (known := self._supported.get(key)) is None:
            short = bool(cells) and self._short(cells)
            known = not short and self._failing(cells) is None
            self._supported[key] = known
        return known

    def apply(self, cells: frozenset[int] | None) -> Pools:
        """Return the pools less the devices that the requests take.

        Raises DeviceRequestFailed with the first request that cannot be served.
        """
        cells = cells or frozenset()
        left: Sequence[Pool] = self._pools
        for allocation in self._in_turn(cells):
            if not allocation.fits(cells, self._sockets):
                reason = allocation.why(cells, self._sockets)
                raise DeviceRequestFailed(reason, tuple(allocation.pools))
            left = allocation.left(cells, self._sockets)
        return tuple(left)

    def why(self, cells: frozenset[int] | None) -> Reason:
        """Say which request cannot be served, and where the devices were lost."""
        cells = cells or frozenset()
        failing = self._failing(cells)
        if failing is None:
            return Reason(Code.REJECTED, 'the PCI devices are free')
        return failing.why(cells, self._sockets)

    def elsewhere(self, cells: frozenset[int]) -> Mapping[int, int]:
        """Return by cell how many devices the request that why() names has there.

        Only cells other than these, with devices that it might use.
        """
        failing = self._failing(cells)
        usable = failing.usable if failing else {}
        return {
            cell: count
            for cell, count in usable.items()
            if cell is not None and cell not in cells
        }

    def _failing(self, cells: frozenset[int]) -> PciAllocation | None:
        """Return the first request that cannot be served."""
        for allocation in self._in_turn(cells):
            if not allocation.fits(cells, self._sockets):
                return allocation
        return None

    def _in_turn(self, cells: frozenset[int]) -> Iterator[PciAllocation]:
        """Yield each request at the pools that those before it left.

        Stop asking for more once one does not fit.
        """
        for number, request in enumerate(self._requests):
            if number == 0:
                allocation = self._independent[0]
            else:
                left = allocation.left(cells, self._sockets)
                allocation = self._allocation(request, left)
            yield allocation

    def _allocation(
        self, request: DeviceRequest, pools: Sequence[Pool]
    ) -> PciAllocation:
        providers = Counter[str | None](providers_of(request, self._mapping))
        return PciAllocation(request, providers, pools)

    @functools.cached_property
    def _by_cell(self) -> Mapping[int | None, int]:
        return devices_by_cell(self._pools)

    @functools.cached_property
    def _cell_classes(self) -> Mapping[int, Hashable]:
        return cell_classes(self._independent, self._sockets)

    @functools.cached_property
    def _independent(self) -> Sequence[PciAllocation]:
        """The requests, each as if it were alone."""
        return [self._allocation(each, self._pools) for each in self._requests]

    def _short(self, cells: frozenset[int]) -> bool:
        """Return whether devices near these cells are too few in any case.

        For one request, or for all together; policies that may go to other cells
        are left out. Earlier requests leave a request less than that, never more.
        """
        return any(
            anywhere + sum([usable.get(cell, 0) for cell in cells]) < count
            for usable, anywhere, count in self._needed
        )

    @functools.cached_property
    def _needed(self) -> list[tuple[Mapping[int | None, int], int, int]]:
        """Usable devices by cell, those near to none, and how many some must have."""
        near = [
            allocation
            for allocation in self._independent
            if allocation.request.numa_policy not in ('preferred', 'socket')
        ]
        found = [
            (each.usable, _anywhere([each], each.usable), max(each.request.count, 1))
            for each in near
        ]
        free = [each for each in near if not each.providers]
        if len(free) < 2:
            return found
        together = devices_by_cell(
            pool
            for pool in self._pools
            if any(each.mismatch(pool) is None for each in free)
        )
        count = sum(each.request.count for each in free)
        return [*found, (together, _anywhere(free, together), count)]

    @functools.cached_property
    def _asks_for_sockets(self) -> bool:
        return any(request.numa_policy == 'socket' for request in self._requests)


def _anywhere(
    allocations: Sequence[PciAllocation], usable: Mapping[int | None, int]
) -> int:
    """Return how many devices near to no cell requests may use."""
    strict = all(each.request.numa_policy == 'required' for each in allocations)
    return 0 if strict else usable.get(None, 0)


Sockets = Mapping[int, int | None]


def cell_classes(
    allocations: Sequence[PciAllocation], sockets: Sockets
) -> Mapping[int, Hashable]:
    """Return the equivalence class of each cell of a host, by its id.

    Cells of one class serve the requests alike, so one choice of cells stands for all
    that differ only within classes. ``allocations`` are the requests, each as if it
    were alone.
    """
    rivals = _rivals(allocations)
    return {
        cell_id: tuple(_cell_class(group, cell_id, sockets) for group in rivals)
        for cell_id in sockets
    }


def _stays_near(allocation: PciAllocation) -> bool:
    """Return whether only devices on the cells themselves fit, in any case.

    Then it is nothing to the request which others match it.
    """
    policy = allocation.request.numa_policy
    return policy == 'required' or (
        policy == 'legacy' and None not in allocation.matching
    )


class _Use(enum.Enum):
    """Use of a pool to a request."""

    NONE = 'nothing'
    COUNTED = 'it matches, which can hide other devices, but may not be used'
    TAKEN = 'its devices may be taken'


def _use(allocation: PciAllocation, pool: Pool) -> _Use:
    if allocation.mismatch(pool) is None:
        return _Use.TAKEN
    matches = allocation.request.mismatch(pool) is not PoolMismatch.SPEC
    return _Use.COUNTED if matches and not _stays_near(allocation) else _Use.NONE


def _concerns(allocation: PciAllocation, pool: Pool) -> bool:
    return _use(allocation, pool) is not _Use.NONE


def _rivals(allocations: Sequence[PciAllocation]) -> list[list[PciAllocation]]:
    """Group the requests that may take devices from each other."""
    groups: list[tuple[set[int], list[PciAllocation]]] = []
    for allocation in allocations:
        pools = {
            n for n, pool in enumerate(allocation.pools) if _concerns(allocation, pool)
        }
        met = [group for group in groups if not pools.isdisjoint(group[0])]
        groups = [group for group in groups if group not in met]
        members = [member for _, others in met for member in others]
        groups.append((pools.union(*(own for own, _ in met)), [*members, allocation]))
    return [members for _, members in groups]


def _cell_class(
    rivals: Sequence[PciAllocation], cell_id: int, sockets: Sockets
) -> Hashable:
    """Return the equivalence class of a cell for some rival requests.

    If only numbers matter, it counts the cell's devices that are asked for, up to the
    number asked for. Otherwise each cell with such devices is a class of its own.
    """
    pools = [
        pool
        for pool in rivals[0].pools
        if pool.numa_node == cell_id and any(_concerns(each, pool) for each in rivals)
    ]
    socket = _shared_socket(rivals, cell_id, sockets)
    if not _only_count(rivals):
        return cell_id if pools else None, socket
    most = sum(max(allocation.request.count, 1) for allocation in rivals)
    counted: Counter[Hashable] = Counter()
    for pool in pools:
        counted[tuple(_use(allocation, pool) for allocation in rivals)] += pool.count
    found = frozenset((uses, min(count, most)) for uses, count in counted.items())
    return found, socket


def _only_count(rivals: Sequence[PciAllocation]) -> bool:
    """Return whether it does not matter which devices of a kind a request takes.

    It takes them in the order of the pools. Where pools of a kind stand together,
    those before it left the same of each kind, whichever cells they are on.
    """
    if len(rivals) == 1:
        return True
    if any(each.providers or each.request.numa_policy == 'socket' for each in rivals):
        return False
    kinds = [
        (uses, pool.numa_node is None)
        for pool in rivals[0].pools
        if _Use.TAKEN
        in (uses := tuple(_use(allocation, pool) for allocation in rivals))
    ]
    runs = [kind for kind, _ in itertools.groupby(kinds)]
    return len(set(runs)) == len(runs)


def _shared_socket(
    rivals: Sequence[PciAllocation], cell_id: int, sockets: Sockets
) -> int | None:
    """Return the socket of a cell if it matters: others on it have devices."""
    socket = sockets[cell_id]
    for allocation in rivals:
        if allocation.request.numa_policy == 'socket' and any(
            sockets[other] == socket and allocation.matching.get(other)
            for other in sockets
            if other != cell_id
        ):
            return socket
    return None
