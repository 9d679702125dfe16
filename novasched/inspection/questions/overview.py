# SPDX-License-Identifier: Apache-2.0
"""The last seconds of all schedulers, added up."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novasched.decisions.body import RecordedView
from novasched.decisions.listing import ShownDecision
from novasched.decisions.overview import SchedulerOverview
from novasched.inspection.questions.reports import (
    BlockerCount,
    CellState,
    LostClaims,
    OutageSummary,
    Overview,
)
from novasched.runtime.times import TIME, time_of

US_PER_MS = 1000.0
NEWEST = 20
BLOCKERS = 10


def merged(
    parts: Mapping[str, SchedulerOverview],
    window_s: float,
    unanswered: Sequence[str] = (),
    without_log: Sequence[str] = (),
) -> Overview:
    """Add up the overviews of schedulers, by their hosts."""
    each = list(parts.values())
    results: Counter[str] = Counter()
    for part in each:
        results.update(part.results)
    took = [
        (us, sum(part.results.values()) / len(part.took_us.sample))
        for part in each
        for us in part.took_us.sample
    ]
    total_us = sum(part.took_us.total for part in each)
    newest = sorted(
        (
            ShownDecision(**vars(row), scheduler=host)
            for host, part in parts.items()
            for row in part.newest
        ),
        key=lambda row: row.at,
        reverse=True,
    )
    last = max(
        (part for part in each if part.newest),
        key=lambda part: part.newest[0].at,
        default=None,
    )
    return Overview(
        until=max((time_of(part.until, TIME) for part in each), default=None),
        window_s=window_s,
        schedulers=sorted(parts),
        unanswered=list(unanswered),
        without_log=list(without_log),
        requests_per_s=results.total() / window_s,
        in_flight=total_us / 1e6 / window_s,
        results=dict(results),
        lost_claims=_lost_claims(each),
        records_lost=sum(part.lost for part in each),
        took_ms={
            f'p{share}': _rounded(_quantile(took, share / 100), US_PER_MS)
            for share in (50, 99)
        },
        placement_ms={
            'p50': _rounded(
                _quantile([(ms, 1.0) for part in each for ms in part.query_ms], 0.5)
            )
        },
        outages=_outages(each),
        picks=_picks(each),
        blockers=_blockers(each),
        minutes=_minutes(each),
        cells=_cells(last.view if last is not None else RecordedView()),
        newest=newest[:NEWEST],
    )


def _lost_claims(parts: Sequence[SchedulerOverview]) -> dict[str, LostClaims]:
    """Return the claims of the newest requests that were lost to others, by outcome."""
    found: dict[str, LostClaims] = {}
    for part in parts:
        for outcome, lost in part.lost_claims.items():
            if lost.count:
                known = found.get(outcome, LostClaims(0, math.inf))
                age_s = round((part.until - lost.at) / 1e6, 1)
                found[outcome] = LostClaims(
                    known.count + lost.count, min(known.age_s, age_s)
                )
    return found


def _rounded(number: float | None, unit: float = 1.0) -> float | None:
    return None if number is None else round(number / unit, 1)


def _quantile(weighted: Iterable[tuple[float, float]], share: float) -> float | None:
    ordered = sorted(weighted)
    left = share * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left < 0:
            return value
    return ordered[-1][0] if ordered else None


def _blockers(parts: Iterable[SchedulerOverview]) -> list[BlockerCount]:
    """Return the filters that left no host, or else the reason, the most frequent
    first; ``code`` is the most frequent reason of a filter."""
    counted: Counter[str] = Counter()
    codes: dict[str, Counter[str]] = {}
    for part in parts:
        for each in part.reasons:
            if each.value.startswith('('):
                counted[each.most_often] += each.count
            else:
                counted[each.value] += each.count
                known = codes.setdefault(each.value, Counter())
                known[each.most_often] += each.count
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [
        BlockerCount(name, count, _most_frequent(codes.get(name)))
        for name, count in ordered[:BLOCKERS]
    ]


def _most_frequent(counted: Counter[str] | None) -> str:
    return counted.most_common(1)[0][0] if counted else ''


def _outages(parts: Iterable[SchedulerOverview]) -> list[OutageSummary]:
    """Return the services that requests wait for, of all workers: since the first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in itertools.chain(*(part.outages for part in parts)):
        found.setdefault(each['service'], []).append(each)
    return [
        OutageSummary(
            service=service,
            problem=seen[0]['problem'],
            since_s=max(round(each['since_s'], 1) for each in seen),
            waiting=sum(each['waiting'] for each in seen),
            in_vain=sum(each['in_vain'] for each in seen),
        )
        for service, seen in sorted(found.items())
    ]


def _picks(parts: Iterable[SchedulerOverview]) -> dict[str, float]:
    """Return the number of assumed picks, and the sums of the counts of all workers.

    Each worker hears of all picks, so the one that assumes most gives their number.
    """
    workers = [each for part in parts for each in part.picks]
    names = dict.fromkeys(name for each in workers for name in each)
    return {
        name: (max if name in ('assumed', 'oldest_s') else sum)(
            each.get(name, 0) for each in workers
        )
        for name in names
    }


def _minutes(parts: Iterable[SchedulerOverview]) -> list[dict[str, Any]]:
    added: dict[int, Counter[str]] = {}
    for part in parts:
        for minute in part.minutes:
            results = {k: n for k, n in minute.items() if k != 'at'}
            added.setdefault(minute['at'], Counter()).update(results)
    return [{'at': time_of(at), **added[at]} for at in sorted(added)]


def _cells(view: RecordedView) -> list[CellState]:
    ages, left_out = view.ages_s, view.left_out
    return [
        CellState(cell, _rounded(ages.get(cell)), cell in left_out)
        for cell in sorted({*ages, *left_out})
    ]
