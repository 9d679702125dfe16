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
SYSTEMATIC = 0.9
LEAST = 5
"""A weigher is a finding if nova's host is the best without it in so large a share of
so many differences; a filter, if it rejects nova's host for so many servers."""


@dataclass(frozen=True)
class Difference(ComparedServer):
    """A server for which nova chose another host, or one of the two found none."""

    at: int = time_field()  # type: ignore[misc]  # it has no default

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
    """Those without which nova's host is the best, where nothing else explains it."""
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
    named: dict[str, Counter[str]] = {
        Cause.FILTER: Counter(),
        Cause.WEIGHERS: Counter(),
    }
    refusing: Counter[str] = Counter()
    refused = elsewhere = unexplained = requests = 0
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
            is_unexplained = _is_unexplained(each)
            unexplained += is_unexplained
            if each.cause == Cause.FILTER:
                named[Cause.FILTER][each.detail] += 1
            elif is_unexplained and each.verdict == Verdict.BETTER:
                named[Cause.WEIGHERS].update(filter(None, each.weighers.split(',')))
            if len(differences) < MOST_DIFFERENCES:
                differences.append(Difference(**vars(each)))
    made = verdicts.total() - verdicts[Verdict.UNKNOWN]
    tapped_us, gaps = _tapped(listened, since, until)
    return ShadowReport(
        since=since,
        until=until,
        requests=requests,
        servers=verdicts.total(),
        findings=list(_findings(named, causes, made, unexplained)),
        verdicts={each: verdicts[each] for each in _ordered(Verdict, verdicts)},
        causes={each: causes[each] for each in _ordered(Cause, causes)},
        filters=dict(named[Cause.FILTER].most_common()),
        weighers=dict(named[Cause.WEIGHERS].most_common()),
        refusals=RefusedChoices(refused, elsewhere, dict(refusing.most_common())),
        our_ms=_latency(our_ms),
        nova_ms=_latency(nova_ms),
        seen_ms=_latency(seen_ms),
        tapped_s=tapped_us / 1e6,
        gaps=gaps[::-1][:MOST_GAPS],
        gaps_total=len(gaps),
        differences=differences,
    )


def _is_unexplained(each: ComparedServer) -> bool:
    """Return whether the weights alone differ, and nothing else says why."""
    are_weighed = each.verdict in (Verdict.BETTER, Verdict.WORSE)
    return are_weighed and each.cause in (Cause.UNKNOWN, Cause.WEIGHERS)


def _ordered(known: Iterable[str], found: Iterable[str]) -> list[str]:
    """Return words in the order in which they are known; a later release may know
    more."""
    there = list(found)
    order = [str(each) for each in known if each in there]
    return [*order, *(each for each in there if each not in order)]


def _findings(
    named: Mapping[str, Counter[str]],
    causes: Counter[str],
    known: int,
    unexplained: int,
) -> Iterator[SystematicDifference]:
    """Yield what is the same in many differences, weighers first."""
    for name, number in named[Cause.WEIGHERS].most_common():
        if unexplained >= LEAST and number >= SYSTEMATIC * unexplained:
            yield SystematicDifference(Cause.WEIGHERS, name, number, unexplained)
    for name, number in named[Cause.FILTER].most_common():
        if number >= LEAST:
            yield SystematicDifference(Cause.FILTER, name, number, known)
    if (number := causes[Cause.NOT_OFFERED]) >= LEAST:
        yield SystematicDifference(Cause.NOT_OFFERED, '', number, known)


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
        begun = max(start, since, end or 0)
        if end is not None and begun - end > LEAST_GAP_US:
            gaps.append(UntappedTime(end, begun))
        end = max(begun, min(stop, until))
        tapped += end - begun
    if end is not None and until - end > LATE_US:
        gaps.append(UntappedTime(end, until))
    return tapped, gaps
