# SPDX-License-Identifier: Apache-2.0
"""What one worker keeps of itself, and the socket at which it tells."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from oslo_config import cfg

from novasched import errors
from novasched.observing import health as health_
from novasched.observing.addresses import Address
from novasched.observing.doors import WatchedDoors
from novasched.observing.health import Check, Health
from novasched.observing.requests import Numbers
from novasched.observing.serving import Answer, Endpoint
from novasched.ports import Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'healthcheck': [
        cfg.IntOpt(
            'ttl',
            default=300,
            min=0,
            help='Seconds for which news about a component counts. When they are '
            'over, its state is not known, which is a warning. 0: for ever.',
        ),
        cfg.IntOpt(
            'cache_control',
            min=-1,
            help='What the answer says in Cache-Control: for so many seconds it may '
            'be kept. 0: there is no such header; -1: no-cache. Unset: the ttl.',
        ),
    ]
}

HEALTH, GAUGES = '/health', '/gauges'
SOCKET = '{}.sock'
PROBE_INTERVAL_S = 5.0


@dataclass(frozen=True)
class Probe:
    """A question whose answer is news of a component: None, or what is wrong.

    Unless ``always``, it is put only when there were no good news for long.
    """

    name: str
    ask: Callable[[], str | None]
    always: bool = False


@dataclass(frozen=True)
class Settings:
    """What the operator chose; see the options of this package."""

    host: str
    description: str
    ttl_s: int = 300
    max_age_s: int = 300
    threads: int = 64
    patience_s: float = 60.0
    check_interval_s: float = 60.0

    @classmethod
    def from_conf(cls, conf: Any, host: str, description: str) -> Settings:
        """Read the options."""
        own = conf.healthcheck
        return cls(
            host=host,
            description=description,
            ttl_s=own.ttl,
            max_age_s=own.ttl if own.cache_control is None else own.cache_control,
            threads=conf.executor_thread_pool_size,
            patience_s=conf.rpc_response_timeout,
            check_interval_s=conf.novasched.check_interval,
        )

    def answer(self, checks: Mapping[str, Check], service_id: str | None) -> Answer:
        """Return what a client of the health gets."""
        return health_.answer(
            checks,
            service_id=service_id,
            description=self.description,
            host=self.host,
            max_age_s=self.max_age_s,
        )


class Life(Protocol):
    """What runs in a worker."""

    def start(self) -> None:
        """Begin to serve. Raises errors.NovaschedError."""

    def reload(self) -> None:
        """Read everything again. Raises errors.StoreFailed."""

    def stop(self) -> None:
        """Finish what is in hand, and end."""


class Probing:
    """Asks components that have not been heard of, in a thread of its own."""

    def __init__(self, health: Health, probes: tuple[Probe, ...]) -> None:
        self._health = health
        self._probes = probes
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name='health', daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def ask(self) -> None:
        """Ask those that it is time to ask."""
        for probe in self._probes:
            if probe.always or self._health.wants_news(probe.name):
                try:
                    problem = probe.ask()
                except errors.NovaschedError as error:
                    problem = str(error)
                self._tell(probe.name, problem)

    def _tell(self, name: str, problem: str | None) -> None:
        if problem is None:
            self._health.good(name)
        else:
            self._health.bad(name, problem)

    def _run(self) -> None:
        while not self._stopped.wait(PROBE_INTERVAL_S):
            try:
                self.ask()
            except Exception:  # the thread must outlive a defect
                LOG.exception('Asking for news failed')


class Observer:
    """Keeps the health and the numbers of one process, and shows them at its socket.

    ``directory`` gets the socket; ``forget`` is called with the id of the process
    when it ends.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        directory: str,
        numbers: Numbers,
        forget: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._forget = forget
        self.health = Health(clock, settings.ttl_s)
        self.doors = WatchedDoors(
            numbers,
            self.health,
            clock,
            threads=settings.threads,
            patience_s=settings.patience_s,
            check_interval_s=settings.check_interval_s,
        )

    def endpoint(self) -> Endpoint:
        """Return the socket of this process."""
        path = os.path.join(self._directory, SOCKET.format(os.getpid()))
        routes = {HEALTH: self._show_health, GAUGES: self._set_gauges}
        return Endpoint(Address(path=path), routes)

    def _show_health(self, headers: Mapping[str, str]) -> Answer:
        return self._settings.answer(self.health.checks(), self.health.service_id)

    def _set_gauges(self, headers: Mapping[str, str]) -> Answer:
        self.doors.measure(time.time())
        return Answer(200, 'text/plain', b'')

    def end(self) -> None:
        """Say that this process is no more."""
        self._forget(os.getpid())


class ObservedLife:
    """A life that is observed from before its start. Satisfies Life.

    ``inner`` is what lives, ``probes`` ask for the news that it does not bring.
    """

    def __init__(
        self, inner: Life, observer: Observer, probes: tuple[Probe, ...]
    ) -> None:
        self._inner = inner
        self._observer = observer
        self._endpoint = observer.endpoint()
        self._probing = Probing(observer.health, probes)

    def start(self) -> None:
        """A worker serves even if its socket cannot be made; that shows as a worker
        that is missing."""
        try:
            self._endpoint.start()
        except OSError as problem:
            LOG.error('Health and metrics of this worker are not shown: %s', problem)
        self._inner.start()
        self._probing.start()

    def reload(self) -> None:
        self._observer.health.reset()
        self._inner.reload()

    def stop(self) -> None:
        self._inner.stop()
        self._probing.stop()
        with contextlib.suppress(OSError):  # the directory may be gone already
            self._endpoint.stop()
        self._observer.end()
