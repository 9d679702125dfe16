# SPDX-License-Identifier: Apache-2.0
"""Health of the databases, by what they answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from novasched import errors
from novasched.observability.health import FAIL, Health
from novasched.ports import (
    AggregatesMark,
    ApiStore,
    Cell,
    ServiceRow,
    ServiceStore,
)
from novasched.scheduler.aggregates import Aggregate


@contextlib.contextmanager
def heard(health: Health, name: str) -> Iterator[None]:
    """Take what is done within as news of a component."""
    try:
        yield
    except errors.StoreFailed as problem:
        health.bad(name, str(problem))
        raise
    health.good(name)


class WatchedApi:
    """The API database. Satisfies ports.ApiStore."""

    def __init__(self, inner: ApiStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def cells(self) -> list[Cell]:
        with heard(self._health, 'api_db'):
            return self._inner.cells()

    def host_cell(self, host: str) -> str | None:
        with heard(self._health, 'api_db'):
            return self._inner.host_cell(host)

    def aggregates(self) -> list[Aggregate]:
        with heard(self._health, 'api_db'):
            return self._inner.aggregates()

    def aggregates_mark(self) -> AggregatesMark:
        with heard(self._health, 'api_db'):
            return self._inner.aggregates_mark()


class WatchedServices:
    """The services rows: the heartbeats of this program. Satisfies
    ports.ServiceStore."""

    def __init__(self, inner: ServiceStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self._inner.register(host, binary, topic, version)
        self._health.service_id = row.uuid
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        with heard(self._health, 'heartbeat'):
            found = self._inner.beat(service_id, report_count)
        if not found:
            self._health.bad('heartbeat', 'the services row is gone', FAIL)
        return found
