# SPDX-License-Identifier: Apache-2.0
"""The free PCI devices of a host, and what is left once requests are served.

Requests are served in their order, each from what those before it left, without a
second thought. Nova: pci/stats.py, PciDeviceStats.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from novasched.errors import RequestError
from novasched.scheduler.fit.device_requests import (
    DeviceRequest,
    Mappings,
    providers_of,
)
from novasched.scheduler.fit.pools import Pool, Pools
from novasched.scheduler.fit.serving import Serving
from novasched.scheduler.fit.sight import sight
from novasched.scheduler.reasons import Code, Reason


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

    ``mapping`` is that of the allocation candidate; ``sockets`` says which socket
    each node of the host is on, None where that is not known.
    """

    def __init__(
        self,
        pools: Pools,
        requests: Sequence[DeviceRequest],
        mapping: Mappings | None,
        sockets: Mapping[int, int | None],
    ) -> None:
        self.wanted = bool(requests)
        self._pools = pools
        self._requests = requests
        self._mapping = mapping
        self._sockets = sockets
        self._supported: dict[Hashable, bool] = {}

    def on_cell(self, cell_id: int) -> int:
        """Return how many free devices of any kind are on a node."""
        return self._by_node.get(cell_id, 0)

    def seen(self, nodes: frozenset[int]) -> Hashable:
        """Return what supports() sees of nodes: equal for these, equal its answer."""
        near = nodes.intersection(self._by_node)
        if not self._asks_for_sockets:
            return bool(nodes), near
        return bool(nodes), near, frozenset(self._sockets.get(node) for node in nodes)

    def sight(self, cell_id: int) -> Hashable:
        """Return what supports() sees of one node; like nodes have equal ones."""
        return self._sights[cell_id]

    def supports(self, nodes: frozenset[int]) -> bool:
        """Return True if all requests can be served to a guest on these nodes.

        Without nodes, the guest has no NUMA topology and devices may be anywhere.
        """
        seen = self.seen(nodes)
        if (known := self._supported.get(seen)) is None:
            known = not (nodes and self._short(nodes)) and all(
                serving.fits(nodes, self._sockets) for serving in self._served(nodes)
            )
            self._supported[seen] = known
        return known

    def apply(self, nodes: frozenset[int] | None) -> Pools:
        """Return the pools less the devices that the requests take.

        Raises DeviceRequestFailed with the first request that cannot be served.
        """
        nodes = nodes or frozenset()
        left: Sequence[Pool] = self._pools
        for serving in self._served(nodes):
            if not serving.fits(nodes, self._sockets):
                reason = serving.why(nodes, self._sockets)
                raise DeviceRequestFailed(reason, tuple(serving.pools))
            left = serving.left(nodes, self._sockets)
        return tuple(left)

    def why(self, nodes: frozenset[int] | None) -> Reason:
        """Say which request cannot be served, and where the devices were lost."""
        nodes = nodes or frozenset()
        for serving in self._served(nodes):
            if not serving.fits(nodes, self._sockets):
                return serving.why(nodes, self._sockets)
        return Reason(Code.REJECTED, 'the PCI devices are free')

    def elsewhere(self, nodes: frozenset[int]) -> Mapping[int, int]:
        """Return by node how many devices the request that why() names has there.

        Only nodes other than these, with devices that it might use.
        """
        for serving in self._served(nodes):
            if not serving.fits(nodes, self._sockets):
                return {
                    node: count
                    for node, count in serving.usable.items()
                    if node is not None and node not in nodes
                }
        return {}

    def _served(self, nodes: frozenset[int]) -> Iterator[Serving]:
        """Yield each request at the pools that those before it left.

        Stop asking for more once one does not fit.
        """
        serving: Serving | None = None
        for request in self._requests:
            if serving is None:
                serving = self._first
            else:
                left = serving.left(nodes, self._sockets)
                serving = self._serving(request, left)
            yield serving

    @functools.cached_property
    def _first(self) -> Serving:
        return self._servings[0]

    def _serving(self, request: DeviceRequest, pools: Sequence[Pool]) -> Serving:
        providers = Counter[str | None](providers_of(request, self._mapping))
        return Serving(request, providers, pools)

    @functools.cached_property
    def _by_node(self) -> Mapping[int | None, int]:
        found: dict[int | None, int] = {}
        for pool in self._pools:
            found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
        return found

    @functools.cached_property
    def _sights(self) -> Mapping[int, Hashable]:
        return sight(self._servings, self._sockets)

    @functools.cached_property
    def _servings(self) -> Sequence[Serving]:
        """The requests, each as if it were alone."""
        return [self._serving(each, self._pools) for each in self._requests]

    def _short(self, nodes: frozenset[int]) -> bool:
        """Return True if devices near these nodes are too few in any case.

        For one request, or for all together; policies that may go to other nodes
        are left out. Earlier requests leave a request less than that, never more.
        """
        return any(
            anywhere + sum([usable.get(node, 0) for node in nodes]) < count
            for usable, anywhere, count in self._needed
        )

    @functools.cached_property
    def _needed(self) -> list[tuple[Mapping[int | None, int], int, int]]:
        """Usable devices by node, those near to none, and how many some must have."""
        near = [
            serving
            for serving in self._servings
            if serving.request.numa_policy not in ('preferred', 'socket')
        ]
        found = [
            (each.usable, _anywhere([each], each.usable), max(each.request.count, 1))
            for each in near
        ]
        free = [each for each in near if not each.providers]
        if len(free) < 2:
            return found
        together = Counter[int | None]()
        for pool in self._pools:
            if any(each.judged(pool) is None for each in free):
                together[pool.numa_node] += pool.count
        count = sum(each.request.count for each in free)
        return [*found, (together, _anywhere(free, together), count)]

    @functools.cached_property
    def _asks_for_sockets(self) -> bool:
        return any(request.numa_policy == 'socket' for request in self._requests)


def _anywhere(servings: Sequence[Serving], usable: Mapping[int | None, int]) -> int:
    """Return how many devices near to no node requests may use."""
    strict = all(each.request.numa_policy == 'required' for each in servings)
    return 0 if strict else usable.get(None, 0)
