# SPDX-License-Identifier: Apache-2.0
"""What a decision did, so that it can be shown: steps, reasons, scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable
from novasched.scheduler.reasons import Reason


@dataclass(frozen=True)
class Step:
    """What one filter did to one table."""

    filter: BaseHostFilter
    before: HostTable
    after: HostTable

    @property
    def name(self) -> str:
        return type(self.filter).__name__

    def reasons(self, request: RequestSpec) -> Iterator[tuple[HostState, Reason]]:
        """Yield each rejected host and why; asks the filter only now."""
        rejected = self.before[~np.isin(self.before.rows, self.after.rows)]
        for host in rejected.states():
            yield host, self.filter.why(host, request)

    def __str__(self) -> str:
        return f'{self.name}: (start: {len(self.before)}, end: {len(self.after)})'


@dataclass(frozen=True)
class Weighing:
    """What one weigher gave: one value per host of the table that was weighed."""

    name: str
    raw: Floats
    normalized: Floats
    multipliers: Floats


@dataclass(frozen=True)
class Weighed:
    """The hosts in their order before ranking, and their scores."""

    hosts: HostTable
    weighings: tuple[Weighing, ...]
    totals: Floats


@dataclass(frozen=True)
class Decision:
    """The hosts in the order in which to try them, and how it came about.

    ``totals`` belong to ``ranked``. ``notes`` are nova's log lines about the
    hosts that the request names; without ``filters_ran``, those hosts were the
    result. ``cut``: the hosts were an arbitrary part of those that placement has;
    ``further``: they were asked for because those of such a part would not do.
    ``seed`` is that of the random numbers of the whole request: who knows it can have
    its decisions again.
    """

    request: RequestSpec
    hosts: HostTable
    notes: tuple[str, ...]
    steps: tuple[Step, ...]
    weighed: Weighed
    ranked: HostTable
    totals: Floats
    filters_ran: bool = True
    cut: bool = False
    further: bool = False
    seed: int = 0

    def funnel(self) -> list[str]:
        """Return nova's filter results: ``Name: (start: n, end: m)``."""
        return [str(step) for step in self.steps]
