# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: read at the start, changed by RPC, checked periodically.

Requests that need them as they are now have the database asked for changes.
"""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Iterable
from typing import NamedTuple

from novasched import errors
from novasched.clock import Clock
from novasched.ports import AggregatesMark, ApiStore
from novasched.scheduler.aggregates import Aggregate, Aggregates

LOG = logging.getLogger(__name__)

ATTEMPTS = 3


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

    def of_hosts(self, hosts: Iterable[str]) -> list[Aggregates]:
        """Return the aggregates of each compute service host, by id.

        Hosts that are in the same share one object.
        """
        by_host, none = self._by_host, ()
        return [by_host.get(host, none) for host in hosts]

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
        shared: dict[tuple[int, ...], Aggregates] = {}
        self._by_host = {
            host: shared.setdefault(tuple(a.id for a in found), tuple(found))
            for host, found in by_host.items()
        }
        self.version += 1


class _LastRead(NamedTuple):
    """What the aggregates were read with; ``settled``: an equal mark will do."""

    mark: AggregatesMark
    settled: bool
    version: int


class AggregateReader:
    """Brings a view up to what the database says; threads may share it.

    ``overlap_s`` is by how much the clocks of those who write may differ.
    """

    def __init__(
        self, api: ApiStore, view: AggregateView, clock: Clock, overlap_s: float
    ) -> None:
        self._api = api
        self._view = view
        self._clock = clock
        self._overlap = datetime.timedelta(seconds=overlap_s)
        self._known: _LastRead | None = None

    def read(self) -> None:
        """Read the aggregates. Raises errors.StoreFailed."""
        now = self._clock.utcnow()
        self._read(self._api.aggregates_mark(), now)

    def current(self) -> list[Aggregate]:
        """Return the aggregates by id, as they are now.

        Where the database cannot be asked, they are as they were known last.
        """
        try:
            now = self._clock.utcnow()
            mark, known = self._api.aggregates_mark(), self._known
            if known != _LastRead(mark, True, self._view.version):
                self._read(mark, now)
        except errors.StoreFailed as problem:
            LOG.warning('The aggregates may have changed: %s', problem)
        return self._view.all()

    def _read(self, mark: AggregatesMark, now: datetime.datetime) -> None:
        """Read them; again, if a message has changed them meanwhile."""
        for _ in range(ATTEMPTS):
            version = self._view.version
            if self._view.replace(self._api.aggregates(), version):
                settled = mark.newest is None or mark.newest < now - self._overlap
                self._known = _LastRead(mark, settled, self._view.version)
                return
        self._known = None
