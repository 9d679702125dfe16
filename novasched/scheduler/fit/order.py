# SPDX-License-Identifier: Apache-2.0
"""In which order the nodes of a host are tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from novasched.scheduler.fit.guests import Guest
from novasched.scheduler.fit.topology import HostCell


class CountsDevices(Protocol):
    """What the order of nodes asks of the devices of a host."""

    @property
    def wanted(self) -> bool:
        """True if the guest asks for devices."""

    def on_cell(self, cell_id: int) -> int:
        """Return how many devices of any kind are free on a node."""


def ordered(
    cells: Sequence[HostCell],
    guest: Guest,
    devices: CountsDevices | None,
    pack: bool,
) -> tuple[HostCell, ...]:
    """Return the nodes in the order to try them; ``pack`` fills full ones first.

    Where every node is needed, they stay as they are. Sorts are stable, and the
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
