# SPDX-License-Identifier: Apache-2.0
"""The process that answers for all workers of a host.

It asks each at its socket, with a deadline: one that does not answer hangs, one
whose socket refuses is dead.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import http.client
import json
import logging
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from oslo_service import service  # type: ignore[import-untyped]

from novasched.observability import health, worker
from novasched.observability.catalogue import Recorder
from novasched.observability.health import FAIL, PASS, READY, WARN, WORST, Check, stamp
from novasched.observability.serving import Endpoint, Response, Route, ask
from novasched.observability.settings import Address, Settings
from novasched.observability.worker import Observer
from novasched.parsing import parse_json
from novasched.runtime import connections
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce

if TYPE_CHECKING:
    from novasched.observability.prometheus import SharedMetrics

LOG = logging.getLogger(__name__)

DEADLINE_S = 2.0
RETRY_S = 5.0
ENDING_INTERVAL_S = 0.2

ENVIRONMENT = 'PROMETHEUS_MULTIPROC_DIR'
"""Where prometheus_client keeps values that processes share."""

RUNTIME = 'RUNTIME_DIRECTORY'
"""Where systemd says that a service may keep what need not outlive it."""


class WorkerReport(NamedTuple):
    """The answer of one worker: its checks, or why there is none."""

    pid: int
    checks: Mapping[str, Check] = {}
    service_id: str | None = None
    problem: str = ''


class Workers:
    """The workers whose sockets stand in a directory; ``expected`` is their number.

    ``forget`` is called with the id of one that is found dead.
    """

    def __init__(
        self,
        directory: str,
        expected: int,
        forget: Callable[[int], None] = lambda pid: None,
    ) -> None:
        self.directory = directory
        self.forget = forget
        self._expected = expected
        self._seen = False

    def reports(self, url: str = worker.HEALTH) -> list[WorkerReport]:
        """Ask all at once; there is no report of a worker that is dead."""
        paths = sorted(pathlib.Path(self.directory).glob(worker.SOCKET.format('*')))
        if not paths:
            return []
        with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
            reports = pool.map(functools.partial(self._report, url), paths)
            return [report for report in reports if report is not None]

    def _report(self, url: str, path: pathlib.Path) -> WorkerReport | None:
        pid = int(path.stem)
        try:
            body = parse_json(ask(str(path), url, DEADLINE_S)[1])
            checks = {name: Check(**found) for name, found in body['checks'].items()}
            return WorkerReport(pid, checks, body['serviceId'])
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            self.forget(pid)
            return None
        except TimeoutError:
            problem = f'does not answer within {DEADLINE_S:g} s'
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            problem = f'cannot be asked: {connections.reason(error)}'
        return WorkerReport(pid, problem=f'worker {pid} {problem}')

    def check(self, reports: list[WorkerReport], time: str) -> Check:
        """Judge whether all workers are there; before the first is, they start."""
        self._seen = self._seen or bool(reports)
        if not self._seen:
            return Check(WARN, time, worker.STARTING)
        if hung := [each.problem for each in reports if each.problem]:
            return Check(FAIL, time, '; '.join(hung))
        if len(reports) >= self._expected:
            return Check(PASS, time)
        output = f'{len(reports)} of {self._expected} workers are there'
        return Check(WARN if reports else FAIL, time, output)


def merged(reports: list[WorkerReport]) -> dict[str, Check]:
    """Return for each component the worst that a worker says, and the worker."""
    found: dict[str, list[tuple[int, Check]]] = {}
    for each in reports:
        for name, check in each.checks.items():
            found.setdefault(name, []).append((each.pid, check))
    return {name: _worst(said) for name, said in sorted(found.items())}


def _worst(said: list[tuple[int, Check]]) -> Check:
    status = min((check.status for _, check in said), key=WORST.index)
    alike = [(pid, check) for pid, check in said if check.status == status]
    output = '; '.join(f'worker {pid}: {check.output}' for pid, check in alike)
    return Check(
        status,
        min(check.time for _, check in alike),
        '' if status == PASS else output,
    )


def not_ready(reports: list[WorkerReport]) -> str | None:
    """Return why no worker takes requests, or None if one does."""
    reasons = []
    for each in reports:
        ready = each.checks.get(READY)
        if ready is not None and ready.status == PASS:
            return None
        why = ready.output if ready is not None else worker.STARTING
        reasons.append(each.problem or f'worker {each.pid}: {why}')
    return '; '.join(reasons) or 'no worker is there'


class HostService(service.ServiceBase):  # type: ignore[misc]
    """The process that serves health and metrics until it is stopped, and then until
    the last worker has ended. Workers share it, for their ``observer``.
    """

    def __init__(
        self,
        settings: Settings,
        workers: Workers,
        clock: Clock,
        metrics: SharedMetrics | None = None,
    ) -> None:
        self._settings = settings
        self.workers = workers
        self._clock = clock
        self._metrics = metrics
        self._endpoints: list[Endpoint] = []
        self._service_id: str | None = None
        self._stopping = threading.Event()
        self._stopped = threading.Event()

    @functools.cached_property
    def observer(self) -> Observer:
        """The observer of a worker; to be used in its process only."""
        return Observer(
            self._settings,
            self._clock,
            self.workers.directory,
            Recorder() if self._metrics is None else self._metrics.of_worker(),
            self.workers.forget,
        )

    def start(self) -> None:
        for address, routes in self._routes().items():
            endpoint = Endpoint(address, routes)
            if self._started(endpoint, address):
                self._endpoints.append(endpoint)

    def _started(self, endpoint: Endpoint, address: Address) -> bool:
        """Listen as soon as it is possible; a restart may find the address in use."""
        failing = LogOnce()
        while not self._stopping.is_set():
            try:
                endpoint.start()
                return True
            except OSError as problem:
                if failing.begins():
                    LOG.error('Cannot listen at %s yet: %s', address, problem)
                self._stopping.wait(RETRY_S)
        return False

    def _routes(self) -> dict[Address, dict[str, Route]]:
        routes: dict[Address, dict[str, Route]] = {}
        for address in self._settings.health:
            routes[address] = {'/health': self.show_health, '/ready': self.show_ready}
        if self._metrics is not None:
            show_metrics = functools.partial(self.show_metrics, self._metrics)
            for address in self._settings.metrics:
                routes.setdefault(address, {})['/metrics'] = show_metrics
        return routes

    def show_health(self, headers: Mapping[str, str]) -> Response:
        reports, time = self.workers.reports(), stamp(self._clock.utcnow())
        checks = merged(reports)
        checks['workers'] = self.workers.check(reports, time)
        if self._stopping.is_set():
            checks[READY] = Check(WARN, time, worker.STOPPING)
        ids = (each.service_id for each in reports if each.service_id)
        self._service_id = next(ids, self._service_id)
        return health.answer(self._settings, checks, self._service_id)

    def show_ready(self, headers: Mapping[str, str]) -> Response:
        """Return whether requests are taken: by one worker at least."""
        reason = worker.STOPPING if self._stopping.is_set() else None
        reason = reason or not_ready(self.workers.reports())
        body = {'ready': reason is None, 'reason': reason or ''}
        return Response(
            503 if reason else 200,
            'application/json',
            json.dumps(body).encode(),
            {'Cache-Control': 'no-cache'},
        )

    def show_metrics(
        self, metrics: SharedMetrics, headers: Mapping[str, str]
    ) -> Response:
        """Return the metrics of all workers, which first set their gauges."""
        self.workers.reports(worker.GAUGES)
        return metrics.show(headers)

    @property
    def ports(self) -> list[int]:
        """The TCP ports that are listened at, in the order of the addresses."""
        return [each.port for each in self._endpoints if each.port]

    def stop(self) -> None:
        """Say that the service stops while workers finish what they have."""
        self._stopping.set()
        end_s = self._clock.monotonic() + self._settings.stop_s
        while self._clock.monotonic() < end_s and self._is_any_alive():
            self._stopped.wait(ENDING_INTERVAL_S)
        self._stopped.set()
        for endpoint in self._endpoints:
            with contextlib.suppress(OSError):
                endpoint.stop()

    def _is_any_alive(self) -> bool:
        return any(not each.problem for each in self.workers.reports())

    def wait(self) -> None:
        self._stopped.wait()

    def reset(self) -> None:
        """Nothing is kept here that a reload could change."""


@contextlib.contextmanager
def shared(
    settings: Settings, workers: int, clock: Clock
) -> Iterator[HostService | None]:
    """Make what the workers share, before they are forked; None if nothing is shared.

    Its directory, for this user alone, is removed by the process that made it.
    """
    if not settings.health and not settings.metrics:
        yield None
        return
    above = os.environ.get(RUNTIME, '').partition(':')[0] or None
    directory, maker = tempfile.mkdtemp(prefix='novasched-', dir=above), os.getpid()
    try:
        yield _host_service(settings, directory, workers, clock)
    finally:
        if os.getpid() == maker:
            os.environ.pop(ENVIRONMENT, None)
            shutil.rmtree(directory, ignore_errors=True)


def _host_service(
    settings: Settings, directory: str, workers: int, clock: Clock
) -> HostService:
    if not settings.metrics:
        return HostService(settings, Workers(directory, workers), clock)
    os.environ[ENVIRONMENT] = directory
    # It settles at its import where values are kept: see there.
    from novasched.observability.prometheus import SharedMetrics

    metrics = SharedMetrics(directory, settings.prefix)
    asked = Workers(directory, workers, metrics.forget)
    return HostService(settings, asked, clock, metrics)
