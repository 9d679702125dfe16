# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of one worker, and the socket that serves them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from novasched import errors
from novasched.clock import Clock
from novasched.cluster.periodic import PeriodicRunner
from novasched.observability import health as health_
from novasched.observability.catalogue import MetricRecorder
from novasched.observability.health import PASS, READY, WARN, Check, Health
from novasched.observability.instrumentation import Instrumentation
from novasched.observability.serving import Endpoint, Response
from novasched.observability.settings import Address, Settings

LOG = logging.getLogger(__name__)

HEALTH, GAUGES = '/health', '/gauges'
STARTING, STOPPING = 'starting', 'stopping'
MOST_QUESTIONS = 128
"""Of one worker at a time: as many as the addresses of the host can have clients."""

SOCKET = '{}.sock'
PROBE_INTERVAL_S = 5.0


class WorkerService(Protocol):
    """What runs in a worker."""

    def start(self) -> None:
        """Begin to serve. Raises errors.NovaschedError."""

    def stop(self) -> int:
        """Finish what is in hand, and end; return how many requests were answered."""

    def state(self) -> Mapping[str, Any]:
        """Return what a report shows."""


@dataclass(frozen=True)
class Probe:
    """A question whose answer is news of a component: None, or what is wrong.

    Unless ``always``, it is put only when there were no good news for long.
    """

    name: str
    ask: Callable[[], str | None]
    always: bool = False

    def run(self, health: Health) -> None:
        """Put the question if it is time to."""
        if not self.always and not health.wants_news(self.name):
            return
        try:
            problem = self.ask()
        except errors.NovaschedError as error:
            problem = str(error)
        if problem is None:
            health.good(self.name)
        else:
            health.bad(self.name, problem)


class Observer:
    """Keeps the health and the metrics of one process, and shows them at its socket,
    while one or more services are observed.

    ``directory`` gets the socket; ``forget`` is called with the id of the process
    when it ends.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        directory: str,
        recorder: MetricRecorder,
        forget: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._directory = directory
        self._recorder = recorder
        self._forget = forget
        self._lock = threading.Lock()
        self._observed: list[Instrumentation] = []
        self._endpoint: Endpoint | None = None
        self.health = Health(clock, settings.ttl_s)

    def instrumentation(self) -> Instrumentation:
        """Make the instrumentation of one service."""
        return Instrumentation(self._recorder, self.health, self._clock, self._settings)

    def begin(self, instrumentation: Instrumentation) -> None:
        """Observe a service that is to start; show it if there is none that serves.

        A worker serves even if its socket cannot be made; that shows as a worker that
        is missing.
        """
        with self._lock:
            self._observed.append(instrumentation)
            if self._endpoint is not None:
                return
            self._use_newest()
            path = os.path.join(self._directory, SOCKET.format(os.getpid()))
            routes = {HEALTH: self._show_health, GAUGES: self._set_gauges}
            self._endpoint = Endpoint(Address(path=path), routes, MOST_QUESTIONS)
            try:
                self._endpoint.start()
            except OSError as problem:
                LOG.error(
                    'Health and metrics of this worker are not shown: %s', problem
                )

    def take_over(self) -> None:
        """Show the newest service, which serves by now, in the place of one that will
        end; the news of that one are forgotten."""
        with self._lock:
            if len(self._observed) > 1:
                self._use_newest()

    def end(self, instrumentation: Instrumentation) -> None:
        """Show a service no more. The process ends with the last one."""
        with self._lock:
            self._observed.remove(instrumentation)
            self._use_newest()
            if self._observed or self._endpoint is None:
                return
            with contextlib.suppress(OSError):  # the directory may be gone already
                self._endpoint.stop()
            self._endpoint = None
        self._forget(os.getpid())

    def _use_newest(self) -> None:
        newest = self._observed[-1:]
        self.health.use_checkers(
            checker
            for instrumentation in newest
            for checker in instrumentation.checkers
        )

    def _show_health(self, headers: Mapping[str, str]) -> Response:
        return health_.answer(
            self._settings, self.health.checks(), self.health.service_id
        )

    def _set_gauges(self, headers: Mapping[str, str]) -> Response:
        for instrumentation in self._observed[-1:]:
            instrumentation.measure(self._clock.time())
        return Response(200, 'text/plain', b'')


class InstrumentedService:
    """A service that is observed from before its start. Satisfies WorkerService.

    ``inner`` is the service, behind ``instrumentation``; ``probes`` ask for the news
    that it does not bring. While it serves, ``listens`` returns at once why no message
    can reach it, or None.
    """

    def __init__(
        self,
        inner: WorkerService,
        observer: Observer,
        instrumentation: Instrumentation,
        probes: Sequence[Probe],
        listens: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._observer = observer
        self._instrumentation = instrumentation
        self._probes = probes
        self._listens = listens
        self._phase = STARTING
        instrumentation.checkers.append(self._ready)
        task = PROBE_INTERVAL_S, self._probe
        self._probing = PeriodicRunner('health', [task], [0.0])

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

    def state(self) -> Mapping[str, Any]:
        return self._inner.state()

    def _ready(self) -> Mapping[str, Check]:
        problem = self._phase or self._listens()
        status = WARN if problem else PASS
        return {READY: Check(status, self._observer.health.time(), problem or '')}

    def _probe(self) -> None:
        for probe in self._probes:
            probe.run(self._observer.health)
