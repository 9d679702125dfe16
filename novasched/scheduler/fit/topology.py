# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of a host, as values that are never changed.

Attributes have nova's names, so that a plugin reads them as it would there. Memory
is in MiB, page sizes in KiB. A *core* is one set of ``siblings``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

Cpus = frozenset[int]


class Pages(NamedTuple):
    """The memory pages of one size on a node, in pages."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Pages that guests may have; negative when oversubscribed."""
        return self.total - self.used - self.reserved


class Networks(NamedTuple):
    """Networks that a node is near to, or that a guest asks for."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False


@dataclass(frozen=True)
class HostCell:
    """One node. The order of ``siblings`` says which core is used up first.

    ``pcpuset`` is None if the compute is too old to report it, ``socket`` if it
    does not report it or the node spans several, ``network_metadata`` if none is
    declared.
    """

    id: int
    cpuset: Cpus
    pcpuset: Cpus | None
    memory: int
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: Cpus = frozenset()
    siblings: tuple[Cpus, ...] = ()
    mempages: tuple[Pages, ...] = ()
    network_metadata: Networks | None = None
    socket: int | None = None

    @functools.cached_property
    def free_cpus(self) -> Cpus:
        """CPUs that may still be pinned."""
        return (self.pcpuset or frozenset()) - self.pinned_cpus

    @property
    def free_memory(self) -> int:
        """MiB; negative when oversubscribed."""
        return self.memory - self.memory_usage

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
        """The pages of the smallest size; None if the node reports none."""
        return min(self.mempages, key=lambda pages: pages.size_kb, default=None)


class Limits(NamedTuple):
    """How far a node may be filled, and the networks that the guest asks for."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    networks: Networks | None = None
