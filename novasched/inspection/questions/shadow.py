# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow: what it decided beside what nova chose."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from novasched.decisions.comparison import (
    SAME,
    SIMILAR,
    Cause,
    ComparedServer,
    Verdict,
)
from novasched.runtime.typed_json import time_field

MOST_DIFFERENCES = 100
"""Differences that a report shows, the newest."""
MOST_GAPS = 20
"""Gaps that a report shows, the newest."""
LEAST_GAP_US, LATE_US = 1_000_000, 60_000_000
"""What is less is no gap; until when requests are tapped is written now and then."""
WEIGHED = (Verdict.BETTER, Verdict.WORSE)
UNEXPLAINED = (Cause.UNKNOWN, Cause.WEIGHERS)
SYSTEMATIC = 0.9
LEAST = 5
"""A filter is a finding if it rejects nova's host for LEAST servers. A weigher is one
if nova's host is the best without it in this share of as many differences."""


@dataclass(frozen=True)
class Difference(ComparedServer):  # type: ignore[misc]  # no field has a default
    """A server for which nova chose another host, or one of the two found none."""

    at: int = time_field()

    @property
    def weighers_named(self) -> list[str]:
        return list(filter(None, self.weighers.split(',')))


@dataclass(frozen=True)
class SystematicDifference:
    """What is the same in many differences: a filter or weigher by its ``name``, and
    ``servers`` of ``of`` that it holds for."""

    cause: str  # of Cause
    name: str
    servers: int
    of: int


@dataclass(frozen=True)
class UntappedTime:
    """A time in which no request was tapped."""

    since: int = time_field()
    until: int = time_field()

    @property
    def length_s(self) -> float:
        return (self.until - self.since) / 1e6


@dataclass(frozen=True)
class Latency:
    """Times in ms, and how many there are; None if there are none."""

    number: int = 0
    p50: float | None = None
    p99: float | None = None


@dataclass(frozen=True)
class RefusedChoices:
    """Servers whose host refused them after nova had chosen it, by that host."""

    servers: int = 0
    elsewhere: int = 0  # of them, how many we had placed on a host that did not
    hosts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShadowReport:
    """The answer of ``novasched shadow report``.

    ``our_ms`` and ``nova_ms`` are of decisions, nova's where its notifications say so.
    ``seen_ms`` are times until the choice was seen, of the servers of the others.
    """

    since: int = time_field()
    until: int = time_field()
    requests: int = 0
    servers: int = 0
    findings: Sequence[SystematicDifference] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, int] = field(default_factory=dict)
    filters: Mapping[str, int] = field(default_factory=dict)  # of cause filter
    weighers: Mapping[str, int] = field(default_factory=dict)
    """Those without which nova's host is the best, where no cause is certain."""
    refusals: RefusedChoices = field(default_factory=RefusedChoices)
    our_ms: Latency = field(default_factory=Latency)
    nova_ms: Latency = field(default_factory=Latency)
    seen_ms: Latency = field(default_factory=Latency)
    tapped_s: float = 0.0
    gaps: Sequence[UntappedTime] = ()  # the newest first
    gaps_total: int = 0
    differences: Sequence[Difference] = ()  # the newest first

    @property
    def known(self) -> int:
        """Servers of which it is known what nova chose."""
        return self.servers - self.verdicts.get(Verdict.UNKNOWN, 0)

    @property
    def same(self) -> int:
        """Servers with the same host, or one that weighs alike."""
        return sum(self.verdicts.get(each, 0) for each in SAME)

    @property
    def different(self) -> int:
        return self.known - self.same


