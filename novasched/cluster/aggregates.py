# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: read at the start, changed by RPC, checked periodically.

Requests that need them as they are now have the database asked for changes. Warnings
name what is wrong with their metadata, and those that placement does not know.
"""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.ports import AggregatesMark, ApiStore, Placement, QueryFailed
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce
from novasched.scheduler.aggregates import Aggregate, Aggregates
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.warnings import PluginWarning

LOG = logging.getLogger(__name__)

ATTEMPTS = 3
LOOK_AGAIN_S = 60.0
"""How long what was found of an aggregate in placement is used."""
MOST_LOOKS = 8
"""Aggregates that one request may have looked at."""
LOOK_FOR_S = 5.0
"""After which no further one is looked at: a request waits for it."""


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


class NodeDirectory(Protocol):
    """The aggregates of a view, and the compute nodes of their hosts."""

    @property
    def aggregates(self) -> AggregateView: ...
    def nodes_named(
        self, host: str | None, node: str | None
    ) -> list[tuple[str, str, str]]: ...


@dataclass(eq=False)
class AggregateSync:
    """Warns once of each aggregate that placement lacks, until it is mended.

    When an aggregate changes, nova copies its hosts to placement. If that failed,
    placement offers no host for requests for the aggregate. One host of it is checked,
    so the cost does not grow with its hosts. Threads may share it.
    """

    view: NodeDirectory
    placement: Placement
    clock: Clock = SYSTEM_CLOCK
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _look_at: dict[str, float] = field(default_factory=dict)
    _warned: LogOnce = field(default_factory=LogOnce)

    def look(self, context: RequestContext, uuids: Collection[str]) -> None:
        """Check the aggregates of these that are due, and warn."""
        known = self.view.aggregates.all() if uuids else []
        asked_for = {a.uuid: a for a in known if a.uuid and a.uuid in uuids and a.hosts}
        now = self.clock.monotonic()
        with self._lock:
            due = [uuid for uuid in asked_for if self._look_at.get(uuid, now) <= now]
            due = due[:MOST_LOOKS]
            self._look_at.update(dict.fromkeys(due, now + LOOK_AGAIN_S))
        for uuid in due:
            if self.clock.monotonic() < now + LOOK_FOR_S:
                self._look(context, uuid, asked_for[uuid])

    def _look(self, context: RequestContext, uuid: str, aggregate: Aggregate) -> None:
        host, node_uuid = self._node_of(aggregate)
        if node_uuid is None:
            return
        known = self.placement.aggregates(context, node_uuid)
        if isinstance(known, QueryFailed):
            return
        if uuid in known:
            self._warned.ends(uuid)
        elif self._warned.begins(uuid):
            LOG.warning(
                'Placement does not know that host %s is in aggregate %s (%s), and '
                'finds no host for requests that ask for the aggregate; mend it with: '
                'nova-manage placement sync_aggregates',
                host,
                aggregate.name,
                uuid,
            )

    def _node_of(self, aggregate: Aggregate) -> tuple[str, str | None]:
        """Return a host of an aggregate and the uuid of its node, if one is known."""
        try:
            for host in sorted(aggregate.hosts)[:MOST_LOOKS]:
                for _, _, uuid in self.view.nodes_named(host, None):
                    return host, uuid
        except errors.StoreFailed as problem:
            LOG.debug('The hosts of %s are not known: %s', aggregate.name, problem)
        return '', None
