# SPDX-License-Identifier: Apache-2.0
"""Placement diagnoses of requests, at once where placement is known, or later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from novasched import errors
from novasched.clock import Clock
from novasched.decision_log.record import DIAGNOSED_WITHIN_S
from novasched.log_once import LogOnce
from novasched.mirror.copy import PlacementMirror
from novasched.placement.snapshot import PlacementSnapshot
from novasched.placement.snapshot_keeper import SnapshotKeeper
from novasched.providers.diagnosis import diagnose
from novasched.providers.table import ProviderTable
from novasched.resources.query import Query, decode

LOG = logging.getLogger(__name__)

MAX_AGE_S = 300.0
"""A snapshot that is older says too little of a request."""
JUST_BEFORE_S = 30.0
"""A snapshot that was read so long before a request that waits is used, even if a new
one may be read."""
MOST_MADE = 100
"""Diagnoses that are remembered: one of 10,000 hosts takes 3 ms."""
AskedAt = tuple[float, Query]
"""When placement was asked, in seconds since 1970, and what."""
INTERVAL_S = 5.0
"""Between two looks for records that wait."""


class WaitingHead(Protocol):
    """The head of a record that waits; ``at`` is in microseconds since 1970."""

    @property
    def id(self) -> str: ...
    @property
    def at(self) -> int: ...


class WaitingRecords(Protocol):
    """The records of this machine that wait for a diagnosis."""

    def waiting(self) -> Sequence[tuple[WaitingHead, Any]]:
        """Return the heads and bodies of some of them."""

    def complete(self, diagnoses: Mapping[str, Mapping[str, Any] | None]) -> set[str]:
        """Put diagnoses into records, or give them up; return the ids of those that
        waited until now."""


class PlacementDiagnosis:
    """Finds out what placement held back, by its mirror or by snapshots of it.

    ``hosts`` returns the name of the host of each compute node, by uuid, and
    ``aggregates`` those of aggregates.
    """

    def __init__(
        self,
        hosts: Callable[[], Mapping[str, str]],
        clock: Clock,
        mirror: PlacementMirror | None = None,
        keeper: SnapshotKeeper | None = None,
        aggregates: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._mirror = mirror
        self._keeper = keeper
        self._aggregates = aggregates
        self._logged = LogOnce()
        self._made: tuple[ProviderTable | None, dict[str, dict[str, Any]]] = None, {}
        self._is_wanted = False

    def __call__(self, query: Query) -> dict[str, Any] | None:
        """Return the diagnosis of a query; None: too little is known now.

        Requests ask this: no file is read, complete() does that later.
        """
        if self._mirror is not None:
            current = self._mirror.current(MAX_AGE_S)
            if current is not None:
                return self._diagnosis(query, *current, 'mirror')
        self._is_wanted = True
        snapshot = None if self._keeper is None else self._keeper.loaded()
        if self._keeper is None or snapshot is None:
            return None
        age_s = self._keeper.age_s(snapshot)
        if age_s > MAX_AGE_S or not snapshot.knows(query.aggregates()):
            return None
        return self._diagnosis(query, snapshot.table, age_s, snapshot.source)

    def _diagnosis(
        self, query: Query, table: ProviderTable, age_s: float, source: str
    ) -> dict[str, Any]:
        """Return a diagnosis; many requests ask the same of the same table."""
        text, (of, made) = query.encode(), self._made
        if of is not table or len(made) >= MOST_MADE:
            made = {}
            self._made = table, made
        if text not in made:
            names = self._aggregates()
            made[text] = diagnose(query, table, self._hosts(), 0.0, source, names)
        return {**made[text], 'age_s': round(age_s, 1)}

    @property
    def waits(self) -> bool:
        """True if requests that get none at once may have one later."""
        return self._keeper is not None

    def complete(self, records: WaitingRecords) -> Mapping[str, int]:
        """Complete the records that wait, as far as that is possible now; return how
        many got a diagnosis ('made'), and of how many it was given up ('none').

        A failure is logged once until it is over; the records wait on.
        """
        if self._keeper is None:
            return {}
        if self._is_wanted:
            self._is_wanted = False
            self._keeper.snapshot()  # the next requests find it in memory
        try:
            found = self._found(self._keeper, records.waiting())
            done = [found[each] is not None for each in records.complete(found)]
        except errors.StoreFailed as problem:
            if self._logged.begins('records'):
                LOG.warning('Placement diagnoses cannot be recorded: %s', problem)
            return {}
        if self._logged.ends('records'):
            LOG.info('Placement diagnoses can be recorded again')
        counts = {'made': done.count(True), 'none': done.count(False)}
        return {result: count for result, count in counts.items() if count}

    def _found(
        self, keeper: SnapshotKeeper, waiting: Sequence[tuple[WaitingHead, Any]]
    ) -> dict[str, dict[str, Any] | None]:
        """Return the diagnoses of records; None: there will be none. The others wait
        on."""
        found: dict[str, dict[str, Any] | None] = {}
        queries: dict[str, AskedAt] = {}
        for head, body in waiting:
            query, at = _last_query(body), head.at / 1e6
            if query is None or self._clock.time() - at > DIAGNOSED_WITHIN_S:
                found[head.id] = None
            else:
                queries[head.id] = at, query
        if queries:
            found |= self._said_by(keeper.snapshot(), JUST_BEFORE_S, queries)
        if left := queries.keys() - found.keys():
            self._renew(keeper, {u for i in left for u in queries[i][1].aggregates()})
            others = {each: queries[each] for each in left}
            found |= self._said_by(keeper.snapshot(), MAX_AGE_S, others)
        return found

    def _renew(self, keeper: SnapshotKeeper, aggregates: set[str]) -> None:
        try:
            if keeper.renew(aggregates) and self._logged.ends('snapshot'):
                LOG.info('Placement snapshots can be read again')
        except errors.StoreFailed as problem:
            if self._logged.begins('snapshot'):
                LOG.warning('No placement snapshot, so no diagnosis: %s', problem)

    def _said_by(
        self,
        snapshot: PlacementSnapshot | None,
        max_age_s: float,
        queries: Mapping[str, AskedAt],
    ) -> dict[str, dict[str, Any] | None]:
        """Return the diagnoses that a snapshot allows; None: there can be none.

        A snapshot from before a request that offers hosts is out of date, as placement
        offered none.
        """
        found: dict[str, dict[str, Any] | None] = {}
        if snapshot is None:
            return found
        for decision, (at, query) in queries.items():
            age_s = at - snapshot.as_of
            if age_s > max_age_s or not snapshot.knows(query.aggregates()):
                continue
            try:
                made = self._diagnosis(query, snapshot.table, age_s, snapshot.source)
            except Exception:  # a defect costs no other record
                LOG.exception('No diagnosis can be made for record %s', decision)
                found[decision] = None
                continue
            if not made['offered'] or made['age_s'] <= 0:
                found[decision] = made
        return found


def _last_query(body: Mapping[str, Any]) -> Query | None:
    """Return the query of a record; None: it does not say, or was too long."""
    try:
        text = body['asked'][-1]['query']
        return decode(text) if text else None
    except (LookupError, TypeError, errors.InvalidCandidateQuery):
        return None
