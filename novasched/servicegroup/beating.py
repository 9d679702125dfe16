# SPDX-License-Identifier: Apache-2.0
"""Services rows whose heartbeats come from memcached, not from the database."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Iterable, Iterator, Sequence

from novasched import errors
from novasched.cluster.discovery import ServiceDirectory
from novasched.ports import (
    Cell,
    CellStore,
    CellStores,
    ComputeNodeRow,
    ImageRow,
    InstanceRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.servicegroup.memcached import Beats

NEVER = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
FOR_EVER = datetime.datetime(9999, 1, 1)  # noqa: DTZ001


def dated(rows: Iterable[ServiceRow], beats: Beats) -> list[ServiceRow]:
    """Return the rows, ``last_seen_up`` the newest beat seen in memcached.

    A beat ahead of our clock is as good as one of now: it is what nova takes.
    """
    rows = list(rows)
    found, now = beats.latest([_key(row) for row in rows]), beats.now()
    return [
        row._replace(last_seen_up=min(found.get(_key(row), NEVER), now)) for row in rows
    ]


def _key(row: ServiceRow) -> str:
    return f'{row.topic}:{row.host}'


class _KnownServices:
    """The rows of the services of one cell, by id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, ServiceRow] = {}

    def replace(self, rows: Iterable[ServiceRow]) -> None:
        with self._lock:
            self._rows = {row.id: row for row in rows}

    def update(self, news: ServiceNews) -> list[ServiceRow]:
        """Take in what came and went; return all."""
        with self._lock:
            self._rows.update((row.id, row) for row in news.live)
            for id_ in news.deleted:
                self._rows.pop(id_, None)
            return list(self._rows.values())


class BeatingCellStore:
    """The database of one cell. Satisfies ports.CellStore."""

    def __init__(
        self, inner: CellStore, beats: Beats, known: _KnownServices | None = None
    ) -> None:
        self._inner = inner
        self._beats = beats
        self._known = known or _KnownServices()

    @contextlib.contextmanager
    def together(self) -> Iterator[CellStore]:
        with self._inner.together() as store:
            yield BeatingCellStore(store, self._beats, self._known)

    def compute_nodes(self) -> list[ComputeNodeRow]:
        return self._inner.compute_nodes()

    def compute_node_news(self, since: datetime.datetime) -> NodeNews:
        return self._inner.compute_node_news(since)

    def compute_node_marks(self, since: datetime.datetime | None) -> dict[int, int]:
        return self._inner.compute_node_marks(since)

    def compute_nodes_of(self, ids: Sequence[int]) -> list[ComputeNodeRow]:
        return self._inner.compute_nodes_of(ids)

    def compute_services(self) -> list[ServiceRow]:
        rows = self._inner.compute_services()
        self._known.replace(rows)
        return dated(rows, self._beats)

    def compute_services_of(self, hosts: Sequence[str]) -> list[ServiceRow]:
        rows = self._inner.compute_services_of(hosts)
        self._known.update(ServiceNews(rows, []))
        return dated(rows, self._beats)

    def service_news(
        self,
        since: datetime.datetime,
        wide: datetime.datetime,
        known_id: int,
        oldest: datetime.datetime,
        newest: datetime.datetime,
    ) -> ServiceNews:
        news = self._inner.service_news(since, wide, known_id, NEVER, FOR_EVER)
        changed = {row.id for row in news.live}
        live = [
            row
            for row in dated(self._known.update(news), self._beats)
            if row.id in changed or not oldest <= (row.last_seen_up or NEVER) <= newest
        ]
        return ServiceNews(live, news.deleted)

    def minimum_compute_version(self) -> int:
        return self._inner.minimum_compute_version()

    def utcnow(self) -> datetime.datetime:
        return self._inner.utcnow()

    def computes_seen_after(self, moment: datetime.datetime) -> list[ServiceRow]:
        return self._inner.computes_seen_after(moment)

    def instances_on(self, hosts: Sequence[str]) -> list[InstanceRow]:
        return self._inner.instances_on(hosts)

    def images_on(self, hosts: Sequence[str]) -> list[ImageRow]:
        return self._inner.images_on(hosts)


class BeatingCellStores:
    """The databases of the cells. Satisfies ports.CellStores."""

    def __init__(self, inner: CellStores, beats: Beats) -> None:
        self._inner = inner
        self._beats = beats
        self._opened: dict[str, tuple[CellStore, BeatingCellStore]] = {}
        # Changes will do after new connections, too: so who is known stays.
        self._known: dict[str, _KnownServices] = {}
        self._lock = threading.Lock()

    def open(self, cell: Cell) -> BeatingCellStore:
        store = self._inner.open(cell)
        with self._lock:
            found = self._opened.get(cell.uuid)
            if found is None or found[0] is not store:
                known = self._known.setdefault(cell.uuid, _KnownServices())
                found = store, BeatingCellStore(store, self._beats, known)
                self._opened[cell.uuid] = found
            return found[1]

    def forget(self, uuids: Iterable[str] | None = None) -> None:
        uuids = None if uuids is None else list(uuids)
        with self._lock:
            for uuid in list(self._opened) if uuids is None else uuids:
                self._opened.pop(uuid, None)
        self._inner.forget(uuids)


class BeatingServices:
    """The services rows of schedulers. Satisfies cluster.discovery.ServiceDirectory.

    Our own heartbeat goes to memcached, and the row stays as it is.
    """

    def __init__(self, inner: ServiceDirectory, beats: Beats) -> None:
        self._inner = inner
        self._beats = beats
        self._keys: dict[int, str] = {}

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self._inner.register(host, binary, topic, version)
        self._keys[row.id] = _key(row)
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        key = self._keys.get(service_id)
        if key is None:
            raise errors.StoreFailed('memcached', 'the service is not registered')
        self._beats.put(key)
        return True

    def of_program(self, binary: str) -> list[ServiceRow]:
        return dated(self._inner.of_program(binary), self._beats)
