# SPDX-License-Identifier: Apache-2.0
"""Whether devices and networks agree to a choice of host nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

from novasched.scheduler.fit import networks, order
from novasched.scheduler.fit.topology import HostCell, Limits
from novasched.scheduler.reasons import Reason


class Devices(order.CountsDevices, Protocol):
    """What the search asks of the devices of a host."""

    def supports(self, nodes: frozenset[int]) -> bool:
        """Return True if the guest gets its devices when it is on these nodes."""

    def sight(self, cell_id: int) -> Hashable:
        """Return what supports() sees of a node; like nodes have equal ones."""

    def why(self, nodes: frozenset[int]) -> Reason:
        """Return why supports() says no."""

    def elsewhere(self, nodes: frozenset[int]) -> Mapping[int, int]:
        """Return how many of the missing devices are on other nodes, by node."""


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

    def kinds(self) -> list[int]:
        """Return the kind of each host node; it makes no odds which one of a kind."""
        numbers: dict[Hashable, int] = {}
        return [numbers.setdefault(self._seen(c), len(numbers)) for c in self._cells]

    def _seen(self, cell: HostCell) -> Hashable:
        return (
            self._devices.sight(cell.id) if self._devices else None,
            networks.sight(cell, self._networks) if self._networks else None,
        )
