# SPDX-License-Identifier: Apache-2.0
"""Counting the records of decisions, in one log or in several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from novasched.runtime.times import time_of

DAY, HOUR = 86_400_000_000, 3_600_000_000


@dataclass(frozen=True)
class Count:
    """The number of records that have a value, their share of all that are counted,
    and the reason that most of them have."""

    value: str
    count: int
    share: float
    most_often: str


_OF_PLACEMENT = "('no-candidates', 'placement-failed')"
_REASON = (
    "CASE WHEN d.code != '' THEN d.code WHEN d.blocker != '' THEN d.blocker "
    'ELSE d.result END'
)
_PLUGIN = (
    f"CASE WHEN d.plugin != '' THEN d.plugin WHEN d.blocker IN {_OF_PLACEMENT} "
    "THEN '(placement)' ELSE '(' || d.blocker || ')' END"
)


class _Grouping(NamedTuple):
    """A way to count records: by which value, and which of them."""

    value: str
    reason: str = _REASON
    tables: str = 'decisions d'
    condition: str = '1'

    def statement(self, condition: str) -> str:
        """Return the query for values, reasons and numbers of records d."""
        return (
            f'SELECT {self.value}, {self.reason}, count(*) FROM {self.tables} '
            f'WHERE {self.condition} AND {condition} GROUP BY 1, 2'
        )


_FAILED = "d.blocker != ''"
GROUPINGS = {
    'plugin': _Grouping(_PLUGIN, condition=_FAILED),
    'blocker': _Grouping('d.blocker', _PLUGIN, condition=_FAILED),
    'code': _Grouping('d.code', _PLUGIN, condition="d.code != ''"),
    'flavor': _Grouping('d.flavor'),
    'zone': _Grouping('d.zone'),
    'project': _Grouping('d.project_id'),
    'host': _Grouping(
        's.host',
        tables='decisions d JOIN (SELECT DISTINCT decision, host FROM servers '
        "WHERE host != '') s ON s.decision = d.rowid",
    ),
    'result': _Grouping('d.result'),
    'day': _Grouping(f'd.at / {DAY} * {DAY}'),
    'hour': _Grouping(f'd.at / {HOUR} * {HOUR}'),
}
"""Values by which records can be counted."""
_TIMES = {'day': '%Y-%m-%d', 'hour': '%Y-%m-%dT%H:00Z'}

Tally = Mapping[str, Mapping[str, int]]
"""Numbers of records by value and reason."""


def tally_of(by: str, rows: Iterable[tuple[Any, str, int]]) -> Tally:
    """Add up rows of values, reasons and numbers of records."""
    form = _TIMES.get(by)
    tally: dict[str, Counter[str]] = {}
    for value, reason, number in rows:
        name = time_of(value, form) if form else value
        tally.setdefault(name, Counter())[reason] += number
    return tally


def counts_of(by: str, tallies: Iterable[Tally]) -> list[Count]:
    """Add up tallies: the most frequent value first, or the first day or hour."""
    added: dict[str, Counter[str]] = {}
    for tally in tallies:
        for value, reasons in tally.items():
            added.setdefault(value, Counter()).update(reasons)
    total = sum(reasons.total() for reasons in added.values())
    return [
        Count(
            value,
            reasons.total(),
            reasons.total() / total,
            min(reasons.items(), key=lambda each: (-each[1], each[0]))[0],
        )
        for value, reasons in sorted(
            added.items(),
            key=lambda each: (0 if by in _TIMES else -each[1].total(), each[0]),
        )
    ]
