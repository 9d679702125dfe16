# SPDX-License-Identifier: Apache-2.0
"""The aggregates: read at the start, changed by RPC, checked now and then."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from novasched.scheduler.aggregates import Aggregate, Aggregates


class AggregateView:
    """All aggregates; ``version`` grows with every change."""

    def __init__(self) -> None:
        self._by_id: dict[int, Aggregate] = {}
        self._by_host: dict[str, Aggregates] = {}
        self._lock = threading.Lock()
        self.version = 0

    def all(self) -> list[Aggregate]:
        """Return the aggregates by id."""
        return [self._by_id[id_] for id_ in sorted(self._by_id)]

    def of_host(self, host: str) -> Aggregates:
        """Return the aggregates of a compute service host, by id."""
        return self._by_host.get(host, ())

    def groups(self) -> list[Aggregates]:
        """Return the aggregates of each host that is in one; they repeat."""
        return list(self._by_host.values())

    def replace(
        self, aggregates: Iterable[Aggregate], unless_since: int | None = None
    ) -> bool:
        """Take these as all aggregates that there are.

        False, and nothing changes, if there was a change after the version
        ``unless_since``: then they may have been read before it.
        """
        with self._lock:
            if unless_since is not None and self.version != unless_since:
                return False
            self._set({a.id: a for a in aggregates})
            return True

    def update(self, aggregates: Iterable[Aggregate]) -> None:
        """Put in new or changed aggregates."""
        with self._lock:
            self._set({**self._by_id, **{a.id: a for a in aggregates}})

    def delete(self, aggregate_id: int) -> None:
        """Take out an aggregate; an unknown one is no error."""
        with self._lock:
            self._set({k: v for k, v in self._by_id.items() if k != aggregate_id})

    def _set(self, by_id: dict[int, Aggregate]) -> None:
        if by_id == self._by_id:
            return
        by_host: dict[str, list[Aggregate]] = {}
        for id_ in sorted(by_id):
            for host in by_id[id_].hosts:
                by_host.setdefault(host, []).append(by_id[id_])
        self._by_id = by_id
        self._by_host = {host: tuple(found) for host, found in by_host.items()}
        self.version += 1
