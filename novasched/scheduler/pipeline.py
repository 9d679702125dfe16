# SPDX-License-Identifier: Apache-2.0
"""The decision: narrow, filter, weigh, rank, pick. No I/O, clock or options."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.releases import NEWEST, Release
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import Floats, HostState, HostTable, Rows
from novasched.scheduler.narrow import narrow
from novasched.scheduler.trace import Decision, Step, Weighed, Weighing
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers import Weigher, bounds

NEARLY_SORTED = 20
"""At most one host in so many is out of order."""

PASSED_THROUGH = (errors.NoValidHost, errors.MetricNotFound, errors.StoreFailed)
"""Errors in a filter or weigher that say all: it is not what failed."""

NO_ROWS: Rows = np.zeros(0, np.intp)
_NOTHING = contextlib.nullcontext()


Watch = Callable[[str, str, int], contextlib.AbstractContextManager[Any, None]]
"""Gives what is entered around a filter or weigher, to learn how long it runs: the core
has no clock. Called with the kind, Filter or Weigher, the name of the class, and the
number of hosts that it is given."""


def unwatched(
    kind: str, name: str, hosts: int
) -> contextlib.AbstractContextManager[Any, None]:
    return _NOTHING


@dataclass(frozen=True)
class Profile:
    """Everything that the operator chose about decisions.

    One of the best ``host_subset_size`` hosts is taken by chance;
    ``shuffle_best`` shuffles those that share the best weight first. ``fitting`` says
    how NUMA nodes are fitted.
    """

    filters: Sequence[BaseHostFilter]
    weighers: Sequence[Weigher]
    host_subset_size: int = 1
    shuffle_best: bool = False
    fitting: Fitting = field(default_factory=Fitting)
    release: Release = NEWEST  # whose rules the filters and the fitting follow

    @property
    def shown_weighers(self) -> list[Weigher]:
        """The weighers of nova, and all others that an option turns on."""
        return [w for w in self.weighers if not w.is_optional or w.multiplier]

    def of_release(self, release: Release) -> Profile:
        filters = tuple(each.of_release(release) for each in self.filters)
        fitting = self.fitting.of_release(release)
        return replace(self, filters=filters, fitting=fitting, release=release)

    def config_warnings(self, groups: Iterable[Aggregates]) -> list[PluginWarning]:
        """Return the warnings about options and aggregates, each once.

        ``groups`` are the aggregates of each host; they may repeat.
        """
        by_ids = {tuple(a.id for a in group): group for group in groups}
        distinct = list(by_ids.values())
        found: dict[PluginWarning, None] = {}
        plugins: list[BaseHostFilter | Weigher] = [*self.filters, *self.weighers]
        for each in plugins:
            found |= dict.fromkeys(each.config_warnings(distinct))
        return list(found)


def decide(
    profile: Profile,
    hosts: HostTable,
    request: RequestSpec,
    rng: random.Random,
    index: int = 0,
    watch: Watch = unwatched,
) -> Decision:
    """Rank the hosts that may take instance ``index`` of the request.

    Hosts that tie keep the order in which they were given. ``watch`` is entered
    for each filter and weigher. Raises errors.ExtensionFailed when one raises.
    """
    narrowed = narrow(hosts, request)
    filters = profile.filters if narrowed.filters_run else ()
    survivors, steps = run_filters(filters, narrowed.hosts, request, index, watch)
    weighed = weigh(profile.weighers, survivors, request, watch)
    order = pick(profile, weighed.totals, rng)
    return Decision(
        request=request,
        hosts=hosts,
        notes=narrowed.notes,
        steps=tuple(steps),
        weighed=weighed,
        ranked=weighed.hosts[order],
        totals=weighed.totals[order],
        order=order,
        filters_ran=narrowed.filters_run,
    )


def run_filters(
    filters: Sequence[BaseHostFilter],
    hosts: HostTable,
    request: RequestSpec,
    index: int = 0,
    watch: Watch = unwatched,
) -> tuple[HostTable, list[Step]]:
    """Apply the filters in their order until no host is left. Nova: filters.py.

    In a rebuild, filters without RUN_ON_REBUILD pass every host.
    """
    steps: list[Step] = []
    rebuild = request.is_rebuild
    for filter_ in filters:
        with watch('Filter', filter_.name, len(hosts)), named(filter_):
            if not filter_.run_filter_for_index(index):
                continue
            skipped = rebuild and not filter_.runs_on_rebuild()
            passed = hosts if skipped else filter_.apply(hosts, request)
        survivors = hosts[NO_ROWS] if passed is None else passed
        steps.append(Step(filter_, hosts, survivors, stopped=passed is None))
        hosts = survivors
        if not len(hosts):
            break
    return hosts, steps


@contextlib.contextmanager
def named(extension: BaseHostFilter | Weigher) -> Iterator[None]:
    """Raise errors.ExtensionFailed, which names it, when a filter or weigher fails."""
    try:
        yield
    except PASSED_THROUGH:
        raise
    except Exception as problem:  # a plugin may raise anything
        raise errors.ExtensionFailed(extension.name, problem) from problem


def weigh(
    weighers: Sequence[Weigher],
    hosts: HostTable,
    request: RequestSpec,
    watch: Watch = unwatched,
) -> Weighed:
    """Score the hosts; a single host is not weighed. Nova: weights.py.

    Aggregates may set a multiplier as large as they like, inf included. What a
    weigher sets on a host is seen by the next, and in the hosts of the answer.
    """
    totals = np.zeros(len(hosts))
    if len(hosts) < 2:
        return Weighed(hosts, (), totals)
    weighings, score = [], np.empty(len(hosts))
    for weigher in weighers:
        if not weigher.takes_part(hosts):
            continue
        with (
            watch('Weigher', weigher.name, len(hosts)),
            named(weigher),
            np.errstate(over='ignore', invalid='ignore'),
        ):
            shown = _ShownHosts(hosts)
            weighing = _weigh(weigher, shown, request)
            hosts = shown.kept()
            np.multiply(weighing.multipliers, weighing.normalized, out=score)
            totals += score
        weighings.append(weighing)
    return Weighed(hosts, tuple(weighings), totals)


class _ShownHosts(HostTable):
    """Hosts that are the same objects each time: what is set on one stays."""

    def __init__(self, hosts: HostTable) -> None:
        super().__init__(hosts.snapshot, hosts.rows)
        self._hosts = hosts
        self._states: list[HostState] = []

    def states(self) -> Iterator[HostState]:
        self._states = self._states or list(super().states())
        return iter(self._states)

    def kept(self) -> HostTable:
        """Return the hosts with what was set on them."""
        return self._hosts.keep(self._states) if self._states else self._hosts


def _weigh(weigher: Weigher, hosts: HostTable, request: RequestSpec) -> Weighing:
    """Weigh the hosts; those beyond the weights that a plugin gave get none."""
    raw = weigher.weights(hosts, request)
    low_high = bounds(raw, weigher.minval, weigher.maxval)
    missing = len(hosts) - len(raw)
    if missing < 0:
        raise IndexError(f'{len(raw)} weights for {len(hosts)} hosts')
    if missing:
        raw = np.pad(raw, (0, missing), constant_values=np.nan)
    multipliers = weigher.multipliers(hosts)
    return Weighing(weigher.name, raw, low_high, multipliers, missing)


def descending(totals: Floats) -> Rows:
    """Return positions, the highest total first; equal totals in the order given.

    An unstable sort, and a sort of the ties, is several times faster than a stable
    sort. If the order is almost right, as after one more instance, a stable sort is
    faster. NaN has the same effect on the order as in nova.
    """
    if np.isnan(totals).any():
        scores = totals.tolist()
        return np.array(
            sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        )
    keys = -totals
    falls = np.flatnonzero(keys[1:] < keys[:-1])
    if len(falls) == 1 and (moved := _moved(keys, falls.item())) is not None:
        return moved
    if len(falls) < len(keys) // NEARLY_SORTED:
        return np.argsort(keys, kind='stable')
    order = np.argsort(keys)
    values = keys[order]
    begins_run = np.ones(len(order) + 1, bool)
    np.not_equal(values[1:], values[:-1], out=begins_run[1:-1])
    tied = np.flatnonzero(~(begins_run[:-1] & begins_run[1:]))
    offsets = np.cumsum(begins_run[tied]) * len(order)
    order[tied] = np.sort(order[tied] + offsets) - offsets
    return order


def _moved(keys: Floats, at: int) -> Rows | None:
    """Return the order of keys that fall only after ``at``; None if several must move.

    Placing one more instance moves one host, mostly down.
    """
    order = np.arange(len(keys))
    if at == 0 or keys[at - 1] <= keys[at + 1]:
        to = at + int(np.searchsorted(keys[at + 1 :], keys[at]))
        order[at:to] += 1
        order[to] = at
        return order
    if at + 2 == len(keys) or keys[at] <= keys[at + 2]:
        to = int(np.searchsorted(keys[: at + 1], keys[at + 1], 'right'))
        order[to + 1 : at + 2] -= 1
        order[to] = at + 1
        return order
    return None


def pick(profile: Profile, totals: Floats, rng: random.Random) -> Rows:
    """Return positions: the chosen host first, the others best first."""
    order = descending(totals)
    if profile.shuffle_best and len(order):
        best = int((totals == totals[order[0]]).sum())
        head = order[:best].tolist()
        rng.shuffle(head)
        order[:best] = head
    size = min(profile.host_subset_size, len(order))
    if size > 1:
        chosen = rng.randrange(size)
        order = np.concatenate(([order[chosen]], np.delete(order, chosen)))
    return order
