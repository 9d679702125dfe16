# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow: what it decided beside what nova chose."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from novasched.decisions.comparison import Cause, ComparedServer, Verdict
from novasched.runtime.typed_json import time_field

MOST_DIFFERENCES = 100
"""Differences that a report shows, the newest."""
SYSTEMATIC = 0.9
LEAST = 5
"""A weigher that favours ours in so large a share of so many differences is another in
nova's configuration."""
SAME = (Verdict.EQUAL, Verdict.ALIKE)


@dataclass(frozen=True)
class Difference:
    """A server for which nova chose another host, or one of the two found none."""

    decision: str
    at: int = time_field()
    server: str = ''
    flavor: str = ''
    ours: str | None = None
    nova: str | None = None
    verdict: str = ''
    cause: str = ''
    detail: str = ''


@dataclass(frozen=True)
class ShadowReport:
    """The answer of ``novasched shadow report``. Latencies are medians, in ms; nova's
    is until its choice was seen."""

    servers: int
    verdicts: dict[str, int]
    causes: dict[str, int]
    weighers: dict[str, int]  # that favour ours where nothing else explains it
    our_ms: float | None
    nova_ms: float | None
    findings: Sequence[str] = ()
    differences: Sequence[Difference] = field(default_factory=list)

    @property
    def same(self) -> int:
        """Servers with the same host, or one that weighs alike."""
        return sum(self.verdicts.get(each, 0) for each in SAME)

    @property
    def known(self) -> int:
        """Servers of which it is known what nova chose."""
        return self.servers - self.verdicts.get(Verdict.UNKNOWN, 0)


def report(compared: Iterable[ComparedServer]) -> ShadowReport:
    """Return the report of what was compared, the newest first."""
    seen = list(compared)
    verdicts = Counter(each.verdict for each in seen)
    causes = Counter(each.cause for each in seen if each.cause)
    unexplained = [each for each in seen if each.cause == Cause.UNKNOWN]
    weighers = Counter(
        name for each in unexplained for name in each.detail.split(', ') if name
    )
    known = [each for each in seen if each.verdict != Verdict.UNKNOWN]
    return ShadowReport(
        servers=len(seen),
        verdicts=dict(verdicts),
        causes=dict(causes),
        weighers=dict(weighers),
        our_ms=_median(each.took_us / 1000 for each in seen),
        nova_ms=_median(each.seen_ms for each in known),
        findings=list(_findings(unexplained, weighers)),
        differences=[
            Difference(
                each.id,
                each.at,
                each.server,
                each.flavor,
                each.ours,
                each.nova,
                each.verdict,
                each.cause,
                each.detail,
            )
            for each in known
            if each.verdict not in SAME
        ][:MOST_DIFFERENCES],
    )


def _median(values: Iterable[float]) -> float | None:
    given = list(values)
    return round(statistics.median(given), 1) if given else None


def _findings(
    unexplained: Sequence[ComparedServer], weighers: Counter[str]
) -> Iterable[str]:
    """Yield what is the same in many differences."""
    total = len(unexplained)
    for name, number in weighers.most_common():
        if total >= LEAST and number >= SYSTEMATIC * total:
            yield (
                f'{name} favours our host in {number} of {total} differences that '
                'nothing else explains: compare its multiplier in the nova.conf of '
                'nova-scheduler'
            )
