# SPDX-License-Identifier: Apache-2.0
"""How one request is served from the pools of a host: from which, how far.

The pools that match the request and are on the nodes that its policy admits. Nova:
pci/stats.py, PciDeviceStats.
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
    Lost,
    Mappings,
    Pool,
    Pools,
    providers_of,
)
from novasched.scheduler.fit.topology import listed
from novasched.scheduler.reasons import Code, Reason


class Admitted(NamedTuple):
    """Nodes whose devices a request may use; ``others``: and then those of any."""

    nodes: frozenset[int | None]
    others: bool = False

    def total(self, devices: Mapping[int | None, int]) -> int:
        """Return how many devices the request may use, given devices by node."""
        if self.others:
            return sum(devices.values())
        return sum([devices.get(node, 0) for node in self.nodes])


ANY_NODE = Admitted(frozenset(), others=True)


@dataclass(eq=False)
class Serving:
    """One request at the pools of a host."""

    request: DeviceRequest
    providers: Mapping[str | None, int]
    pools: Sequence[Pool]

    def judged(self, pool: Pool) -> Lost | None:
        """Say why no device of a pool would do, leaving nodes aside."""
        lost = self.request.loses(pool)
        if lost not in (None, Lost.MIGRATION) or not self.providers:
            return lost
        wanted = self.providers.get(pool.rp_uuid, 0)
        return lost if 0 < wanted <= pool.count else Lost.PROVIDER

    @functools.cached_property
    def matching(self) -> Mapping[int | None, int]:
        """Devices by node that match the request, whether they may be used or not."""
        found: dict[int | None, int] = {}
        for pool in self.pools:
            if self.request.loses(pool) is not Lost.SPEC:
                found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
        return found

    @functools.cached_property
    def usable(self) -> Mapping[int | None, int]:
        """Devices by node that the request may use."""
        found: dict[int | None, int] = {}
        for pool in self.pools:
            if self.judged(pool) is None:
                found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
        return found

    @functools.cached_property
    def ambiguous(self) -> bool:
        """True if providers are given and one of the host's is in two pools."""
        if not self.providers:
            return False
        uuids = [pool.rp_uuid for pool in self.pools if pool.rp_uuid is not None]
        return len(set(uuids)) < len(uuids)

    def admitted(
        self, nodes: frozenset[int], sockets: Mapping[int, int | None]
    ) -> Admitted:
        """Return the nodes whose devices the policy of the request admits.

        Devices that match and may not be used count all the same: a function that
        nobody asked for can hide devices on another node, as in nova.
        """
        if not nodes:
            return ANY_NODE
        near = Admitted(nodes)
        policy, count = self.request.numa_policy, self.request.count
        if policy == 'required' or near.total(self.matching) >= count:
            return near
        if policy == 'socket':
            return Admitted(_on_sockets_of(nodes, sockets))
        near = Admitted(nodes | {None})
        others = policy == 'preferred' and near.total(self.matching) < count
        return Admitted(near.nodes, others)

    def fits(self, nodes: frozenset[int], sockets: Mapping[int, int | None]) -> bool:
        """Return True if the request can be served."""
        if self.ambiguous:
            return False
        total = self.admitted(nodes, sockets).total(self.usable)
        return total >= max(self.request.count, 1)

    def left(
        self, nodes: frozenset[int], sockets: Mapping[int, int | None]
    ) -> list[Pool]:
        """Return the pools less what the request takes, if it fits."""
        admitted = self.admitted(nodes, sockets)
        near = [
            i for i, pool in enumerate(self.pools) if pool.numa_node in admitted.nodes
        ]
        rest = set(range(len(self.pools))).difference(near) if admitted.others else ()
        taken: dict[int, int] = {}
        wanted = self.request.count
        for i in (*near, *sorted(rest)):
            pool = self.pools[i]
            if self.judged(pool) is not None:
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

    def why(self, nodes: frozenset[int], sockets: Mapping[int, int | None]) -> Reason:
        """Say why the request does not fit: where devices were lost."""
        request = self.request
        if self.ambiguous:
            return Reason(
                Code.PCI_PROVIDER_AMBIGUOUS,
                f'{request}: two pools of the host have one resource provider',
            )
        admitted = self.admitted(nodes, sockets)
        lost = self._lost(admitted)
        left, code = sum(pool.count for pool in self.pools), Lost.SPEC.code
        for step in lost:
            if left >= request.count:
                left, code = left - lost[step], step.code
        free = f'{admitted.total(self.usable)} of {request.count} free'
        parts = [f'{lost[step]} {step.words}' for step in lost]
        if self.providers:
            wanted = sorted(uuid for uuid in self.providers if uuid)
            free = f'{free} of {listed("resource provider", wanted)}'
        return Reason(code, f'{request}: {", ".join([free, *parts])}')

    def _lost(self, admitted: Admitted) -> dict[Lost, int]:
        """Return how many devices are lost at each step, in their order."""
        lost = dict.fromkeys(Lost, 0)
        for pool in self.pools:
            step = self.judged(pool)
            near = admitted.others or pool.numa_node in admitted.nodes
            if not near and step is not Lost.SPEC:
                step = Lost.NODE
            if step is not None:
                lost[step] += pool.count
        return {step: count for step, count in lost.items() if count}


