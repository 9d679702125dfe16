# SPDX-License-Identifier: Apache-2.0
"""The life of the process: workers, signals, graceful stop."""

from __future__ import annotations

import datetime
import gc
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from oslo_messaging import MessagingException  # type: ignore[import-untyped]
from oslo_service import service  # type: ignore[import-untyped]

from novasched import errors
from novasched.cluster.heartbeat import BINARY, Heartbeat
from novasched.cluster.upkeep import Upkeep
from novasched.cluster.view import ClusterView
from novasched.manager import SchedulerManager
from novasched.observing.worker import Life

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


class SystemClock:
    """The clocks of this machine."""

    def utcnow(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)

    def monotonic(self) -> float:
        return time.monotonic()


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
        LOG.warning(
            'manager_shutdown_timeout (%d) is longer than graceful_shutdown_timeout '
            '(%d); 10 seconds less than the latter are used.',
            timeout_s,
            limit_s,
        )
        timeout_s = max(0, limit_s - 10)
    return timeout_s - min(20, timeout_s)


@dataclass(frozen=True)
class Scheduler:
    """A composed scheduler. ``start`` loads the view and serves; ``stop`` ends it.

    Requests under way get ``drain_s`` to end.
    """

    manager: SchedulerManager
    view: ClusterView
    server: Any
    upkeep: Upkeep
    heartbeat: Heartbeat | None
    drain_s: float

    def start(self) -> None:
        """Raises errors.ServiceTooOld and errors.StoreFailed."""
        self.view.load()
        if self.heartbeat is not None:
            self.heartbeat.start()
        self.server.start()
        self.upkeep.start()

    def reload(self) -> None:
        """Read the cells, the aggregates and all hosts again."""
        self.view.load()

    def stop(self) -> None:
        """Stop taking requests, finish those under way, then let go of the rest."""
        self.server.stop()
        drained = threading.Thread(target=self.server.wait, daemon=True)
        drained.start()
        drained.join(self.drain_s)
        if drained.is_alive():
            LOG.warning('Requests are still under way after %d s', self.drain_s)
        self.upkeep.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.view.close()


def _settle() -> None:
    """Take what lives as long as the process out of garbage collection: an answer of
    placement is a hundred thousand objects, and reading it starts full collections.
    """
    gc.collect()
    gc.freeze()


class SchedulerService(service.ServiceBase):  # type: ignore[misc]
    """One worker: makes its scheduler after the fork, and stops it.

    What keeps it from starting is one line of the log, and exit code 1.
    """

    def __init__(self, make: Callable[[], Life]) -> None:
        self._make = make
        self._scheduler: Life | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        if problem := self._start():
            # Not while it is handled: the log would add it to the line again.
            LOG.critical('%s: %s', BINARY, problem)
            raise SystemExit(1)

    def _start(self) -> Exception | None:
        try:
            self._scheduler = self._make()
            self._scheduler.start()
            _settle()
        except (errors.NovaschedError, cfg.Error, MessagingException) as problem:
            return problem
        return None

    def stop(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()
        self._stopped.set()

    def wait(self) -> None:
        self._stopped.wait()

    def reset(self) -> None:
        """Read everything again, where SIGHUP does not replace the process."""
        try:
            if self._scheduler is not None:
                self._scheduler.reload()
        except errors.StoreFailed as problem:
            LOG.error('Reloading failed: %s', problem)


def serve(
    conf: cfg.ConfigOpts, make: Callable[[], Life], workers: int, *beside: Any
) -> int:
    """Run workers, and a process for each ``beside`` them; return the exit code."""
    launcher = service.launch(conf, SchedulerService(make), workers, 'mutate')
    for each in beside:
        launcher.launch_service(each, workers=1)
    return int(launcher.wait() or 0)
