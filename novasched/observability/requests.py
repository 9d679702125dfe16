# SPDX-License-Identifier: Apache-2.0
"""Requests on their way through this process, and the outages that they wait for."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator

from novasched import errors
from novasched.cluster.assumed import AssumedInstances
from novasched.observability import catalogue
from novasched.observability.catalogue import Recorder
from novasched.observability.health import FAIL, PASS, WARN, Check
from novasched.outages import Outages
from novasched.runtime.clock import Clock


class RequestTracker:
    """Counts requests, and knows how long each has been under way.

    ``threads`` is how many there can be at once. Satisfies ports.Requests.
    """

    def __init__(
        self, recorder: Recorder, threads: int, patience_s: float, clock: Clock
    ) -> None:
        self._recorder = recorder
        self._threads = threads
        self._patience_s = patience_s
        self._clock = clock
        self._names = itertools.count()
        self._since: dict[int, float] = {}
        self._queued: dict[int, float] = {}
        self._finished = 0
        self._counting = threading.Lock()

    def arrived(self, waited_s: float) -> None:
        self._recorder.observe(catalogue.QUEUE_WAIT_SECONDS, waited_s)

    def queued(self, message: int, waited_s: float) -> None:
        self._queued[message] = self._clock.monotonic() - waited_s

    def taken(self, message: int) -> None:
        self._queued.pop(message, None)

    def placed(self, servers: int) -> None:
        self._recorder.count(catalogue.SERVERS_PLACED, by=servers)

    def finished(self) -> int:
        return self._finished

    def measure(self) -> None:
        """Set the gauges of the present state."""
        now, queued = self._clock.monotonic(), list(self._queued.values())
        oldest_s = max((now - since for since in queued), default=0.0)
        self._recorder.set(catalogue.THREADS, self._threads)
        self._recorder.set(catalogue.MESSAGES_WAITING, len(queued))
        self._recorder.set(catalogue.OLDEST_WAITING, oldest_s)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        name, since = next(self._names), self._clock.monotonic()
        self._since[name] = since
        self._recorder.count(catalogue.IN_FLIGHT)
        result = 'error'
        try:
            yield
            result = 'scheduled'
        except errors.NoValidHost:
            result = 'unschedulable'
            raise
        finally:
            del self._since[name]
            with self._counting:
                self._finished += 1
            took_s = self._clock.monotonic() - since
            self._recorder.count(catalogue.IN_FLIGHT, by=-1)
            self._recorder.count(catalogue.ATTEMPTS, result)
            self._recorder.observe(catalogue.ATTEMPT_SECONDS, took_s, result)

    def under_way(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - since for since in list(self._since.values())]

    def check(self, time: str) -> Check:
        """Judge whether requests get through; one without a waiting caller is
        a warning, and when they hold all threads nothing does."""
        late = sum(since_s > self._patience_s for since_s in self.under_way())
        if not late:
            return Check(PASS, time)
        output = (
            f'{late} of {self._threads} threads have worked on a request for over '
            f'{self._patience_s:.0f} s'
        )
        return Check(FAIL if late >= self._threads else WARN, time, output)


class OutageMetrics:
    """Counts what outages cost; see outages.Outages."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def waits(self, service: str, requests: int) -> None:
        self._recorder.set(catalogue.OUTAGE_WAITING, requests, _label(service))

    def waited(self, service: str, seconds: float, timed_out: bool) -> None:
        label = _label(service)
        self._recorder.count(catalogue.OUTAGE_SECONDS, label, by=seconds)
        if timed_out:
            self._recorder.count(catalogue.OUTAGE_IN_VAIN, label)


class PickMetrics:
    """Counts the picks that schedulers send each other; ``assumed`` has those that are
    remembered."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._counted: Counter[str] = Counter()
        self.assumed: AssumedInstances | None = None

    def count(self, what: str, picks: int) -> None:
        """Count picks that were sent, lost, received or refused."""
        self._recorder.count(catalogue.PICKS, what, by=picks)
        with self._lock:
            self._counted[what] += picks

    def now(self) -> dict[str, float]:
        """Return how many picks are ``assumed``, for how long the oldest, and counts of
        all until now; nothing where none is."""
        if not self.assumed:
            return {}
        oldest_s = round(self.assumed.oldest_s(), 1)
        return {'assumed': len(self.assumed), 'oldest_s': oldest_s, **self._counted}

    def measure(self) -> None:
        """Set the gauges of the present state."""
        if self.assumed is not None:
            self._recorder.set(catalogue.PICKS_ASSUMED, len(self.assumed))
            self._recorder.set(catalogue.PICKS_AGE, self.assumed.oldest_s())

    def check(self, time: str) -> Check:
        """Say what is assumed; nothing of it is a fault."""
        assert self.assumed is not None
        number, age_s = len(self.assumed), self.assumed.oldest_s()
        output = f'{number} picks are assumed, the oldest unseen for {age_s:.0f} s'
        return Check(PASS, time, output)


def _label(service: str) -> str:
    """Return a service as metrics name it."""
    return service.removeprefix('the ')


def check_outages(outages: Outages, time: str) -> Check:
    """Judge the outages: while requests wait for their end they are a warning."""
    now = outages.now()
    is_bad = any(each.in_vain for each in now)
    status = FAIL if is_bad else WARN if now else PASS
    return Check(status, time, '; '.join(map(str, now)))
