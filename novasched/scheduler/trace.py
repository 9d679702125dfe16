# SPDX-License-Identifier: Apache-2.0
"""Trace of a decision: its steps, reasons and scores."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable, Rows
from novasched.scheduler.reasons import Reason
from novasched.scheduler.warnings import PluginWarning, names
from novasched.scheduler.weighers import scaled


@dataclass(frozen=True)
class Step:
    """What one filter did to one table; ``stopped``: it said to stop filtering."""

    filter: BaseHostFilter
    before: HostTable
    after: HostTable
    stopped: bool = False

    @property
    def name(self) -> str:
        return self.filter.name

    def reasons(self, request: RequestSpec) -> Iterator[tuple[HostState, Reason]]:
        """Yield each rejected host and why; asks the filter only now."""
        for host in self.rejected.states():
            yield host, self.filter.why(host, request)

    @property
    def passed_all(self) -> bool:
        """Every host passed; not so: that is not known without comparing."""
        return self.after.rows is self.before.rows

    @property
    def rejected(self) -> HostTable:
        """The hosts that the filter took out."""
        return self.before.without(self.after)

    def warnings(self, request: RequestSpec) -> list[PluginWarning]:
        """Return the warnings of the filter, or that it fails to give them."""
        try:
            return list(self.filter.request_warnings(self.before, self.after, request))
        except Exception as problem:  # noqa: BLE001 a plugin may raise anything
            kind = type(problem).__name__
            text = f'Filter {self.name} fails to remark: {kind}: {problem}'
            return [PluginWarning(text)]

    def __str__(self) -> str:
        return f'{self.name}: (start: {len(self.before)}, end: {len(self.after)})'


@dataclass(frozen=True)
class Weighing:
    """What one weigher gave: one value per host of the table that was weighed.

    ``bounds`` are the raw weights that become 0 and 1. The last ``missing`` of the
    hosts got no weight: theirs is NaN.
    """

    name: str
    raw: Floats
    bounds: tuple[float, float]
    multipliers: Floats
    missing: int = 0

    @functools.cached_property
    def normalized(self) -> Floats:
        """The raw weights, scaled; 0 where there is none."""
        given = self.raw[: len(self.raw) - self.missing]
        with np.errstate(over='ignore', invalid='ignore'):
            normalized = scaled(given, *self.bounds)
        return np.pad(normalized, (0, self.missing)) if self.missing else normalized

    @functools.cached_property
    def scores(self) -> Floats:
        """What the totals are the sums of."""
        with np.errstate(over='ignore', invalid='ignore'):
            return self.multipliers * self.normalized

    def take_scores(self, scores: Floats, place: int) -> None:
        """Take scores of another weighing that differ at one place."""
        taken = scores.copy()
        taken[place] = self.score(place)
        vars(self)['scores'] = taken

    def score(self, place: int) -> float:
        """Return the score of one host, without scoring the others."""
        low, high = self.bounds
        scaled = 0.0 if low == high else (self.raw.item(place) - low) / (high - low)
        return self.multipliers.item(place) * scaled

    def at(self, places: Rows) -> Weighing:
        """Return the weights of the hosts at these places."""
        raw, multipliers = self.raw[places], self.multipliers[places]
        return Weighing(self.name, raw, self.bounds, multipliers)

    def warnings(self, hosts: HostTable) -> Iterator[PluginWarning]:
        """Yield what is odd in the weights; what nova makes of them holds.

        A weight of 0 times a multiplier of inf is no number, and no fault of the
        weigher: aggregates may set that multiplier.
        """
        unclear = np.isnan(self.normalized)
        for wrong, text in (
            (np.arange(len(hosts)) >= len(hosts) - self.missing, 'gave no weight'),
            (unclear, 'gave what is no number'),
            (np.isnan(self.scores) & ~unclear, 'times its multiplier is no number'),
        ):
            if wrong.any():
                yield PluginWarning(f'{self.name} {text}', hosts=names(hosts[wrong]))


@dataclass(frozen=True)
class Weighed:
    """The hosts in their order before ranking, and their scores.

    ``scored`` and ``sums`` have one order for all instances of a request.
    """

    hosts: HostTable
    scored: tuple[Weighing, ...]
    sums: Floats
    places: Rows | None = None
    """The places of ``hosts`` in that order; None if it is their own."""

    @functools.cached_property
    def totals(self) -> Floats:
        """The sum of the scores of each host."""
        return self.sums if self.places is None else self.sums[self.places]

    @functools.cached_property
    def weighings(self) -> tuple[Weighing, ...]:
        """What each weigher gave the hosts."""
        if self.places is None:
            return self.scored
        return tuple(weighing.at(self.places) for weighing in self.scored)


@dataclass(frozen=True)
class Decision:
    """The hosts in the order in which to try them, and how it came about."""

    request: RequestSpec
    hosts: HostTable
    notes: tuple[str, ...]  # Nova's log lines about the hosts that the request names
    steps: tuple[Step, ...]
    weighed: Weighed
    ranked: HostTable
    totals: Floats  # of the hosts in ranked
    order: Rows | None = None  # places of ranked among the hosts that were weighed
    filters_ran: bool = True  # if not, the hosts that the request names are the result
    cut: bool = False  # the hosts are an arbitrary part of the hosts that placement has
    further: bool = False  # asked for, as no host of such a part passed
    from_copy: bool = False  # the hosts were computed from a copy of placement
    fallback: str = ''  # why placement was asked although a copy should exist
    cells_left_out: tuple[str, ...] = ()  # names of unavailable cells
    seed: int = 0  # repeats the random numbers of the whole request
    attempt: int = 1
    """Decisions of a lower attempt are void, as placement did not grant them."""
    took_s: Mapping[str, float] = field(default_factory=dict)
    """Time of each filter and weigher, if measured."""

    def funnel(self) -> list[str]:
        """Return nova's filter results: ``Name: (start: n, end: m)``.

        A filter that says to stop filtering is not among them.
        """
        return [str(step) for step in self.steps if not step.stopped]

    @property
    def stopped_by(self) -> str | None:
        """The filter that said to stop filtering: there is no host then."""
        stopped = self.steps and self.steps[-1].stopped
        return self.steps[-1].name if stopped else None

    @property
    def plugin_warnings(self) -> list[PluginWarning]:
        """What operators should hear of the filters and weighers, each one named.

        Worked out when it is read.
        """
        found = [line for step in self.steps for line in step.warnings(self.request)]
        unclear = np.isnan(self.totals).any()
        if unclear or any(weighing.missing for weighing in self.weighed.scored):
            for weighing in self.weighed.weighings:
                if unclear or weighing.missing:
                    found += weighing.warnings(self.weighed.hosts)
        return found
