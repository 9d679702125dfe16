# SPDX-License-Identifier: Apache-2.0
"""How one request is served from the pools of a host: from which, how far.

The pools that match the request and are on the nodes that its policy admits. Nova:
pci/stats.py, PciDeviceStats.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from novasched.scheduler.fit.device_requests import DeviceRequest, Lost
from novasched.scheduler.fit.explanation import listed
from novasched.scheduler.fit.pools import Pool
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
