# SPDX-License-Identifier: Apache-2.0
"""What a host reports of its nodes and devices, parsed when it is first read.

A view keeps one of these per distinct text, for all hosts and all requests.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Self

from novasched.scheduler.fit.pools import Pools, parse_pools
from novasched.scheduler.fit.topology import HostCell
from novasched.scheduler.fit.wire import host_cells


class HostTopology:
    """The NUMA nodes of a host; false if it has none. Equal if the nodes are."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    @classmethod
    def of(cls, cells: tuple[HostCell, ...]) -> Self:
        """Make one of nodes instead of text."""
        made = cls()
        made.__dict__['cells'] = cells
        return made

    @functools.cached_property
    def cells(self) -> tuple[HostCell, ...]:
        """The nodes, in the order of the host; none if the text is nonsense."""
        return host_cells(self._text)

    @functools.cached_property
    def threads_per_core(self) -> int:
        """CPUs of the largest core of all nodes; 0 without cores."""
        return max((cell.threads_per_core for cell in self.cells), default=0)

    @functools.cached_property
    def sockets(self) -> Mapping[int, int | None]:
        """The socket of each node; None: unknown, or several."""
        return {cell.id: cell.socket for cell in self.cells}

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.cells)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostTopology):
            return NotImplemented
        return self is other or (
            self._hash == other._hash and self.cells == other.cells
        )

    def __bool__(self) -> bool:
        return bool(self.cells)

    def __repr__(self) -> str:
        return f'HostTopology(cells={self.cells!r})'


class HostPools:
    """The free PCI devices of a host. Equal if the pools are."""

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    @classmethod
    def of(cls, free: Pools) -> Self:
        """Make one of pools instead of text."""
        made = cls()
        made.__dict__['free'] = free
        return made

    @functools.cached_property
    def free(self) -> Pools:
        """The pools, in the order in which devices are taken."""
        return parse_pools(self._text)

    @property
    def pools(self) -> list[dict[str, str | int | None]]:
        """The pools as plain dicts, as nova has them; new ones."""
        return [pool.flat() for pool in self.free]

    @functools.cached_property
    def devices(self) -> int:
        """Free devices of all pools."""
        return sum(pool.count for pool in self.free)

    @functools.cached_property
    def by_node(self) -> Mapping[int | None, int]:
        """Free devices by node; those near to none are under None."""
        found: dict[int | None, int] = {}
        for pool in self.free:
            found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
        return found

    def __hash__(self) -> int:
        return hash(self.free)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostPools):
            return NotImplemented
        return self is other or self.free == other.free

    def __repr__(self) -> str:
        return f'HostPools(pools={self.pools!r})'


NOWHERE = HostTopology()


def host_topology(text: str | None) -> HostTopology | None:
    """Return what a numa_topology column says; None: nothing."""
    return HostTopology(text) if text else None
