# SPDX-License-Identifier: Apache-2.0
"""What requests for devices see of a node: equal for nodes that are all the same.

A node of many may be chosen in many ways; where it is all the same to the devices
which one it is, one way stands for all.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from novasched.scheduler.fit.device_requests import Lost
from novasched.scheduler.fit.pools import Pool
from novasched.scheduler.fit.serving import Serving

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
