# SPDX-License-Identifier: Apache-2.0
"""Periodic discovery of compute hosts, by the scheduler that leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from oslo_config import cfg

from novasched import errors
from novasched.cluster.heartbeat import BINARY
from novasched.cluster.services import Window, down_time
from novasched.ports import Cell, ServiceRow, ServiceStore
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce
from novasched.runtime.periodic import HostLock, Leadership, PeriodicTask

LOG = logging.getLogger(__name__)

DEFAULT_INTERVAL_S = 60.0

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.BoolOpt(
            'periodic_enable',
            default=True,
            help='Run periodic tasks (host discovery, if its interval is set).',
        ),
    ],
    'scheduler': [
        cfg.IntOpt(
            'discover_hosts_in_cells_interval',
            default=-1,
            min=-1,
            help="""
Seconds between searches for new hosts in the cells; 0: 60, -1: never.

Of all enabled and alive schedulers, the first by the name of its host searches, in one
of its workers. On each other host one worker searches every tenth time, in case that
the first does not. If this is set, do not run ``nova-manage cell_v2 discover_hosts``
regularly.
""",
        ),
    ],
}


class ServiceDirectory(ServiceStore, Protocol):
    """The services rows of all schedulers, not of this host alone."""

    def of_program(self, binary: str) -> list[ServiceRow]:
        """Return the live rows of a program, disabled ones included, by id."""


@dataclass
class Discovered:
    """The outcome of a host discovery.

    ``mapped`` holds the host mappings made; ``raced`` the hosts that somebody
    else mapped meanwhile; ``failed`` why cells could not be asked.
    """

    mapped: list[tuple[Cell, str]] = field(default_factory=list)
    raced: list[str] = field(default_factory=list)
    failed: list[errors.NovaschedError] = field(default_factory=list)


@dataclass(eq=False)
class Discovery:
    """Searches for new hosts if this host leads, and else now and then. Nova:
    scheduler/manager.py.

    ``discover`` searches all cells; ``has_turn`` says whether this process is
    the one of its host that does it.
    """

    services: ServiceDirectory
    host: str
    clock: Clock
    down_time_s: int
    discover: Callable[[], Discovered]
    has_turn: Callable[[], bool] = lambda: True
    _races: LogOnce = field(default_factory=LogOnce)
    _failing: LogOnce = field(default_factory=LogOnce)

    def __post_init__(self) -> None:
        self._leadership = Leadership(self._leads)

    def discover_hosts(self) -> None:
        """Search if it is this process's turn; log a failure."""
        try:
            if self._leadership.has_turn() and self.has_turn():
                self._log(self.discover())
        except errors.StoreFailed as problem:
            LOG.warning('The search for new hosts failed: %s', problem)
        except Exception:  # a periodic task is run again
            LOG.exception('The search for new hosts failed')

    def _leads(self) -> bool:
        """Return whether this host is the first of the schedulers that are alive.

        This host counts as alive even before its first heartbeat is written.
        """
        window = Window.around(self.clock.utcnow(), self.down_time_s)
        alive = [
            row.host
            for row in self.services.of_program(BINARY)
            if not (row.disabled or row.forced_down)
            and (row.host == self.host or window.holds(row))
        ]
        leader = min(alive, default=None)
        if leader != self.host:
            LOG.debug(
                'Current leader is %s, skipping discover hosts on %s', leader, self.host
            )
        return leader == self.host

    def _log(self, outcome: Discovered) -> None:
        if outcome.mapped:
            names = ','.join(f'{cell.name}:{host}' for cell, host in outcome.mapped)
            LOG.info('Discovered %d new hosts: %s', len(outcome.mapped), names)
        for host in outcome.raced:
            LOG.log(
                logging.WARNING if self._races.begins() else logging.DEBUG,
                'This periodic task should only be enabled if discover hosts is not '
                "run via nova-manage, schedulers: Host '%s' mapping already exists",
                host,
            )
        for problem in self._failing.new(map(str, outcome.failed)):
            LOG.warning('The search for new hosts left out a cell: %s', problem)


def discovery_tasks(
    conf: Any,
    host: str,
    services: ServiceDirectory | None,
    clock: Clock,
    discover: Callable[[], Discovered],
) -> list[PeriodicTask]:
    """Return the search for new hosts with its interval, if the options want it.

    Without services there is no leader and no search.
    """
    interval_s: float = conf.scheduler.discover_hosts_in_cells_interval
    if services is None or interval_s < 0 or not conf.periodic_enable:
        return []
    down_time_s, _ = down_time(conf.service_down_time, conf.report_interval)
    lock = HostLock(f'discovery {host} {conf.api_database.connection}')
    made = Discovery(services, host, clock, down_time_s, discover, lock.acquire)
    return [(interval_s or DEFAULT_INTERVAL_S, made.discover_hosts)]
