# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of one worker, and the socket that serves them."""

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

from novasched.observability import health as health_
from novasched.observability.addresses import Address
from novasched.observability.health import Check, Health
from novasched.observability.instrumentation import ActiveInstrumentation
from novasched.observability.probing import Probe, Probing
from novasched.observability.requests import Numbers
from novasched.observability.serving import Answer, Endpoint
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
READY = 'ready'
"""The check that says whether requests are taken."""

STARTING, STOPPING = 'starting', 'stopping'
MOST_QUESTIONS = 128
"""Of one worker at a time: as many as the addresses of the host can have clients."""

SOCKET = '{}.sock'


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
    stop_s: float = 160.0

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
            stop_s=conf.manager_shutdown_timeout,
        )

    def answer(self, checks: Mapping[str, Check], service_id: str | None) -> Answer:
        """Return what a client of the health gets.

        It is not to be kept while the service starts or stops.
        """
        ready = checks.get(READY)
        lasts = ready is not None and ready.status == health_.PASS
        return health_.answer(
            checks,
            service_id=service_id,
            description=self.description,
            host=self.host,
            max_age_s=self.max_age_s if lasts else -1,
        )


class Service(Protocol):
    """What runs in a worker."""

    def start(self) -> None:
        """Begin to serve. Raises errors.NovaschedError."""

    def stop(self) -> int:
        """Finish what is in hand, and end; return how many requests were answered."""

    def state(self) -> Mapping[str, Any]:
        """Return what a report shows."""


class Observer:
    """Keeps the health and the numbers of one process, and shows them at its socket,
    while one or more lives are observed.

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
        self._clock = clock
        self._directory = directory
        self.numbers = numbers
        self._forget = forget
        self._lock = threading.Lock()
        self._observed: list[ActiveInstrumentation] = []
        self._endpoint: Endpoint | None = None
        self.health = Health(clock, settings.ttl_s)

    def instrumentation(self) -> ActiveInstrumentation:
        """Make the instrumentation of one life."""
        return ActiveInstrumentation(
            self.numbers,
            self.health,
            self._clock,
            threads=self._settings.threads,
            patience_s=self._settings.patience_s,
            check_interval_s=self._settings.check_interval_s,
        )

    def begin(self, instrumentation: ActiveInstrumentation) -> None:
        """Observe a life that is to start; show it if there is none that serves.

        A worker serves even if its socket cannot be made; that shows as a worker that
        is missing.
        """
        with self._lock:
            self._observed.append(instrumentation)
            if self._endpoint is not None:
                return
            self._look_at_newest()
            self._endpoint = self._new_endpoint()
            try:
                self._endpoint.start()
            except OSError as problem:
                LOG.error(
                    'Health and metrics of this worker are not shown: %s', problem
                )

    def take_over(self) -> None:
        """Show the newest life, which serves by now, in the place of one that will
        end; the news of that one are forgotten."""
        with self._lock:
            if len(self._observed) > 1:
                self._look_at_newest()

    def end(self, instrumentation: ActiveInstrumentation) -> None:
        """Show a life no more. The process ends with the last one."""
        with self._lock:
            self._observed.remove(instrumentation)
            self._look_at_newest()
            if self._observed or self._endpoint is None:
                return
            with contextlib.suppress(OSError):  # the directory may be gone already
                self._endpoint.stop()
            self._endpoint = None
        self.numbers.flush()
        self._forget(os.getpid())

    def _look_at_newest(self) -> None:
        newest = self._observed[-1:]
        self.health.look_at(
            look for instrumentation in newest for look in instrumentation.looks
        )

    def _new_endpoint(self) -> Endpoint:
        path = os.path.join(self._directory, SOCKET.format(os.getpid()))
        routes = {HEALTH: self._show_health, GAUGES: self._set_gauges}
        return Endpoint(Address(path=path), routes, MOST_QUESTIONS)

    def _show_health(self, headers: Mapping[str, str]) -> Answer:
        return self._settings.answer(self.health.checks(), self.health.service_id)

    def _set_gauges(self, headers: Mapping[str, str]) -> Answer:
        for instrumentation in self._observed[-1:]:
            instrumentation.measure(time.time())
        self.numbers.flush()
        return Answer(200, 'text/plain', b'')


class InstrumentedService:
    """A service that is observed from before its start. Satisfies Service.

    ``inner`` is the service, behind ``instrumentation``; ``probes`` ask for the news
    that it does not bring. While it serves, ``listens`` returns at once why no message
    can reach it, or None.
    """

    def __init__(
        self,
        inner: Service,
        observer: Observer,
        instrumentation: ActiveInstrumentation,
        probes: tuple[Probe, ...],
        listens: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._observer = observer
        self._instrumentation = instrumentation
        self._listens = listens
        self._phase = STARTING
        instrumentation.looks.append(self._look)
        self._probing = Probing(observer.health, probes, observer.numbers.flush)

    def start(self) -> None:
        with contextlib.ExitStack() as started:
            self._observer.begin(self._instrumentation)
            started.callback(self._observer.end, self._instrumentation)
            self._inner.start()
            started.pop_all()
        self._phase = ''
        self._observer.take_over()
        self._probing.start()

    def stop(self) -> int:
        self._phase = STOPPING
        self._probing.stop()
        answered = self._inner.stop()
        self._observer.end(self._instrumentation)
        return answered

    def _look(self) -> Mapping[str, Check]:
        problem = self._phase or self._listens()
        time = self._observer.health.time()
        status = health_.WARN if problem else health_.PASS
        return {READY: Check(status, time, problem or '')}

    def state(self) -> Mapping[str, Any]:
        return self._inner.state()
