# SPDX-License-Identifier: Apache-2.0
"""Heartbeat in the services row of this scheduler, which is made at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Self

from novasched import errors
from novasched.cluster.periodic import PeriodicRunner
from novasched.log_once import LogOnce
from novasched.ports import ServiceRow, ServiceStore

LOG = logging.getLogger(__name__)

BINARY = 'nova-scheduler'
TOPIC = 'scheduler'
SERVICE_VERSION = 74
FIRST_BEAT_S = 5.0


class Heartbeat:
    """Says every ``interval_s`` seconds that the service lives; 0: never."""

    def __init__(
        self,
        store: ServiceStore,
        host: str,
        interval_s: float,
        on_created: Callable[[ServiceRow], None] = lambda row: None,
        binary: str = BINARY,
        topic: str = TOPIC,
    ) -> None:
        self._store = store
        self._host = host
        self._interval_s = interval_s
        self._on_created = on_created
        self._binary = binary
        self._topic = topic
        self._runner: PeriodicRunner | None = None
        self._failing = LogOnce()

    @classmethod
    def from_conf(
        cls,
        conf: Any,
        host: str,
        store: ServiceStore | None,
        on_created: Callable[[ServiceRow], None],
    ) -> Self | None:
        """Read the options; None: there is no row to keep fresh."""
        if store is None:
            return None
        return cls(store, host, conf.report_interval, on_created)

    def start(self) -> None:
        """Register the service, then beat in a thread of its own.

        Raises errors.ServiceTooOld and errors.StoreFailed.
        """
        self._row, created = self._store.register(
            self._host, self._binary, self._topic, SERVICE_VERSION
        )
        if created:
            self._on_created(self._row)
        self._count = self._row.report_count
        if self._interval_s:
            first_s = min(FIRST_BEAT_S, self._interval_s)
            beat = self._interval_s, self.beat
            self._runner = PeriodicRunner('heartbeat', [beat], [first_s])
            self._runner.start()

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()

    def beat(self) -> None:
        """Write one heartbeat; a failure is logged once until it is over."""
        self._count += 1
        try:
            found = self._store.beat(self._row.id, self._count)
        except errors.StoreFailed as problem:
            if self._failing.begins():
                LOG.error('Lost connection for reporting service status: %s', problem)
            return
        if self._failing.ends():
            LOG.info('Recovered connection for reporting service status.')
        if not found:
            LOG.error(
                'The services table record for the %s service on host %s is gone. '
                'Restart this service to make a new one.',
                self._binary,
                self._host,
            )
