# SPDX-License-Identifier: Apache-2.0
"""What a host reports of its nodes and devices, parsed when it is first read.

A view keeps one of these per distinct text, for all hosts and all requests. Text that
cannot be read counts as nothing, with a ``problem``: what is wrong with it, else ''.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from novasched.scheduler.fit.pools import Pools, parse_pools
from novasched.scheduler.fit.reported import Unreadable
from novasched.scheduler.fit.topology import HostCell
from novasched.scheduler.fit.wire import host_cells

T = TypeVar('T')
Complain = Callable[[str, str], None]
"""Is told a text that cannot be read, and the problem with it, once."""


class _Reported:
    """Values in a text, which is read once; ``complain`` is told if it cannot be."""

    def __init__(
        self, text: str | None = None, complain: Complain | None = None
    ) -> None:
        self._text = text
        self._complain = complain
        self._problem = ''

    def _read(self, parse: Callable[[str | None], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return parse(self._text)
        except Unreadable as problem:
            self._problem = str(problem)
            if self._complain:
                self._complain(self._text or '', self._problem)
            return ()


class HostTopology(_Reported):
    """The NUMA nodes of a host; false if it has none. Equal if the nodes are."""

    @classmethod
    def of(cls, cells: tuple[HostCell, ...]) -> Self:
        """Make one of nodes instead of text."""
        made = cls()
        made.__dict__['cells'] = cells
        return made

    @functools.cached_property
    def cells(self) -> tuple[HostCell, ...]:
        """The nodes, in the order of the host; none if the text is nonsense."""
        return self._read(host_cells)

    @property
    def problem(self) -> str:
        """What is wrong with the text; '' if it can be read."""
        return self._problem if not self.cells else ''

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


class HostPools(_Reported):
    """The free PCI devices of a host. Equal if the pools are."""

    @classmethod
    def of(cls, free: Pools) -> Self:
        """Make one of pools instead of text."""
        made = cls()
        made.__dict__['free'] = free
        return made

    @functools.cached_property
    def free(self) -> Pools:
        """The pools, in the order in which devices are taken."""
        return self._read(parse_pools)

    @property
    def problem(self) -> str:
        """What is wrong with the text; '' if it can be read."""
        return self._problem if not self.free else ''

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

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.free)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HostPools):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.free == other.free)

    def __repr__(self) -> str:
        return f'HostPools(pools={self.pools!r})'


NOWHERE = HostTopology()


def host_topology(
    text: str | None, complain: Complain | None = None
) -> HostTopology | None:
    """Return what a numa_topology column says; None: nothing."""
    return HostTopology(text, complain) if text else None
