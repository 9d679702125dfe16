# SPDX-License-Identifier: Apache-2.0
"""Base classes of filters with an overcommit ratio per host."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, warnings
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable, Ints, Mask
from novasched.scheduler.reasons import Reason
from novasched.scheduler.warnings import PluginWarning


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


class RoomFilter(OvercommitFilter):
    """What the filters of RAM and disk share: hosts with room for the request.

    ``total`` and ``free`` are columns, ``unit_mb`` is how many MiB one of the total
    is, and ``limit`` is set in units. ``room`` and ``whole`` are the words for what
    is free and for the total.
    """

    total: ClassVar[str]
    free: ClassVar[str]
    unit_mb: ClassVar[int]
    limit: ClassVar[str]
    room: ClassVar[str]
    whole: ClassVar[str]

    @abc.abstractmethod
    def asked_mb(self, request: RequestSpec) -> int:
        """Return what the request needs, in MiB."""

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        asked = self.asked_mb(request)
        total: Ints = getattr(hosts, self.total) * self.unit_mb
        free: Ints = getattr(hosts, self.free)
        with np.errstate(over='ignore', invalid='ignore'):
            limits = total * self.ratios(hosts)
            passes = (total >= asked) & (limits - (total - free) >= asked)
        return passes, limited(hosts, self.limit, limits / self.unit_mb, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, total = self.asked_mb(request), getattr(host, self.total) * self.unit_mb
        if total < asked:
            text = (
                f'does not have {asked} MB usable {self.whole} before overcommit, it '
                f'only has {total} MB'
            )
            return Reason(self.codes[0], text)
        limit = total * self.ratios(host.as_table()).item(0)
        usable = limit - (total - getattr(host, self.free))
        text = (
            f'does not have {asked} MB usable {self.room}, it only has {usable} MB '
            f'usable {self.room} ({self.ratio_text(host)})'
        )
        return Reason(self.codes[0], text)


class AggregateRatios(OvercommitFilter):
    """Lets the aggregates of a host set its ratio; the smallest holds.

    If one of them is not a number, the host's own ratio holds.
    """

    def ratios(self, hosts: HostTable) -> Floats:
        found = hosts.aggregates.map(
            lambda of_host: self._lowest(aggregates.values(of_host, self.ratio)), float
        )
        return np.where(np.isnan(found), _own_ratios(hosts, self.ratio), found)

    def _lowest(self, values: set[str]) -> float:
        return aggregates.lowest(values, _ratio, math.nan)

    def ratio_text(self, host: HostState) -> str:
        text = super().ratio_text(host)
        values = aggregates.values(host.aggregates, self.ratio)
        if values and math.isnan(self._lowest(values)):
            text += f', as {", ".join(sorted(values))} of its aggregates is no number'
        return text

    def config_warnings(
        self, groups: Sequence[aggregates.Aggregates]
    ) -> Iterable[PluginWarning]:
        """Yield which aggregates set several ratios, or one that is no number."""
        return warnings.number_warnings(groups, self.ratio, float)


def _own_ratios(hosts: HostTable, name: str) -> Floats:
    column: Floats = getattr(hosts, name)
    return column


def _ratio(text: str) -> float:
    """Return a number. Raises ValueError for what is none, NaN included."""
    ratio = float(text)
    if math.isnan(ratio):
        raise ValueError(text)
    return ratio
