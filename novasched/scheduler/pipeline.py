# SPDX-License-Identifier: Apache-2.0
"""The decision: narrow, filter, weigh, rank, pick. No I/O, clock or options."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import Floats, HostTable, Rows
from novasched.scheduler.narrow import narrow
from novasched.scheduler.trace import Decision, Step, Weighed, Weighing
from novasched.scheduler.weighers import Weigher, clamp, normalize


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


def decide(
    profile: Profile,
    hosts: HostTable,
    request: RequestSpec,
    rng: random.Random,
    index: int = 0,
) -> Decision:
    """Rank the hosts that may take instance ``index`` of the request.

    Hosts that tie keep the order in which they were given. Raises
    errors.ExtensionFailed when a filter or weigher raises.
    """
    narrowed = narrow(hosts, request)
    filters = profile.filters if narrowed.filters_run else ()
    survivors, steps = run_filters(filters, narrowed.hosts, request, index)
    weighed = weigh(profile.weighers, survivors, request)
    order = pick(profile, weighed.totals, rng)
    return Decision(
        request=request,
        hosts=hosts,
        notes=narrowed.notes,
        steps=tuple(steps),
        weighed=weighed,
        ranked=survivors[order],
        totals=weighed.totals[order],
        filters_ran=narrowed.filters_run,
    )


def run_filters(
    filters: Sequence[BaseHostFilter],
    hosts: HostTable,
    request: RequestSpec,
    index: int = 0,
) -> tuple[HostTable, list[Step]]:
    """Apply the filters in their order until no host is left. Nova: filters.py.

    In a rebuild, filters without RUN_ON_REBUILD pass every host.
    """
    steps: list[Step] = []
    rebuild = request.is_rebuild
    for filter_ in filters:
        with _named(filter_):
            if not filter_.run_filter_for_index(index):
                continue
            skipped = rebuild and not filter_.RUN_ON_REBUILD
            survivors = hosts if skipped else filter_.apply(hosts, request)
        steps.append(Step(filter_, hosts, survivors))
        hosts = survivors
        if not len(hosts):
            break
    return hosts, steps


@contextlib.contextmanager
def _named(extension: object) -> Iterator[None]:
    try:
        yield
    except errors.NovaschedError:
        raise
    except Exception as problem:  # a plugin may raise anything
        raise errors.ExtensionFailed(type(extension).__name__, problem) from problem


def weigh(
    weighers: Sequence[Weigher], hosts: HostTable, request: RequestSpec
) -> Weighed:
    """Score the hosts; a single host is not weighed. Nova: weights.py.

    Aggregates may set a multiplier as large as they like, inf included.
    """
    totals = np.zeros(len(hosts))
    if len(hosts) < 2:
        return Weighed(hosts, (), totals)
    weighings = []
    for weigher in weighers:
        with _named(weigher), np.errstate(over='ignore', invalid='ignore'):
            weighing = _weigh(weigher, hosts, request)
            totals = totals + weighing.multipliers * weighing.normalized
        weighings.append(weighing)
    return Weighed(hosts, tuple(weighings), totals)


def _weigh(weigher: Weigher, hosts: HostTable, request: RequestSpec) -> Weighing:
    low, high = weigher.minval, weigher.maxval
    raw = clamp(weigher.weigh(hosts, request), low, high)
    normalized = normalize(raw, low, high)
    return Weighing(type(weigher).__name__, raw, normalized, weigher.multipliers(hosts))


def descending(totals: Floats) -> Rows:
    """Return positions, the highest total first; equal ones in the order given.

    An unstable sort and one of the ties is several times faster than a stable one.
    """
    order = np.argsort(-totals)
    values = totals[order]
    tied_run = np.zeros(len(order), np.intp)
    np.cumsum(values[1:] != values[:-1], out=tied_run[1:])
    offsets = tied_run * len(order)
    return np.sort(order + offsets) - offsets


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
