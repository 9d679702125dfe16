# SPDX-License-Identifier: Apache-2.0
"""Health and metrics of one worker, and the socket that serves them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from novasched.observability.catalogue import Recorder
from novasched.observability.health import PASS, READY, WARN, Check, Probe, answer
from novasched.observability.instrumentation import Instrumentation
from novasched.observability.serving import Endpoint, Response
from novasched.observability.settings import Address, Settings
from novasched.runtime.clock import Clock
from novasched.runtime.periodic import PeriodicRunner

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

    @property
    def manager(self) -> Any:
        """What answers requests."""

    def stop(self, successor: WorkerService | None = None) -> int:
        """Finish what is in hand, and end; return how many requests were answered.
        Requests that wait for a service are the successor's, if there is one."""

    def state(self) -> Mapping[str, Any]:
        """Return the values for a report."""


class Observer:
    """Shows the health and the metrics of one process at its socket, while one or
    more services are observed.

    ``directory`` gets the socket; ``forget`` is called with the id of the process
    when it ends.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        directory: str,
        recorder: Recorder,
        forget: Callable[[int], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._forget = forget
        self._lock = threading.Lock()
        self._observed: list[Instrumentation] = []
        self.shown = self.instrumentation()
        self._address = Address(path=f'{directory}/{SOCKET.format(os.getpid())}')
        self._endpoint: Endpoint | None = None

    def instrumentation(self) -> Instrumentation:
        return Instrumentation(self._recorder, self._clock, self._settings)

    def begin(self, instrumentation: Instrumentation) -> None:
        """Observe a service that is to start; show it if there is none that serves.

        A worker serves even if its socket cannot be made; that shows as a worker that
        is missing.
        """
        with self._lock:
            self._observed.append(instrumentation)
            if self._endpoint is not None:
                return
            self.shown = instrumentation
            routes = {HEALTH: self._show_health, GAUGES: self._set_gauges}
            self._endpoint = Endpoint(self._address, routes, MOST_QUESTIONS)
            try:
                self._endpoint.start()
            except OSError as problem:
                LOG.error(
                    'Health and metrics of this worker are not shown: %s', problem
                )

    def take_over(self, instrumentation: Instrumentation) -> None:
        """Show a service, which serves by now, in the place of one that will end."""
        self.shown = instrumentation

    def end(self, instrumentation: Instrumentation) -> None:
        """Observe a service no more. The process ends with the last one."""
        with self._lock:
            self._observed.remove(instrumentation)
            if self._observed or self._endpoint is None:
                return
            with contextlib.suppress(OSError):  # the directory may be gone already
                self._endpoint.stop()
            self._endpoint = None
        self._forget(os.getpid())

    def _show_health(self, headers: Mapping[str, str]) -> Response:
        health = self.shown.health
        return answer(self._settings, health.checks(), health.service_id)

    def _set_gauges(self, headers: Mapping[str, str]) -> Response:
        self.shown.measure(self._clock.time())
        return self._show_health(headers)


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
        instrumentation.health.checkers.append(self._ready)
        task = PROBE_INTERVAL_S, self._probe
        self._probing = PeriodicRunner('health', [task], [0.0])

    def start(self) -> None:
        with contextlib.ExitStack() as started:
            self._observer.begin(self._instrumentation)
            started.callback(self._observer.end, self._instrumentation)
            self._inner.start()
            started.pop_all()
        self._phase = ''
        self._observer.take_over(self._instrumentation)
        self._probing.start()

    @property
    def manager(self) -> Any:
        return self._inner.manager

    def stop(self, successor: WorkerService | None = None) -> int:
        self._phase = STOPPING
        self._probing.stop()
        answered = self._inner.stop(successor)
        self._observer.end(self._instrumentation)
        return answered

    def state(self) -> Mapping[str, Any]:
        return self._inner.state()

    def _ready(self) -> Mapping[str, Check]:
        problem = self._phase or self._listens() or ''
        health = self._instrumentation.health
        return {READY: Check(WARN if problem else PASS, health.time(), problem)}

    def _probe(self) -> None:
        for probe in self._probes:
            probe.run(self._instrumentation.health)
