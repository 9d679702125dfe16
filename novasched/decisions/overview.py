# SPDX-License-Identifier: Apache-2.0
"""Overview of the last seconds of a decision log."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from novasched.decisions import worker_state
from novasched.decisions.body import RecordBody, RecordedView
from novasched.decisions.counting import Count
from novasched.decisions.listing import NewestDecision
from novasched.decisions.reading import Criteria, DecisionFiles, DecisionReader
from novasched.decisions.record import Head, Servers
from novasched.scheduler.outcomes import LOST

MINUTE = 60_000_000
NO_BODY = RecordBody()
NEWEST, REASONS = 20, 10
MOST_TIMES = 2000
"""Records whose times are read: every n-th in the order of writing."""
SAMPLE = 200
"""Times that stand for all, from the shortest to the longest."""


@dataclass(frozen=True)
class TookSample:
    """What requests took in microseconds: the sum, and times that stand for all."""

    total: int = 0
    sample: Sequence[int] = ()


@dataclass(frozen=True)
class LostCount:
    """How many claims had an outcome, and when the newest one had; 0: never."""

    count: int = 0
    at: int = 0


@dataclass(frozen=True)
class SchedulerOverview:
    """The last seconds of one log, as it travels. Times are in us since 1970."""

    since: int = 0
    until: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    minutes: Sequence[Mapping[str, int]] = ()  # each begins ``at``
    lost: int = 0  # records
    outages: Sequence[Mapping[str, Any]] = ()  # of each worker
    picks: Sequence[Mapping[str, Any]] = ()
    took_us: TookSample = field(default_factory=TookSample)
    reasons: Sequence[Count] = ()
    newest: Sequence[NewestDecision] = ()
    query_ms: Sequence[float] = ()
    lost_claims: Mapping[str, LostCount] = field(default_factory=dict)
    view: RecordedView = field(default_factory=RecordedView)


def summarize(reader: DecisionReader, window_s: float) -> SchedulerOverview:
    """Return the overview of a log.

    Bodies are read of the newest alone: they have what stood against each, how long
    placement took, and what was known of the cells.
    """
    now = int(reader.clock.time() * 1e6)
    since = now - int(window_s * 1e6)
    criteria = Criteria(since=since)
    minutes, total_us = _minutes(reader, since)
    results = sum(minutes.values(), Counter())
    heads = reader.find(criteria, NEWEST)
    ids = [head.id for head in heads]
    servers, bodies = reader.servers_of(ids), reader.bodies_of(ids)
    read = [bodies[one] for one in ids if one in bodies]
    states = (
        worker_state.read(reader.directory, reader.clock)
        if isinstance(reader, DecisionFiles)
        else []
    )
    return SchedulerOverview(
        since=since,
        until=now,
        results=dict(results),
        minutes=[{'at': at * MINUTE, **minutes[at]} for at in sorted(minutes)],
        lost=_lost(reader, since),
        outages=[outage for state in states for outage in state['outages']],
        picks=[state['picks'] for state in states if state['picks']],
        took_us=TookSample(total_us, _sample(reader, since, results.total())),
        reasons=reader.count('plugin', criteria)[:REASONS],
        newest=[
            _newest(head, servers.get(head.id, Servers()), bodies.get(head.id, NO_BODY))
            for head in heads
        ],
        query_ms=sorted(b.stages_ms['query'] for b in read if 'query' in b.stages_ms),
        lost_claims={outcome: _lost_claims(heads, bodies, outcome) for outcome in LOST},
        view=next((body.view for body in read if not body.is_of_head), RecordedView()),
    )


def _lost_claims(
    heads: Sequence[Head], bodies: Mapping[str, RecordBody], outcome: str
) -> LostCount:
    """Return how many claims had an outcome, and when the newest one had."""
    ats = [
        head.at
        for head in heads
        for claim in bodies.get(head.id, NO_BODY).claims
        if claim.outcome == outcome
    ]
    return LostCount(len(ats), max(ats, default=0))


def _minutes(
    reader: DecisionReader, since: int
) -> tuple[Mapping[int, Counter[str]], int]:
    """Return numbers of requests by minute and result, and what all took, in us."""
    minutes: dict[int, Counter[str]] = {}
    total_us = 0
    for rows in reader.select(
        f'SELECT at / {MINUTE}, result, count(*), total(took_us) FROM decisions '
        'WHERE at >= ? GROUP BY 1, 2',
        (since,),
    ):
        for minute, result, number, took_us in rows:
            minutes.setdefault(minute, Counter())[result] += number
            total_us += int(took_us)
    return minutes, total_us


def _lost(reader: DecisionReader, since: int) -> int:
    """Return how many records were lost."""

    def ask(connection: sqlite3.Connection, _: int) -> int:
        total = 'SELECT total(records) FROM lost WHERE at >= ?'
        return int(connection.execute(total, (since,)).fetchone()[0])

    return sum(reader.each(ask, table='lost'))


def _sample(reader: DecisionReader, since: int, number: int) -> Sequence[int]:
    """Return times of requests that represent ``number`` requests, sorted."""
    statement = 'SELECT took_us FROM decisions WHERE at >= ? AND rowid % ? = 0'
    lists = reader.select(statement, (since, number // MOST_TIMES + 1))
    took = sorted(took_us for rows in lists for (took_us,) in rows)
    return took[:: len(took) // SAMPLE + 1]


def _newest(head: Head, servers: Servers, body: RecordBody) -> NewestDecision:
    return NewestDecision(
        **vars(head),
        picked=servers.hosts,
        server=next(iter(servers.uuids), ''),
        rejected=_rejected(body, head.plugin, head.code),
    )


def _rejected(body: RecordBody, plugin: str, code: str) -> int:
    """Return how many hosts the most frequent reason stands for; 0: it is not known."""
    steps = [step for made in body.whole_decisions for step in made.steps]
    of_filter = (
        reason.hosts
        for step in reversed(steps)
        if step.name == plugin
        for reason in step.reasons
        if reason.code == code
    )
    diagnosed = body.placement.reasons if body.placement is not None else ()
    of_placement = (reason.hosts for reason in diagnosed if reason.code == code)
    return next(itertools.chain(of_filter, of_placement), 0)
