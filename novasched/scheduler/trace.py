# SPDX-License-Identifier: Apache-2.0
"""What a decision did, so that it can be shown: steps, reasons, scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import hooks
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable
from novasched.scheduler.notices import Notice
from novasched.scheduler.reasons import Reason


@dataclass(frozen=True)
class Complaint:
    """What a plugin did that it should not, and on which hosts.

    Equal ones say the same of other hosts: one of them is enough for a log.
    """

    what: str
    hosts: str = field(compare=False)

    def __str__(self) -> str:
        return f'{self.what}: {self.hosts}'


@dataclass(frozen=True)
class Step:
    """What one filter did to one table; ``stopped``: it said to stop filtering."""

    filter: BaseHostFilter
    before: HostTable
    after: HostTable
    stopped: bool = False

    @property
    def name(self) -> str:
        return type(self.filter).__name__

    def reasons(self, request: RequestSpec) -> Iterator[tuple[HostState, Reason]]:
        """Yield each rejected host and why; asks the filter only now."""
        for host in self.rejected.states():
            yield host, self.filter.why(host, request)

    @property
    def rejected(self) -> HostTable:
        """The hosts that the filter took out."""
        return self.before[~np.isin(self.before.rows, self.after.rows)]

    def remarks(self, request: RequestSpec) -> Iterable[Notice]:
        """Return what an operator should hear of, though nobody asks for reasons.

        A filter that has something to say has a method remarks(before, rejected,
        request): two tables of hosts, and an iterable of Notice.
        """
        say = hooks.meant(type(self.filter), 'remarks')
        if say is None:
            return ()
        found: Iterable[Notice] = say(self.filter, self.before, self.rejected, request)
        return found

    def complaints(self) -> Iterator[Complaint]:
        """Yield what is odd in the hosts that the filter gave; nova takes them."""
        if type(self.filter).filter_all is BaseHostFilter.filter_all:
            return
        rows, places = np.unique(self.after.rows, return_index=True)
        if len(rows) < len(self.after):
            repeated = self.after[np.delete(np.arange(len(self.after)), places)]
            yield Complaint(f'{self.name} gave more than once', _names(repeated))
        strange = self.after[~np.isin(self.after.rows, self.before.rows)]
        if len(strange):
            what = f'{self.name} gave what was rejected before'
            yield Complaint(what, _names(strange))

    def __str__(self) -> str:
        return f'{self.name}: (start: {len(self.before)}, end: {len(self.after)})'


@dataclass(frozen=True)
class Weighing:
    """What one weigher gave: one value per host of the table that was weighed.

    The last ``missing`` of the hosts got no weight: theirs is NaN.
    """

    name: str
    raw: Floats
    normalized: Floats
    multipliers: Floats
    missing: int = 0

    def complaints(self, hosts: HostTable) -> Iterator[Complaint]:
        """Yield what is odd in the weights; what nova makes of them holds.

        A weight of 0 times a multiplier of inf is no number, and no fault of the
        weigher: aggregates may set that multiplier.
        """
        with np.errstate(invalid='ignore'):
            scores = self.multipliers * self.normalized
        if self.missing:
            rest = np.arange(len(hosts) - self.missing, len(hosts))
            yield Complaint(f'{self.name} gave no weight', _names(hosts[rest]))
        unclear = np.isnan(self.normalized)
        multiplied = np.isnan(scores) & ~unclear
        for wrong, what in (
            (unclear, 'gave what is no number'),
            (multiplied, 'times its multiplier is no number'),
        ):
            if wrong.any():
                yield Complaint(f'{self.name} {what}', _names(hosts[wrong]))


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
    ``cells_left_out`` are the names of the cells that should have given hosts and did
    not answer.
    ``seed`` is that of the random numbers of the whole request: who knows it can have
    its decisions again. Those of a lower ``attempt`` are void: placement did not grant
    them. ``took_s`` says of each filter and weigher how long it ran, if
    somebody watched.
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
    cells_left_out: tuple[str, ...] = ()
    seed: int = 0
    attempt: int = 1
    took_s: Mapping[str, float] = field(default_factory=dict)

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
    def complaints(self) -> tuple[Complaint, ...]:
        """What plugins did that they should not, and that nova does not mind.

        Each names the plugin; worked out when it is read.
        """
        lines = [line for step in self.steps for line in step.complaints()]
        unclear = np.isnan(self.totals).any()
        for weighing in self.weighed.weighings:
            if unclear or weighing.missing:
                lines += weighing.complaints(self.weighed.hosts)
        return tuple(lines)


MOST_NAMES = 5


def _names(hosts: HostTable) -> str:
    """Return the names of hosts, not all if they are many."""
    more = len(hosts) - MOST_NAMES
    names = ', '.join(hosts.host.tolist()[:MOST_NAMES])
    return f'{names} and {more} more' if more > 0 else names