def report(
    compared: Iterable[ComparedServer],
    listened: Sequence[tuple[int, int]],
    since: int,
    until: int,
) -> ShadowReport:
    """Return the report of comparisons, the newest first, and of times in which
    requests were tapped, the oldest first. Times are in us since 1970."""
    verdicts: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    filters: Counter[str] = Counter()
    weighers: Counter[str] = Counter()
    refusing: Counter[str] = Counter()
    refused = elsewhere = requests = 0
    uncertain: list[ComparedServer] = []
    our_ms, nova_ms, seen_ms = [], [], []
    differences: list[Difference] = []
    for _, servers in itertools.groupby(compared, attrgetter('id')):
        for number, each in enumerate(servers):
            if not number:
                requests += 1
                our_ms.append(each.took_us / 1000)
                if each.nova_ms is not None:
                    nova_ms.append(each.nova_ms)
            verdicts[each.verdict] += 1
            if each.verdict != Verdict.UNKNOWN and each.nova_ms is None:
                seen_ms.append(each.seen_ms)
            if hosts := list(filter(None, each.refused.split(','))):
                refused += 1
                elsewhere += each.ours is not None and each.ours not in hosts
                refusing.update(hosts)
            if each.verdict in SIMILAR:
                continue
            causes[each.cause] += 1
            if each.cause == Cause.FILTER:
                filters[each.detail] += 1
            elif each.verdict in WEIGHED and _is_uncertain(each):
                uncertain.append(each)
                if each.verdict == Verdict.BETTER:
                    weighers.update(filter(None, each.weighers.split(',')))
            if len(differences) < MOST_DIFFERENCES:
                differences.append(Difference(**vars(each)))
    known = verdicts.total() - verdicts[Verdict.UNKNOWN]
    turned = [*_findings(Cause.WEIGHERS, weighers, len(uncertain), SYSTEMATIC)]
    for each in uncertain:
        if any(finding.name in each.weighers.split(',') for finding in turned):
            causes[each.cause] -= 1
            causes[Cause.WEIGHERS] += 1
    not_offered = Counter({'': causes[Cause.NOT_OFFERED]})
    tapped_us, gaps = _tapped(listened, since, until)
    return ShadowReport(
        since=since,
        until=until,
        requests=requests,
        servers=verdicts.total(),
        findings=[
            *turned,
            *_findings(Cause.FILTER, filters, known),
            *_findings(Cause.NOT_OFFERED, not_offered, known),
        ],
        verdicts=_ordered(verdicts, Verdict),
        causes=_ordered(causes, Cause),
        filters=dict(filters.most_common()),
        weighers=dict(weighers.most_common()),
        refusals=RefusedChoices(refused, elsewhere, dict(refusing.most_common())),
        our_ms=_latency(our_ms),
        nova_ms=_latency(nova_ms),
        seen_ms=_latency(seen_ms),
        tapped_s=tapped_us / 1e6,
        gaps=gaps[::-1][:MOST_GAPS],
        gaps_total=len(gaps),
        differences=differences,
    )


def _is_uncertain(each: ComparedServer) -> bool:
    """Return whether weighers may explain a difference, or do so besides a request that
    was decided about the same time."""
    is_double = each.cause == Cause.OTHER_REQUEST and each.weighers
    return each.cause in UNEXPLAINED or bool(is_double)


def _ordered(counts: Counter[str], known: Iterable[str]) -> dict[str, int]:
    """Return counts in the order of the words that are known, then all others."""
    return {str(word): counts[word] for word in (*known, *counts) if counts[word]}


def _findings(
    cause: str, counts: Counter[str], of: int, least_share: float = 0.0
) -> Iterator[SystematicDifference]:
    """Yield what is the same in many differences, the most frequent first."""
    for name, number in counts.most_common():
        if number >= max(LEAST, least_share * of):
            yield SystematicDifference(cause, name, number, of)


def _latency(values: Iterable[float]) -> Latency:
    took = sorted(values)
    if not took:
        return Latency()
    last = len(took) - 1
    p50, p99 = (round(float(took[int(last * share)]), 1) for share in (0.5, 0.99))
    return Latency(len(took), p50, p99)


def _tapped(
    listened: Iterable[tuple[int, int]], since: int, until: int
) -> tuple[int, list[UntappedTime]]:
    """Return for how long requests were tapped within a time, and the gaps after the
    first of them, the oldest first."""
    tapped, gaps, end = 0, [], None
    for start, stop in listened:
        begun = min(max(start, since, end or 0), until)
        if end is not None and begun - end > LEAST_GAP_US:
            gaps.append(UntappedTime(end, begun))
        end = max(begun, min(stop, until))
        tapped += end - begun
    if end is not None and until - end > LATE_US:
        gaps.append(UntappedTime(end, until))
    return tapped, gaps
