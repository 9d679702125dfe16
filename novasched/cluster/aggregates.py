# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: read at the start, changed by RPC, checked periodically.

Requests that need them as they are now have the database asked for changes. Warnings
name what is wrong with their metadata.
"""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from novasched import errors
from novasched.ports import AggregatesMark, ApiStore
from novasched.runtime.clock import Clock
from novasched.scheduler.aggregates import Aggregate, Aggregates
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.warnings import PluginWarning

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
        return [self._by_id[id_] for id_ in sorted(self._by_id)]

    def names(self) -> dict[str, str]:
        """Return the names of the aggregates, by uuid."""
        return {each.uuid: each.name for each in self.all() if each.uuid and each.name}

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


@dataclass(eq=False)
class AggregateReader:
    """Brings a view up to what the database says; threads may share it."""

    api: ApiStore
    view: AggregateView
    clock: Clock
    overlap_s: float  # by how much the clocks of the writers may differ
    _known: tuple[AggregatesMark, int] | None = None
    """Mark and version of the last read; None if an equal mark may hide a change."""

    def read(self) -> None:
        """Read the aggregates. Raises errors.StoreFailed."""
        now = self.clock.utcnow()
        self._read(self.api.aggregates_mark(), now)

    def current(self) -> list[Aggregate]:
        """Return the aggregates by id, as they are now.

        Where the database cannot be asked, they are as they were known last.
        """
        try:
            now, mark = self.clock.utcnow(), self.api.aggregates_mark()
            if self._known != (mark, self.view.version):
                self._read(mark, now)
        except errors.StoreFailed as problem:
            LOG.warning('The aggregates may have changed: %s', problem)
        return self.view.all()

    def _read(self, mark: AggregatesMark, now: datetime.datetime) -> None:
        """Read them; again, if a message has changed them meanwhile."""
        overlap = datetime.timedelta(seconds=self.overlap_s)
        for _ in range(ATTEMPTS):
            version = self.view.version
            if self.view.replace(self.api.aggregates(), version):
                settled = mark.newest is None or mark.newest < now - overlap
                self._known = (mark, self.view.version) if settled else None
                return
        self._known = None


@dataclass(eq=False)
class ConfigWarnings:
    """Warnings of filters and weighers about their options and about metadata.

    Logs each once until its cause is gone; asks when aggregates changed.
    """

    profile: Profile
    aggregates: AggregateView
    _version: int | None = None
    _warned: Sequence[PluginWarning] = ()

    def log(self) -> None:
        """Log what was not found the time before."""
        version = self.aggregates.version
        if version == self._version:
            return
        found = self.profile.config_warnings(self.aggregates.groups())
        for warning in found:
            if warning not in self._warned:
                LOG.log(warning.level, '%s', warning)
        self._version = version
        self._warned = found
