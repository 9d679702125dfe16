# SPDX-License-Identifier: Apache-2.0
"""The hosts of one cell: how they start, beat, look around and stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from novasched_lab.compute.audit import Audit, sync
from novasched_lab.compute.station import Parts, Station
from novasched_lab.failures import FAILURES

LOG = logging.getLogger(__name__)

STOP_S = 10.0


class Group:
    """Hosts that share a database and a broker; intervals are in seconds, 0: never.

    ``servers`` are theirs, not started.
    """

    def __init__(
        self,
        parts: Parts,
        stations: Sequence[Station],
        audit: Audit,
        servers: Sequence[Any],
        beat_s: float = 10.0,
        audit_s: float = 60.0,
        sync_s: float = 120.0,
    ) -> None:
        self._parts = parts
        self._stations = stations
        self._rows = stations[0].rows
        self._audit = audit
        self._servers = servers
        self._stopped = threading.Event()
        chores = [(beat_s, self.beat), (audit_s, self.look)]
        if parts.news is not None:
            chores.append((sync_s, self.sync))
        self._threads = [
            threading.Thread(target=self._run, args=chore, daemon=True)
            for chore in chores
            if chore[0]
        ]

    def start(self) -> None:
        """Register the hosts, mend what was left undone, then serve.

        Raises errors.StoreFailed and oslo.messaging's MessagingException.
        """
        self._audit.load(self._stations)
        self._register()
        self._parts.inventories.provide(
            {each.host.uuid: each.providers for each in self._stations}
        )
        self._note_disabled(all_of_them=True)
        self._audit.run(self._stations)
        self.beat()
        for server in self._servers:
            server.start()
        for thread in self._threads:
            thread.start()

    def _register(self) -> None:
        usage = {each.name: each.book.usage() for each in self._stations}
        hosts = [each.host for each in self._stations]
        found = self._rows.register(hosts, usage)
        for station in self._stations:
            registered = found[station.name]
            station.node_id = registered.node_id
            station.disabled = registered.disabled
            station.wrote(usage[station.name])

    def stop(self) -> None:
        """Take no more messages, finish those that came, then fall silent."""
        self._stopped.set()
        ending = [
            threading.Thread(target=_end, args=(server,), daemon=True)
            for server in self._servers
        ]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join(STOP_S)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_S)

    def beat(self) -> None:
        """Say of all hosts that live that they do, at once."""
        self._rows.beat(each.name for each in self._stations if each.alive)

    def look(self) -> None:
        """Mend what is left undone, and follow services that were disabled."""
        self._note_disabled()
        self._audit.run(self._stations)

    def sync(self) -> None:
        """Tell schedulers which instances there are."""
        sync(self._parts, self._stations)

    def _note_disabled(self, all_of_them: bool = False) -> None:
        disabled = self._rows.disabled(each.name for each in self._stations)
        for station in self._stations:
            now = station.name in disabled
            if all_of_them or station.disabled != now:
                self._parts.inventories.set_disabled(station.providers[0], now)
                station.disabled = now

    def _run(self, interval_s: float, chore: Callable[[], None]) -> None:
        while not self._stopped.wait(interval_s):
            try:
                chore()
            except FAILURES as problem:
                LOG.warning('%s failed, trying again: %s', chore.__name__, problem)
            except Exception:  # the thread must outlive a defect
                LOG.exception('%s failed, trying again', chore.__name__)


def _end(server: Any) -> None:
    server.stop()
    server.wait()
