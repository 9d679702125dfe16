# SPDX-License-Identifier: Apache-2.0
"""What is assumed of hosts, shared with all schedulers of the cloud."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from novasched.app.sources import Kept
from novasched.cluster.assumed import AssumedInstances
from novasched.observability.requests import PickMetrics
from novasched.process.service import host_of
from novasched.rpc import shared_picks
from novasched.rpc.shared_picks import PickSender, PicksEndpoint
from novasched.rpc.transport import is_rabbit
from novasched.scheduler.pipeline import Profile

CLOSE_S = 5.0


class PickSharing:
    """Makes what is assumed by each manager: requests and other schedulers change it.

    Only RabbitMQ carries what is shared.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, transport: Any, metrics: PickMetrics, kept: Kept
    ) -> None:
        self._conf = conf
        self._kept = kept
        self._metrics = metrics
        self._current: AssumedInstances | None = None
        self._sender: PickSender | None = None
        self._server: Any = None
        self._is_started = False
        self._before: tuple[Callable[[], AssumedInstances | None], str]
        self._before = lambda: None, ''
        if conf.novasched.assume_picks and is_rabbit(transport.conf):
            self._sender = PickSender.over(transport, metrics.count)
            origin, count = self._sender.origin, metrics.count
            endpoint = PicksEndpoint(lambda: self._current, origin, count)
            self._server = shared_picks.server(transport, host_of(conf), endpoint)

    def assumed(self, profile: Profile) -> AssumedInstances | None:
        """Return the picks for a new manager, taken over from an active one."""
        made = AssumedInstances.from_conf(self._conf, profile, self._sender)
        before, self._current = self._current, made
        self._metrics.assumed = made
        if self._is_started:
            if made is not None and before is not None:
                made.inherit(before, '')
            if self._kept.picks is before:
                self._kept.picks = made
        return made

    def start(self) -> None:
        """Listen to other schedulers, connect to send them something, and take over
        what the scheduler of before a reload has picked."""
        kept, current = self._kept, self._current
        if self._sender is not None:
            self._server.start(override_pool_size=1)
            self._sender.start()
        if kept.picks is not None:
            self._before = weakref.ref(kept.picks), kept.origin
            if current is not None:
                current.inherit(kept.picks, kept.origin)
        kept.picks = current
        kept.origin = '' if self._sender is None else self._sender.origin
        self._is_started = True

    def close(self) -> None:
        """Stop sharing picks. The server may never close while the broker is down."""
        if self._is_started and self._kept.picks is self._current:
            # It was not followed; one that could not serve leaves the one before.
            before, self._kept.origin = self._before
            self._kept.picks = before()
        if self._sender is not None and self._is_started:
            self._sender.close()
            closing = threading.Thread(target=self._end, daemon=True)
            closing.start()
            closing.join(CLOSE_S)

    def _end(self) -> None:
        self._server.stop()
        self._server.wait()  # its threads and its listener end then