def _on_sockets_of(
    nodes: frozenset[int], sockets: Mapping[int, int | None]
) -> frozenset[int]:
    """Return all nodes on the sockets of some; none if a socket is unknown."""
    if None in sockets.values():
        return frozenset()
    near = {sockets.get(node) for node in nodes}
    return frozenset(node for node, socket in sockets.items() if socket in near)


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


Sockets = Mapping[int, int | None]


def sight(servings: Sequence[Serving], sockets: Sockets) -> Mapping[int, Hashable]:
    """Return what requests see of each node of a host, by the id of the node.

    ``servings`` are the requests, each as if it were alone.
    """
    rivals = _rivals(servings)
    return {
        cell_id: tuple(_seen(group, cell_id, sockets) for group in rivals)
        for cell_id in sockets
    }


def _stays_near(serving: Serving) -> bool:
    """Return True if only devices on the nodes themselves will do, in any case.

    Then it is nothing to the request which others match it.
    """
    policy = serving.request.numa_policy
    return policy == 'required' or (policy == 'legacy' and None not in serving.matching)


class _Use(enum.Enum):
    """What a pool is to a request."""

    NONE = 'nothing'
    COUNTED = 'it matches, which can hide other devices, but may not be used'
    TAKEN = 'its devices may be taken'


def _use(serving: Serving, pool: Pool) -> _Use:
    if serving.judged(pool) is None:
        return _Use.TAKEN
    matches = serving.request.loses(pool) is not Lost.SPEC
    return _Use.COUNTED if matches and not _stays_near(serving) else _Use.NONE


def _concerns(serving: Serving, pool: Pool) -> bool:
    return _use(serving, pool) is not _Use.NONE


def _rivals(servings: Sequence[Serving]) -> list[list[Serving]]:
    """Group the requests that may take devices from each other."""
    groups: list[tuple[set[int], list[Serving]]] = []
    for serving in servings:
        pools = {n for n, pool in enumerate(serving.pools) if _concerns(serving, pool)}
        met = [group for group in groups if not pools.isdisjoint(group[0])]
        groups = [group for group in groups if group not in met]
        members = [member for _, others in met for member in others]
        groups.append((pools.union(*(own for own, _ in met)), [*members, serving]))
    return [members for _, members in groups]


def _seen(rivals: Sequence[Serving], cell_id: int, sockets: Sockets) -> Hashable:
    """Return the devices of a node as far as they are asked for, if only they count.

    It is all the same which node has more than that.
    """
    pools = [
        pool
        for pool in rivals[0].pools
        if pool.numa_node == cell_id and any(_concerns(each, pool) for each in rivals)
    ]
    socket = _shared_socket(rivals, cell_id, sockets)
    if not _only_count(rivals):
        return cell_id if pools else None, socket
    most = sum(max(serving.request.count, 1) for serving in rivals)
    counted: Counter[Hashable] = Counter()
    for pool in pools:
        counted[tuple(_use(serving, pool) for serving in rivals)] += pool.count
    found = frozenset((uses, min(count, most)) for uses, count in counted.items())
    return found, socket


def _only_count(rivals: Sequence[Serving]) -> bool:
    """Return True if it makes no odds which devices of a kind a request takes.

    It takes them in the order of the pools. Where pools of a kind stand together,
    those before it left the same of each kind, whichever nodes they are on.
    """
    if len(rivals) == 1:
        return True
    if any(each.providers or each.request.numa_policy == 'socket' for each in rivals):
        return False
    kinds = [
        (uses, pool.numa_node is None)
        for pool in rivals[0].pools
        if _Use.TAKEN in (uses := tuple(_use(serving, pool) for serving in rivals))
    ]
    runs = [kind for kind, _ in itertools.groupby(kinds)]
    return len(set(runs)) == len(runs)


def _shared_socket(
    rivals: Sequence[Serving], cell_id: int, sockets: Sockets
) -> int | None:
    """Return the socket of a node if it matters: others on it have devices."""
    socket = sockets[cell_id]
    for serving in rivals:
        if serving.request.numa_policy == 'socket' and any(
            sockets[other] == socket and serving.matching.get(other)
            for other in sockets
            if other != cell_id
        ):
            return socket
    return None
