# SPDX-License-Identifier: Apache-2.0
"""Host aggregates of nova that are not in sync with those of placement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.view import ClusterView
from novasched.log_once import LogOnce
from novasched.objects.context import RequestContext
from novasched.ports import Placement
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

LOOK_AGAIN_S = 60.0
"""For how long what was found of an aggregate will do."""
MOST_LOOKS = 8
"""Aggregates that one request may have looked at."""
LOOK_FOR_S = 5.0
"""After which no further one is looked at: a request waits for it."""


class AggregateSync:
    """Warns of an aggregate once, until it is found to be mended.

    Nova copies the hosts of an aggregate to placement when they change; where that
    failed, placement offers no host for a request that asks for the aggregate. One host
    of it is asked about: that costs the same for any number of hosts. Threads may
    share it.
    """

    def __init__(
        self,
        view: ClusterView,
        placement: Placement,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._view = view
        self._placement = placement
        self._clock = clock
        self._lock = threading.Lock()
        self._look_at: dict[str, float] = {}
        self._warned = LogOnce()

    def look(self, context: RequestContext, uuids: Collection[str]) -> None:
        """Look at those of these aggregates whose time has come, and warn."""
        known = self._view.aggregates.all() if uuids else []
        asked_for = [a for a in known if a.uuid in uuids and a.hosts]
        until = self._clock.monotonic() + LOOK_FOR_S
        for aggregate in self._due(asked_for):
            if self._clock.monotonic() < until:
                self._look(context, aggregate)

    def _due(self, aggregates: list[Aggregate]) -> list[Aggregate]:
        now = self._clock.monotonic()
        with self._lock:
            due = [a for a in aggregates if self._look_at.get(_key(a), now) <= now]
            due = due[:MOST_LOOKS]
            self._look_at.update((_key(a), now + LOOK_AGAIN_S) for a in due)
        return due

    def _look(self, context: RequestContext, aggregate: Aggregate) -> None:
        host, node_uuid = self._node_of(aggregate)
        if node_uuid is None:
            return
        known = self._placement.aggregates(context, node_uuid)
        if known is None:
            return
        key = _key(aggregate)
        if key in known:
            self._warned.ends(key)
        elif self._warned.begins(key):
            LOG.warning(
                'Placement does not know that host %s is in aggregate %s (%s), and '
                'finds no host for requests that ask for the aggregate; mend it with: '
                'nova-manage placement sync_aggregates',
                host,
                aggregate.name,
                key,
            )

    def _node_of(self, aggregate: Aggregate) -> tuple[str, str | None]:
        """Return a host of an aggregate and the uuid of its node, if one is known."""
        try:
            for host in sorted(aggregate.hosts)[:MOST_LOOKS]:
                for _, _, uuid in self._view.nodes_named(host, None):
                    return host, uuid
        except errors.StoreFailed as problem:
            LOG.debug('The hosts of %s are not known: %s', aggregate.name, problem)
        return '', None


def _key(aggregate: Aggregate) -> str:
    return aggregate.uuid or ''
