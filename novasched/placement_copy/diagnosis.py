# SPDX-License-Identifier: Apache-2.0
"""Placement diagnoses of requests, at once where placement is known, or later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from novasched import errors
from novasched.decisions.record import DIAGNOSED_WITHIN_S, Head
from novasched.placement_copy import PlacementCopy
from novasched.placement_copy.copy import CopyKeeper
from novasched.providers.diagnosis import diagnose
from novasched.providers.table import ProviderTable
from novasched.resources.query import Query, decode
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

JUST_BEFORE_S = 10.0
"""A copy that is older says too little of a request."""
MOST_MADE = 100
"""Diagnoses that are remembered: one of 10,000 hosts takes 3 ms."""
AskedAt = tuple[float, Query]
"""When placement was asked, in seconds since 1970, and what."""
Diagnosed = tuple[dict[str, Any], bool]
"""A diagnosis, and whether the table has all hosts and offers none."""
DIAGNOSE_EVERY_S = 5.0
"""Between two looks for records that wait."""


class WaitingRecords(Protocol):
    """The records of this machine that wait for a diagnosis."""

    def waiting(self) -> Sequence[tuple[Head, Any]]:
        """Return the heads and bodies of some of them."""

    def complete(self, diagnoses: Mapping[str, Mapping[str, Any] | None]) -> set[str]:
        """Put diagnoses into records, or give them up; return the ids of those that
        waited until now."""


class PlacementDiagnosis:
    """Finds out from the copy of placement what placement held back."""

    def __init__(
        self,
        # names of hosts by uuid of their compute node
        hosts: Callable[[], Mapping[str, str]],
        clock: Clock,
        copy: CopyKeeper,
        aggregates: Callable[[], Mapping[str, str]] = dict,  # names by uuid
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._copy = copy
        self._aggregates = aggregates
        self._logged = LogOnce()
        self._made: tuple[ProviderTable | None, dict[str, Diagnosed]] = None, {}

    def __call__(self, query: Query) -> dict[str, Any] | None:
        """Return the diagnosis of a query that found nothing.

        Returns None if too little is known now, or if it is out of date.
        """
        current = self._copy.current(JUST_BEFORE_S)
        if current is None or not current.contents.knows(query.aggregates()):
            return None
        made, agrees = self._diagnosis(
            query, current, self._clock.monotonic() - current.as_of
        )
        return made if current.is_exact or agrees else None

    def _diagnosis(self, query: Query, copy: PlacementCopy, age_s: float) -> Diagnosed:
        """Return a diagnosis; many requests ask the same of the same table."""
        text, table, (of, made) = query.encode(), copy.table, self._made
        if of is not table or len(made) >= MOST_MADE:
            made = {}
            self._made = table, made
        if text not in made:
            names, hosts = self._aggregates(), self._hosts()
            source = 'mirror' if copy.is_exact else copy.source  # as records have it
            found = diagnose(query, table, hosts, 0.0, source, names)
            has_all = found['hosts'] == len(hosts)
            made[text] = found, has_all and not found['offered']
        found, agrees = made[text]
        return {**found, 'age_s': round(age_s, 1)}, agrees

    def complete(self, records: WaitingRecords) -> Mapping[str, int]:
        """Complete the waiting records for which it is possible now.

        Returns how many got a diagnosis ('made') and how many will have 'none'. A
        failure is logged once until it is over; the records wait on.
        """
        try:
            found = self._found(records.waiting())
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
        self, waiting: Sequence[tuple[Head, Any]]
    ) -> dict[str, dict[str, Any] | None]:
        """Return diagnoses by record, None if there will be none; others wait on."""
        found: dict[str, dict[str, Any] | None] = {}
        queries: dict[str, AskedAt] = {}
        for head, body in waiting:
            query, at = _last_query(body), head.at / 1e6
            if query is None or self._clock.time() - at > DIAGNOSED_WITHIN_S:
                found[head.id] = None
            else:
                queries[head.id] = at, query
        current = self._copy.current(DIAGNOSED_WITHIN_S) if queries else None
        return found if current is None else found | self._said_by(current, queries)

    def _said_by(
        self, copy: PlacementCopy, queries: Mapping[str, AskedAt]
    ) -> dict[str, dict[str, Any] | None]:
        """Return the diagnoses that a copy allows, None if there can be none.

        A copy from before the request is out of date if it is old, lacks a host or
        offers one: placement offered none.
        """
        found: dict[str, dict[str, Any] | None] = {}
        as_of = self._clock.time() - (self._clock.monotonic() - copy.as_of)
        for decision, (at, query) in queries.items():
            if not copy.contents.knows(query.aggregates()):
                self._copy.want(query.aggregates())
                continue
            age_s = at - as_of
            if age_s > JUST_BEFORE_S:
                continue
            try:
                made, agrees = self._diagnosis(query, copy, age_s)
            except Exception:  # a defect costs no other record
                LOG.exception('No diagnosis can be made for record %s', decision)
                found[decision] = None
                continue
            if agrees or made['age_s'] <= 0:
                found[decision] = made
        return found


def _last_query(body: Mapping[str, Any]) -> Query | None:
    """Return the query of a record, or None if it has none or a too long one."""
    try:
        text = body['asked'][-1]['query']
        return decode(text) if text else None
    except (LookupError, TypeError, errors.InvalidCandidateQuery):
        return None
