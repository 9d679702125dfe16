# SPDX-License-Identifier: Apache-2.0
"""Heartbeat grace for cells whose computes have all fallen silent at once.

Then the path of the heartbeats is broken, or a clock, rather than every compute. The
log says so. If there would be no host at all, the computes that were up at the last
heartbeat count as up for a while.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Self

from oslo_config import cfg

from novasched.cluster.nodes import CellNodes
from novasched.cluster.services import SilentComputes
from novasched.runtime.clock import Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.FloatOpt(
            'heartbeat_grace',
            default=300.0,
            min=0.0,
            help="""
Seconds for which computes still count as up if all of them fall silent at once.

All computes of a cell, three at least, may fall silent within one
``service_down_time``. If then no compute of any cell is up, nova finds no host. Here
the computes that were up at the last heartbeat are used for so much longer. 0: they
are down, as with nova. Either way the log says so, once.

Related options:

* ``[DEFAULT] service_down_time``
* ``[novasched] heartbeat_grace_for_each_cell``
""",
        ),
        cfg.BoolOpt(
            'heartbeat_grace_for_each_cell',
            default=False,
            help="""
Grant ``heartbeat_grace`` to a cell even if computes of other cells are up.

A host of the silent cell may then be chosen where nova would choose another.
""",
        ),
    ]
}


@dataclass(eq=False)
class HeartbeatGrace:
    """Decides for which cells the last heartbeats still count."""

    clock: Clock
    grace_s: float = 300.0
    for_each_cell: bool = False
    _since_s: dict[str, float] = field(default_factory=dict)
    _granted: frozenset[str] = frozenset()

    @classmethod
    def from_conf(cls, conf: Any, clock: Clock) -> Self:
        own = conf.novasched
        return cls(clock, own.heartbeat_grace, own.heartbeat_grace_for_each_cell)

    def judge(self, cells: Mapping[str, CellNodes], available: Iterable[str]) -> None:
        """Let silent computes of the available cells count as up where they may, and
        of no other cell.

        Logs once of each cell that falls silent, is heard of again or gets no more.
        """
        found = {uuid: cells[uuid].services for uuid in available if uuid in cells}
        silent = {u: s.silent for u, s in found.items() if s.silent is not None}
        self._log_silence(silent, found.keys())
        some_is_up = any(services.some_is_usable() for services in found.values())
        granted = frozenset[str]()
        if self.for_each_cell or not some_is_up:
            granted = frozenset(u for u, s in silent.items() if self._is_granted(u, s))
        self._log_change(granted, silent.keys())
        self._granted = granted
        for uuid, cell in cells.items():
            cell.keep_silent(uuid in granted)

    def _log_silence(
        self, silent: Mapping[str, SilentComputes], available: Set[str]
    ) -> None:
        for uuid in self._since_s.keys() - silent.keys():
            del self._since_s[uuid]
            if uuid in available:
                LOG.info('Computes of cell %s send heartbeats again', uuid)
        for uuid in silent.keys() - self._since_s.keys():
            self._since_s[uuid] = self.clock.monotonic()
            LOG.error(
                'All computes of cell %s have fallen silent at once, %d that were up '
                'among them; the last heartbeat is of %s UTC. Check the clocks, the '
                'message bus, the conductors and the database of the cell.',
                uuid,
                len(silent[uuid].hosts),
                silent[uuid].last,
            )

    def _is_granted(self, uuid: str, silent: SilentComputes) -> bool:
        """Return whether the grace still lasts, also for a worker that just started."""
        silent_s = self.clock.monotonic() - self._since_s[uuid]
        age = self.clock.utcnow() - silent.since
        grace = datetime.timedelta(seconds=self.grace_s)
        return silent_s < self.grace_s and age < grace

    def _log_change(self, granted: frozenset[str], silent: Set[str]) -> None:
        for uuid in granted - self._granted:
            LOG.error(
                'The computes of cell %s that were up when the last heartbeat came '
                'count as up for %d s at most',
                uuid,
                self.grace_s,
            )
        for uuid in (self._granted - granted) & silent:
            LOG.error('The computes of cell %s count as down from now on', uuid)
