# SPDX-License-Identifier: Apache-2.0
"""Immutable NUMA cells of hosts and guests.

Attributes have nova's names, so that a plugin reads them as it would there. Memory
is in MiB, page sizes in KiB. A *core* is one set of ``siblings``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

Cpus = frozenset[int]


class Pages(NamedTuple):
    """Memory pages of one size on a cell, in pages."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Pages that guests may have; negative when oversubscribed."""
        return self.total - self.used - self.reserved


class Networks(NamedTuple):
    """Networks that a cell is near to, or that a guest asks for."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False


@dataclass(frozen=True)
class HostCell:
    """One NUMA cell of a host."""

    id: int
    cpuset: Cpus
    pcpuset: Cpus | None  # None if the compute is too old to report it
    memory: int
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: Cpus = frozenset()
    siblings: tuple[Cpus, ...] = ()  # in the order in which cores are used up
    mempages: tuple[Pages, ...] = ()
    network_metadata: Networks | None = None  # None if none is declared
    socket: int | None = None  # None if unknown, or the cell spans several

    @functools.cached_property
    def free_cpus(self) -> Cpus:
        """CPUs that may still be pinned."""
        return (self.pcpuset or frozenset()) - self.pinned_cpus

    @property
    def free_memory(self) -> int:
        """MiB; negative when oversubscribed."""
        return self.memory - self.memory_usage

    @property
    def free_pcpus(self) -> Cpus:
        """Nova's name of free_cpus."""
        return self.free_cpus

    @property
    def avail_pcpus(self) -> int:
        """Number of the CPUs that may still be pinned."""
        return len(self.free_cpus)

    @property
    def avail_memory(self) -> int:
        """Nova's name of free_memory."""
        return self.free_memory

    @property
    def free_siblings(self) -> list[Cpus]:
        """Nova's name of free_cores."""
        return list(self.free_cores)

    @property
    def has_threads(self) -> bool:
        """Some core has several CPUs."""
        return self.threads_per_core > 1

    @functools.cached_property
    def free_cores(self) -> tuple[Cpus, ...]:
        """The free CPUs of each core, none left out, in the order of siblings."""
        free = self.free_cpus
        return tuple(core if core <= free else core & free for core in self.siblings)

    @functools.cached_property
    def threads_per_core(self) -> int:
        """CPUs of the largest core, free or not; 0 without cores."""
        return max(map(len, self.siblings), default=0)

    @functools.cached_property
    def smallest_pages(self) -> Pages | None:
        """The pages of the smallest size; None if the cell reports none."""
        return min(self.mempages, key=lambda pages: pages.size_kb, default=None)


class CellLimits(NamedTuple):
    """Allocation ratios of a cell, and the networks that the guest asks for."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    networks: Networks | None = None


SMALL, LARGE, ANY = -1, -2, -3
"""Page sizes that leave the choice to the host."""


@dataclass(frozen=True)
class GuestCell:
    """One NUMA cell of a guest, with the guest's numbers of CPUs."""

    id: int  # the guest's number of it; once fitted, the host's number of its host cell
    cpuset: Cpus
    pcpuset: Cpus
    memory: int  # in MiB
    pagesize: int | None = None
    """KiB, SMALL, LARGE, ANY; None or 0 for any size; once fitted, the size chosen."""
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None
    pinning: tuple[tuple[int, int], ...] | None = None
    """Pairs of guest CPU and host CPU."""
    reserved: Cpus | None = None  # host CPUs for the emulator
    within_free_memory: bool = False
    """If it pins, it must fit into memory that guests of any page size leave, too."""

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
    """The guest cells, in their order.

    ``isolates_emulator``: the first cell has a host CPU for the emulator.
    """

    cells: tuple[GuestCell, ...]
    isolates_emulator: bool = False


def listed(word: str, things: Iterable[object]) -> str:
    """Return 'cell 1' or 'cells 1 and 2', for the texts of reasons."""
    *most, last = map(str, things)
    return f'{word}s {", ".join(most)} and {last}' if most else f'{word} {last}'
