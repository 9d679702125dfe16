# SPDX-License-Identifier: Apache-2.0
"""The life of a scheduler: its threads, started and stopped in order."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.release import BY_DEFAULT, FoundRelease
from novasched.cluster.view import ClusterView
from novasched.manager.manager import SchedulerManager
from novasched.outages import Outages
from novasched.placement_copy.copy import CopyKeeper
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.pipeline import Profile

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            'host',
            sample_default='<current_hostname>',
            help='Name of this host: of the services row, the RPC server and the '
            'publisher of notifications.',
        ),
        cfg.IntOpt(
            'manager_shutdown_timeout',
            default=160,
            min=0,
            help='Seconds that a stopping service may take. Requests under way get '
            'all but the last 20 of them.',
        ),
        cfg.StrOpt(
            'concurrency_backend',
            default='auto',
            choices=['auto', 'threading', 'eventlet'],
            help='Native threads or eventlet. auto: native threads.',
        ),
    ],
    'workarounds': [
        cfg.BoolOpt(
            'disable_compute_service_check_for_ffu',
            default=False,
            help='Start although there are compute services older than this release '
            'supports, as in a fast-forward upgrade.',
        )
    ],
    'scheduler': [
        cfg.IntOpt(
            'workers',
            min=0,
            help='Worker processes. Unset or 0: as many as the machine has CPUs.',
        )
    ],
}


def host_of(conf: cfg.ConfigOpts) -> str:
    """Return the name of this host, as services know it."""
    return conf.host or socket.gethostname()


def drain_s_of(conf: cfg.ConfigOpts) -> int:
    """Return how long requests under way may take when the service stops.

    Nova: manager.py, graceful_shutdown.
    """
    timeout_s: int = conf.manager_shutdown_timeout
    limit_s: int = conf.graceful_shutdown_timeout
    if 0 < limit_s < timeout_s:
        timeout_s = max(0, limit_s - 10)
    return timeout_s - min(20, timeout_s)


def drained(server: Any, within_s: float) -> bool:
    """Stop a server, and wait so long at most for what is under way; return whether it
    has ended."""
    server.stop()
    waiting = threading.Thread(target=server.wait, daemon=True)
    waiting.start()
    waiting.join(within_s)
    return not waiting.is_alive()


def warning(conf: cfg.ConfigOpts) -> str | None:
    """Return a warning on the time that requests get at the stop."""
    timeout_s: int = conf.manager_shutdown_timeout
    limit_s: int = conf.graceful_shutdown_timeout
    if not 0 < limit_s < timeout_s:
        return None
    return (
        f'[DEFAULT] graceful_shutdown_timeout ({limit_s} s) is below '
        f'manager_shutdown_timeout ({timeout_s} s): when the service stops, requests '
        f'under way get {drain_s_of(conf)} s. Set it to more than '
        'manager_shutdown_timeout, 180 by default.'
    )


def _plugins(profile: Profile | None) -> dict[str, list[str]]:
    """Return the names of filters, and of weighers with their multipliers."""
    if profile is None:
        return {}
    weighers = [f'{w.name}={w.multiplier:g}' for w in profile.shown_weighers]
    filters = [each.name for each in profile.filters]
    return {'filters': filters, 'weighers': weighers}


@dataclass(frozen=True)
class Scheduler:
    """A composed scheduler. ``start`` loads the view and serves; ``stop`` ends it.

    Requests under way get ``drain_s`` to end, or ``reload_s`` if a successor takes new
    ones; ``close`` is called after them.
    ``profile`` is what the driver decides by, ``found`` the release of the cloud;
    ``share_picks`` begins to hear what other schedulers pick.
    """

    manager: SchedulerManager
    view: ClusterView
    server: Any
    periodic: PeriodicTasks
    heartbeat: Heartbeat | None
    drain_s: float
    reload_s: float = 0.0
    copy: CopyKeeper | None = None
    close: Callable[[], None] = lambda: None
    profile: Profile | None = None
    finished: Callable[[], int] = lambda: 0
    found: FoundRelease = BY_DEFAULT
    outages: Outages = field(default_factory=Outages)
    share_picks: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Raises errors.ServiceTooOld and errors.StoreFailed, when all has ended."""
        with contextlib.ExitStack() as started:
            started.callback(self._let_go)
            if self.copy is not None:
                started.callback(self.copy.stop)
            if self.heartbeat is not None:
                self.heartbeat.start()
            self.view.load()
            self.share_picks()
            self.server.start()
            started.pop_all()
        self.periodic.start()

    def stop(self, successor: Any = None) -> int:
        """Stop taking requests, finish those under way, then let go of the rest;
        return how many were answered since the start.

        Requests that wait for a service end as if its time were over, or are decided by
        the ``successor``, a service.
        """
        self.outages.close(None if successor is None else successor.manager)
        within_s = self.drain_s
        if successor is not None:  # the process goes on, and so may its requests
            within_s = max(within_s, self.reload_s)
        self.server.drain_s = within_s
        if not drained(self.server, within_s):
            LOG.warning('Requests are still under way after %d s', within_s)
        if self.copy is not None:
            self.copy.stop()
        self.view.stop()
        self.periodic.stop()
        self._let_go()
        return self.finished()

    def state(self) -> dict[str, Any]:
        """Return the values for a report.

        They say what is known of the cloud and how old it is, how many seconds requests
        have been under way, and what decides.
        """
        now, asked_at = SYSTEM_CLOCK.monotonic(), self.view.asked_at()
        unavailable = {cell.uuid for cell in self.view.cells.unavailable()}
        cells = {
            cell.uuid: {
                'name': cell.name,
                'disabled': cell.disabled,
                'unavailable': cell.uuid in unavailable,
                'asked seconds ago': round(now - asked_at.get(cell.uuid, 0.0), 1)
                if cell.uuid in asked_at
                else 'never',
            }
            for cell in self.view.cells.all()
        }
        under_way = [round(since, 1) for since in self.server.requests.under_way()]
        hosts = len(self.view.hosts(None))
        return {
            'release': f'nova {self.manager.release}',
            'cells': cells,
            'hosts': hosts,
            'requests under way': under_way,
            'outages': list(map(str, self.outages.now())),
            **({'copy of placement': self.copy.state()} if self.copy else {}),
            **_plugins(self.profile),
        }

    def _let_go(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.view.close()
        self.close()
