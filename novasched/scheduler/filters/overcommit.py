# SPDX-License-Identifier: Apache-2.0
"""Filters that fill hosts beyond what they have, up to a ratio, and say how far."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from novasched.scheduler import aggregates
from novasched.scheduler.filters.writing import WritingFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable


class OvercommitFilter(WritingFilter):
    """What the filters of RAM, CPUs and disk share: the ratio of each host.

    ``ratio`` is the name of its column, and of its key in aggregates. A host
    whose ratio is unknown is rejected.
    """

    writes = ('limits',)
    ratio: ClassVar[str]

    def ratios(self, hosts: HostTable) -> Floats:
        """Return the ratio of each host; NaN: unknown."""
        return _own_ratios(hosts, self.ratio)

    def ratio_text(self, host: HostState) -> str:
        """Say the ratio of one host, and what was wrong with it."""
        return f'{self.ratio} {self.ratios(host.as_table()).item(0)}'


class AggregateRatios(OvercommitFilter):
    """Lets the aggregates of a host set its ratio; the smallest holds.

    If one of them is not a number, the host's own ratio holds.
    """

    def ratios(self, hosts: HostTable) -> Floats:
        found = hosts.aggregates.map(
            lambda of_host: lowest_ratio(aggregates.values(of_host, self.ratio)), float
        )
        return np.where(np.isnan(found), _own_ratios(hosts, self.ratio), found)

    def ratio_text(self, host: HostState) -> str:
        text = super().ratio_text(host)
        values = aggregates.values(host.aggregates, self.ratio)
        if values and math.isnan(lowest_ratio(values)):
            text += f', as {", ".join(sorted(values))} of its aggregates is no number'
        return text


def _own_ratios(hosts: HostTable, name: str) -> Floats:
    column: Floats = getattr(hosts, name)
    return column


def lowest_ratio(values: set[str]) -> float:
    """Return the smallest value; NaN if there is none or one is not a number."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return math.nan
    if any(math.isnan(number) for number in numbers):
        return math.nan
    return min(numbers, default=math.nan)
