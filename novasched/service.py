# SPDX-License-Identifier: Apache-2.0
"""The life of the process: workers, heartbeat, graceful stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from oslo_config import cfg
from oslo_service import service  # type: ignore[import-untyped]

from novasched import errors
from novasched.ports import ServiceStore

LOG = logging.getLogger(__name__)

BINARY = 'nova-scheduler'
TOPIC = 'scheduler'
SERVICE_VERSION = 74
OLDEST_COMPUTE_VERSION = 72
FIRST_BEAT_S = 5.0

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
    'scheduler': [
        cfg.IntOpt(
            'workers',
            min=0,
            help='Worker processes. Unset or 0: as many as the machine has CPUs.',
        )
    ],
    'workarounds': [
        cfg.BoolOpt(
            'disable_compute_service_check_for_ffu',
            default=False,
            help='Start although there are compute services older than this release '
            'supports, as in a fast-forward upgrade.',
        )
    ],
}


class Part(Protocol):
    """Something that runs while the service does."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Stop taking work, finish what is under way, and let go of everything."""


def check_compute_version(minimum: int, tolerated: bool) -> None:
    """Raise errors.TooOldComputeService when a compute is too old; 0: none."""
    if not minimum or minimum >= OLDEST_COMPUTE_VERSION:
        return
    problem = errors.TooOldComputeService(minimum, OLDEST_COMPUTE_VERSION)
    if not tolerated:
        raise problem
    LOG.warning('%s', problem)


class Heartbeat:
    """Says every ``interval_s`` seconds that the service lives; 0: never."""

    def __init__(
        self,
        store: ServiceStore,
        host: str,
        interval_s: float,
        on_created: Callable[[Any], None] = lambda row: None,
    ) -> None:
        self._store = store
        self._host = host
        self._interval_s = interval_s
        self._on_created = on_created
        self._stopped = threading.Event()
        self._failing = False

    def start(self) -> None:
        """Register the service, then beat in a thread of its own.

        Raises errors.ServiceTooOld and errors.StoreFailed.
        """
        self._row, created = self._store.register(
            self._host, BINARY, TOPIC, SERVICE_VERSION
        )
        if created:
            self._on_created(self._row)
        self._count = self._row.report_count
        if self._interval_s:
            threading.Thread(target=self._run, name='heartbeat', daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        wait_s = min(FIRST_BEAT_S, self._interval_s)
        while not self._stopped.wait(wait_s):
            self.beat()
            wait_s = self._interval_s

    def beat(self) -> None:
        """Write one heartbeat; a failure is logged once until it is over."""
        self._count += 1
        try:
            found = self._store.beat(self._row.id, self._count)
        except errors.StoreFailed as problem:
            if not self._failing:
                LOG.error('Lost connection for reporting service status: %s', problem)
            self._failing = True
            return
        if self._failing:
            LOG.info('Recovered connection for reporting service status.')
            self._failing = False
        if not found:
            LOG.error(
                'The services table record for the %s service on host %s is gone. '
                'Restart this service to make a new one.',
                BINARY,
                self._host,
            )


class SchedulerService(service.ServiceBase):  # type: ignore[misc]
    """One worker: makes its parts after the fork, and stops them in order."""

    def __init__(self, make: Callable[[], Part]) -> None:
        self._make = make
        self._part: Part | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        self._part = self._make()
        self._part.start()

    def stop(self) -> None:
        if self._part is not None:
            self._part.stop()
        self._stopped.set()

    def wait(self) -> None:
        self._stopped.wait()

    def reset(self) -> None:
        """Nothing: a worker that is told to reload is replaced by a new one."""


def serve(conf: cfg.ConfigOpts, make: Callable[[], Part], workers: int) -> int:
    """Run workers until the service is told to stop; return the exit code."""
    launcher = service.launch(
        conf, SchedulerService(make), workers=workers, restart_method='mutate'
    )
    return int(launcher.wait() or 0)
