# SPDX-License-Identifier: Apache-2.0
"""Health of the components of a process: pass, warn or fail, since when, and why.

Nova's specification "Per Process Healthcheck endpoints" has the form and the rules.
Checks report what the service does anyway; answering a client asks no other service.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from novasched import errors
from novasched.observability.serving import Response
from novasched.observability.settings import Settings
from novasched.runtime.clock import Clock

PASS, WARN, FAIL = 'pass', 'warn', 'fail'
WORST = (FAIL, WARN, PASS)
VERSION = '1.0'
CONTENT_TYPE = 'application/health+json'
READY = 'ready'
"""The check that says whether requests are taken."""


def stamp(at: datetime.datetime) -> str:
    """Return a time of day, UTC without a zone, as checks have it."""
    return f'{at.isoformat(timespec="seconds")}+00:00'


class Check(NamedTuple):
    """State of one component at ``time``, ISO 8601 in UTC; ``output`` says why it is
    not well, or how."""

    status: str
    time: str
    output: str = ''

    def to_dict(self) -> dict[str, str]:
        """Return the form that travels."""
        return {name: text for name, text in self._asdict().items() if text}


Checker = Callable[[], Mapping[str, Check]]
"""Finds out how components are, at once and without asking anybody."""


class _News(NamedTuple):
    status: str
    output: str
    at: datetime.datetime
    heard_s: float


class Health:
    """What is known of the components of one service; threads may share it.

    ``ttl_s`` is how long news count; 0: for ever. What is asked only now and then
    is well again with the next good news, and fails when two in a row are bad.
    ``checkers`` are asked whenever somebody asks.
    """

    def __init__(self, clock: Clock, ttl_s: float = 300.0) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._news: dict[str, _News] = {}
        self.checkers: list[Checker] = []
        self.service_id: str | None = None

    def time(self) -> str:
        """Return the time as checks have it."""
        return stamp(self._clock.utcnow())

    def good(self, name: str) -> None:
        """Take in that a component works."""
        self._keep(name, PASS, '')

    def bad(self, name: str, output: str, status: str | None = None) -> None:
        """Take in that a component does not work.

        Without ``status``, the first bad news is a warning.
        """
        before = self._news.get(name)
        again = before is not None and before.status != PASS
        self._keep(name, status or (FAIL if again else WARN), output)

    def _keep(self, name: str, status: str, output: str) -> None:
        clock = self._clock
        with self._lock:
            self._news[name] = _News(status, output, clock.utcnow(), clock.monotonic())

    def wants_news(self, name: str) -> bool:
        """Return whether it is time to ask: the last news are bad, or half expired."""
        found = self._news.get(name)
        if found is None or found.status != PASS:
            return True
        age_s = self._clock.monotonic() - found.heard_s
        return bool(self._ttl_s) and age_s >= self._ttl_s / 2

    def checks(self) -> dict[str, Check]:
        """Return how all components are, by name."""
        with self._lock:
            found = {name: self._judged(news) for name, news in self._news.items()}
        for check in self.checkers:
            found.update(check())
        return dict(sorted(found.items()))

    def _judged(self, news: _News) -> Check:
        age_s = self._clock.monotonic() - news.heard_s
        if not self._ttl_s or age_s <= self._ttl_s:
            return Check(news.status, stamp(news.at), news.output)
        return Check(WARN, stamp(news.at), f'no news for {age_s:.0f} s')


class Probe(NamedTuple):
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


def overall(checks: Iterable[Check]) -> str:
    """Return the worst state of all; without any, nothing is known: a warning."""
    return min((check.status for check in checks), key=WORST.index, default=WARN)


def answer(
    settings: Settings, checks: Mapping[str, Check], service_id: str | None
) -> Response:
    """Return the answer to a client: a failure is never to be kept, nor is what is said
    while the service starts or stops."""
    status = overall(checks.values())
    body: dict[str, Any] = {
        'status': status,
        'version': VERSION,
        'serviceId': service_id,
        'description': settings.description,
        'notes': {'host': settings.host},
        'checks': {name: check.to_dict() for name, check in checks.items()},
    }
    serves = READY in checks and checks[READY].status == PASS
    max_age_s = settings.max_age_s
    headers = {}
    if status == FAIL or not serves or max_age_s < 0:
        headers['Cache-Control'] = 'no-cache'
    elif max_age_s:
        headers['Cache-Control'] = f'max-age={max_age_s}'
    code = 503 if status == FAIL else 200
    return Response(code, CONTENT_TYPE, json.dumps(body).encode(), headers)
