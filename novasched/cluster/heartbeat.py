# SPDX-License-Identifier: Apache-2.0
"""Heartbeat in the services row of this scheduler, which is made at the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from novasched import errors
from novasched.ports import ServiceRow, ServiceStore
from novasched.releases import NEWEST
from novasched.runtime.log_once import LogOnce
from novasched.runtime.periodic import PeriodicRunner

LOG = logging.getLogger(__name__)

BINARY = 'nova-scheduler'
TOPIC = 'scheduler'
FIRST_BEAT_S = 5.0


@dataclass(eq=False)
class Heartbeat:
    """Reports every ``interval_s`` seconds that the service is alive; never, if 0."""

    store: ServiceStore
    host: str
    interval_s: float
    on_created: Callable[[ServiceRow], None] = lambda row: None
    """Gets the row, if there was none."""
    binary: str = BINARY
    topic: str = TOPIC
    version: int = NEWEST.service_version
    """Service version of the cloud's release; replaces even a higher one in the row."""
    _runner: PeriodicRunner | None = None
    _failing: LogOnce = field(default_factory=LogOnce)

    @classmethod
    def from_conf(
        cls,
        conf: Any,
        host: str,
        store: ServiceStore | None,
        on_created: Callable[[ServiceRow], None],
        version: int,
    ) -> Self | None:
        """Read the options; return None if there is no row to keep fresh."""
        if store is None:
            return None
        return cls(store, host, conf.report_interval, on_created, version=version)

    def start(self) -> None:
        """Register the service, then beat in a thread of its own.

        Raises errors.ServiceTooOld and errors.StoreFailed.
        """
        created = self._register()
        if created:
            self.on_created(self._row)
        self._count = self._row.report_count
        if self.interval_s:
            beat = self.interval_s, self.beat
            first_s = min(FIRST_BEAT_S, self.interval_s)
            self._runner = PeriodicRunner('heartbeat', [beat], [first_s])
            self._runner.start()

    def _register(self) -> bool:
        """Make the row, or set its version; return whether it was made."""
        self._row, created = self.store.register(
            self.host, self.binary, self.topic, self.version
        )
        return created

    def follow(self, version: int) -> None:
        """Write another version. Raises errors.ServiceTooOld and errors.StoreFailed."""
        self.version = version
        self._register()

    def stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()

    def beat(self) -> None:
        """Write one heartbeat; a failure is logged once until it is over."""
        self._count += 1
        try:
            found = self.store.beat(self._row.id, self._count)
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
                self.binary,
                self.host,
            )
