# SPDX-License-Identifier: Apache-2.0
"""The process that answers for all workers of a host.

It asks each at its socket, with a deadline: one that does not answer hangs, one
whose socket refuses is dead.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from oslo_service import service  # type: ignore[import-untyped]

from novasched.observability import worker
from novasched.observability.addresses import Address, Wanted
from novasched.observability.health import FAIL, PASS, WARN, WORST, Check, stamp
from novasched.observability.serving import Answer, Endpoint, Route, ask
from novasched.observability.worker import Settings
from novasched.ports import Clock

LOG = logging.getLogger(__name__)

DEADLINE_S = 2.0
RETRY_S = 5.0
ENDING_INTERVAL_S = 0.2
GONE = (ConnectionRefusedError, FileNotFoundError)


class Told(NamedTuple):
    """What one worker said: its checks, or why it said nothing."""

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
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._directory = pathlib.Path(directory)
        self._expected = expected
        self._forget = forget
        self._deadline_s = deadline_s
        self._seen = False

    def ask(self, url: str) -> list[tuple[int, bytes | Exception]]:
        """Ask all at once; return what each of those that live answered, by id."""
        paths = sorted(self._directory.glob(worker.SOCKET.format('*')))
        if not paths:
            return []
        with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
            answers = pool.map(lambda path: self._ask(path, url), paths)
            found = zip((int(path.stem) for path in paths), answers, strict=True)
            return [(pid, answer) for pid, answer in found if answer is not None]

    def _ask(self, path: pathlib.Path, url: str) -> bytes | Exception | None:
        try:
            return ask(str(path), url, self._deadline_s)[1]
        except GONE:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            self._forget(int(path.stem))
            return None
        except (OSError, http.client.HTTPException) as problem:
            return problem

    def told(self) -> list[Told]:
        """Return how each worker says that it is."""
        return [self._read(pid, answer) for pid, answer in self.ask(worker.HEALTH)]

    def _read(self, pid: int, answer: bytes | Exception) -> Told:
        try:
            if isinstance(answer, Exception):
                raise answer
            body = json.loads(answer)
            checks = {name: Check(**found) for name, found in body['checks'].items()}
            return Told(pid, checks, body['serviceId'])
        except TimeoutError:
            problem = f'does not answer within {self._deadline_s:g} s'
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            problem = f'cannot be asked: {error}'
        return Told(pid, problem=f'worker {pid} {problem}')

    def check(self, told: list[Told], time: str) -> Check:
        """Judge whether all workers are there; before the first is, they start."""
        self._seen = self._seen or bool(told)
        if not self._seen:
            return Check(WARN, time, worker.STARTING)
        if hung := [each.problem for each in told if each.problem]:
            return Check(FAIL, time, '; '.join(hung))
        if len(told) >= self._expected:
            return Check(PASS, time)
        output = f'{len(told)} of {self._expected} workers are there'
        return Check(WARN if told else FAIL, time, output)


def merged(told: list[Told]) -> dict[str, Check]:
    """Return for each component the worst of what the workers say, and who says it."""
    found: dict[str, list[tuple[int, Check]]] = {}
    for each in told:
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


def not_ready(told: list[Told]) -> str | None:
    """Return why no worker takes requests, or None if one does."""
    reasons = []
    for each in told:
        ready = each.checks.get(worker.READY)
        if ready is not None and ready.status == PASS:
            return None
        why = ready.output if ready is not None else worker.STARTING
        reasons.append(each.problem or f'worker {each.pid}: {why}')
    return '; '.join(reasons) or 'no worker is there'


class HostService(service.ServiceBase):  # type: ignore[misc]
    """The process: listens at the addresses until it is stopped, and then until the
    last worker has ended.

    ``metrics`` makes, in this process, the route of the metrics.
    """

    def __init__(
        self,
        wanted: Wanted,
        workers: Workers,
        settings: Settings,
        clock: Clock,
        metrics: Callable[[Workers], Route],
    ) -> None:
        self._wanted = wanted
        self._workers = workers
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._endpoints: list[Endpoint] = []
        self._service_id: str | None = None
        self._stopping = threading.Event()
        self._stopped = threading.Event()

    def start(self) -> None:
        for address, routes in self._routes().items():
            endpoint = Endpoint(address, routes)
            if self._started(endpoint, address):
                self._endpoints.append(endpoint)

    def _started(self, endpoint: Endpoint, address: Address) -> bool:
        """Listen as soon as it is possible; a restart may find the address in use."""
        told = False
        while not self._stopping.is_set():
            try:
                endpoint.start()
                return True
            except OSError as problem:
                if not told:
                    LOG.error('Cannot listen at %s yet: %s', address, problem)
                told = True
                self._stopping.wait(RETRY_S)
        return False

    def _routes(self) -> dict[Address, dict[str, Route]]:
        routes: dict[Address, dict[str, Route]] = {}
        for address in self._wanted.health:
            routes.setdefault(address, {})['/health'] = self.show_health
            routes[address]['/ready'] = self.show_ready
        if self._wanted.metrics:
            show_metrics = self._metrics(self._workers)
            for address in self._wanted.metrics:
                routes.setdefault(address, {})['/metrics'] = show_metrics
        return routes

    def show_health(self, headers: Mapping[str, str]) -> Answer:
        """Answer for all workers."""
        told, time = self._workers.told(), stamp(self._clock)
        checks = merged(told)
        checks['workers'] = self._workers.check(told, time)
        if self._stopping.is_set():
            checks[worker.READY] = Check(WARN, time, worker.STOPPING)
        ids = (each.service_id for each in told if each.service_id)
        self._service_id = next(ids, self._service_id)
        return self._settings.answer(checks, self._service_id)

    def show_ready(self, headers: Mapping[str, str]) -> Answer:
        """Say whether requests are taken: by one worker at least."""
        reason = worker.STOPPING if self._stopping.is_set() else None
        reason = reason or not_ready(self._workers.told())
        body = {'ready': reason is None, 'reason': reason or ''}
        return Answer(
            503 if reason else 200,
            'application/json',
            json.dumps(body).encode(),
            {'Cache-Control': 'no-cache'},
        )

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
        return any(not each.problem for each in self._workers.told())

    def wait(self) -> None:
        self._stopped.wait()

    def reset(self) -> None:
        """Nothing is kept here that a reload could change."""


def show_metrics(directory: str, prefix: str) -> Callable[[Workers], Route]:
    """Return what makes the route of the metrics that are kept in a directory."""

    def make(workers: Workers) -> Route:
        # It settles at its import where values are kept: see there.
        from novasched.observability import prometheus

        together = prometheus.Together(directory, prefix=prefix)

        def show(headers: Mapping[str, str]) -> Answer:
            workers.ask(worker.GAUGES)
            return prometheus.answer(together, headers)

        return show

    return make
