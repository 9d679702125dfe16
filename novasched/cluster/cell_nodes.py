# SPDX-License-Identifier: Apache-2.0
"""The compute nodes and services of one cell, taken in by delta.

Questions to a cell may overlap, and their answers may come in any order: an answer
never undoes what a later question showed.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from novasched.cluster.reading import Answer, Known, Moment, Reading
from novasched.cluster.services import Services
from novasched.ports import ComputeNodeRow, ServiceRow

SERVICES_AGE_S = 5.0
"""How often the service of a node that has none is looked for."""


@dataclass(eq=False)
class CellNodes:
    """What is known of one cell; ``services_version`` grows with what filters see,
    and ``total`` is the sum of the marks of the rows.

    Of the questions answered, ``taken`` is the newest, ``whole`` the number of the
    newest for all nodes and ``listed`` that for all services. While questions
    overlap, ``seen`` has the newest that showed a node, be it alive or deleted, and
    ``heard`` that which showed that the service of a host came or went. ``homeless``
    are the hosts of nodes without a service, ``looked_s`` is when they were looked for.
    """

    rows: dict[int, ComputeNodeRow] = field(default_factory=dict)
    total: int = 0
    takes: int = 0
    services: Services = field(default_factory=Services)
    services_version: int = 0
    looked_s: float = float('-inf')
    homeless: frozenset[str] = frozenset()
    taken: Reading | None = None
    whole: int = 0
    listed: int = 0
    under_way: set[int] = field(default_factory=set)
    seen: dict[int, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def since(
        self, moment: Moment, overlap: datetime.timedelta
    ) -> datetime.datetime | None:
        """Return from which time stamp on a delta must ask; None: for all."""
        if self.taken is None:
            return None
        return self.taken.moment.before(moment) - overlap

    def known(self) -> Known:
        """Return what a delta is compared with."""
        return Known(self.rows, len(self.rows), self.total, self.takes)

    def is_in_doubt(self, reading: Reading, answer: Answer) -> bool:
        """Say whether another answer was taken meanwhile, that may have been older."""
        others = self.takes > reading.known.takes + 1
        return others and answer.summed not in (None, (len(self.rows), self.total))

    def look_for(self, moment: Moment) -> frozenset[str]:
        """Return the hosts whose service is to be looked for once more."""
        old = moment.monotonic_s - self.looked_s >= SERVICES_AGE_S
        return self.homeless if old else frozenset()

    def news(
        self, reading: Reading, answer: Answer
    ) -> tuple[dict[int, ComputeNodeRow], set[int]]:
        """Return the rows of an answer that differ, and the ids that are gone."""
        nodes = [row for row in answer.nodes if not self._is_outdone(row.id, reading)]
        changed = {
            row.id: row
            for row in nodes
            if row.deleted == 0 and row != self.rows.get(row.id)
        }
        gone = {row.id for row in nodes if row.deleted != 0 and row.id in self.rows}
        if reading.since is None:
            absent = self.rows.keys() - {row.id for row in answer.nodes}
        else:
            absent = self.rows.keys() & set(answer.gone)
        gone |= {id_ for id_ in absent if not self._is_outdone(id_, reading)}
        return changed, gone

    def _is_outdone(self, id_: int, reading: Reading) -> bool:
        return self.seen.get(id_, self.whole) > reading.number

    def take(
        self,
        reading: Reading,
        answer: Answer,
        changed: Mapping[int, ComputeNodeRow],
        gone: Collection[int],
    ) -> None:
        """Take in an answer and its news."""
        self.takes += 1
        number = reading.number
        if self.under_way - {number}:
            shown = [*gone, *(row.id for row in answer.nodes)]
            self.seen.update(
                (id_, number) for id_ in shown if not self._is_outdone(id_, reading)
            )
        for id_, row in changed.items():
            before = self.rows.get(id_)
            self.total += row.mark - (0 if before is None else before.mark)
            self.rows[id_] = row
        for id_ in gone:
            self.total -= self.rows.pop(id_).mark
        self._take_services(reading, answer)
        if reading.since is None:
            self.whole = max(self.whole, number)
        if self._is_newest(reading):
            self.taken = reading
        asked, homeless = changed, self.homeless
        if answer.services is not None or answer.news.deleted:
            asked, homeless = self.rows, frozenset()
        hosts = homeless.union(row.host for row in asked.values() if row.host)
        self.homeless = frozenset(h for h in hosts if not self.services.knows(h))

    def _is_newest(self, reading: Reading) -> bool:
        return self.taken is None or self.taken.number < reading.number

    def _take_services(self, reading: Reading, answer: Answer) -> None:
        services = self.services
        if answer.services is not None:
            services = self._listed_services(reading, answer.services)
        elif self._is_newest(reading):
            rows = [*answer.news.live, *answer.found]
            services = services.with_some(rows, answer.news.deleted)
            if self.under_way - {reading.number}:
                self._hear(reading, services)
        if self._is_newest(reading):
            services = services.with_unavailable(
                answer.news.live if answer.services is None else answer.services,
                reading.moment.window,
            )
        if reading.look_for or answer.services is not None:
            self.looked_s = max(self.looked_s, reading.moment.monotonic_s)
        if not services.looks_like(self.services):
            self.services_version += 1
        self.services = services

    def _hear(self, reading: Reading, services: Services) -> None:
        """Note of which hosts the service came or went."""
        if services.rows is not self.services.rows:
            news = services.rows.items() ^ self.services.rows.items()
            self.heard.update((host, reading.number) for host, _ in news)

    def _listed_services(self, reading: Reading, rows: list[ServiceRow]) -> Services:
        """Return all services as listed, but for what was heard since."""
        services, number = self.services, reading.number
        if self.listed > number:
            return services
        self.listed = number
        since = {host for host, heard in self.heard.items() if heard > number}
        heard = [row for host, row in services.rows.items() if host in since]
        return services.with_rows(
            [*(row for row in rows if row.host not in since), *heard]
        )
