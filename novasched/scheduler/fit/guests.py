# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of a guest, before and after they are fitted; never changed."""

from __future__ import annotations

from dataclasses import dataclass

from novasched.scheduler.fit.topology import Cpus

SMALL, LARGE, ANY = -1, -2, -3
"""Page sizes that leave the choice to the host."""


@dataclass(frozen=True)
class GuestCell:
    """One guest node; CPUs are the guest's, ``memory`` is in MiB.

    ``id`` is the guest's number of it and, once fitted, the host's number of the
    node that it is on. ``pagesize`` is in KiB, SMALL, LARGE, ANY, or None or 0: not
    asked for; once fitted, the size that was chosen. ``pinning`` has pairs of a
    dedicated guest CPU and the host CPU that it got, by guest CPU; ``reserved`` the
    host CPUs for the emulator.
    """

    id: int
    cpuset: Cpus
    pcpuset: Cpus
    memory: int
    pagesize: int | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None
    pinning: tuple[tuple[int, int], ...] | None = None
    reserved: Cpus | None = None

    @property
    def pins(self) -> bool:
        """True if some guest CPUs have host CPUs of their own."""
        return self.cpu_policy in ('dedicated', 'mixed')

    @property
    def shares(self) -> bool:
        """True if some guest CPUs share host CPUs with other guests."""
        return self.cpu_policy != 'dedicated'


@dataclass(frozen=True)
class Guest:
    """The guest nodes, in their order.

    ``isolates_emulator``: the first node has a host CPU for the emulator.
    """

    cells: tuple[GuestCell, ...]
    isolates_emulator: bool = False
