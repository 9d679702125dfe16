# SPDX-License-Identifier: Apache-2.0
"""When the failed builds of compute nodes were last seen to grow.

A compute reports a count without a time. The count is reset when a build succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable

from novasched.cluster.host_columns import NodeKey
from novasched.runtime.clock import Clock


class BuildFailures:
    """Remembers the counts of failed builds; not to be changed by two at once.

    ``forget_after_s`` is None if failures are never forgotten. Failures that were
    there when a node was first seen count from then on.
    """

    def __init__(self, clock: Clock, forget_after_s: float | None = None) -> None:
        self._clock = clock
        self._forget_after_s = forget_after_s
        self._seen: dict[NodeKey, tuple[int, float]] = {}

    def see(self, node: NodeKey, count: int) -> None:
        """Note the count of a node. A lower one that is not 0 has new failures, too:
        the count began again when the compute restarted."""
        if self._forget_after_s is None:
            return
        if count <= 0:
            self._seen.pop(node, None)
        elif count != self._seen.get(node, (0, 0.0))[0]:
            self._seen[node] = count, self._clock.monotonic()

    def remove(self, nodes: Iterable[NodeKey]) -> None:
        """Drop nodes that are gone."""
        for node in nodes:
            self._seen.pop(node, None)

    def forgotten(self) -> frozenset[NodeKey]:
        """Return the nodes whose failures do not count any more."""
        if self._forget_after_s is None or not self._seen:
            return frozenset()
        oldest_s = self._clock.monotonic() - self._forget_after_s
        return frozenset(n for n, (_, at_s) in self._seen.items() if at_s <= oldest_s)
