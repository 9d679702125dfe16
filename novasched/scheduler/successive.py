# SPDX-License-Identifier: Apache-2.0
"""The decision on the next instance of a request, made from the one before it.

One host has changed since. Only this host is filtered and weighed again; weighers that
compare hosts weigh all. The result equals what decide() gives, which is called wherever
that is not certain.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import Floats, HostTable, Rows
from novasched.scheduler.narrow import narrow
from novasched.scheduler.pipeline import (
    Profile,
    Watch,
    decide,
    named,
    pick,
    unwatched,
)
from novasched.scheduler.trace import Decision, Step, Weighed, Weighing
from novasched.scheduler.weighers import Weigher, bounds


def decide_next(
    profile: Profile,
    last: Decision,
    hosts: HostTable,
    row: int,
    request: RequestSpec,
    rng: random.Random,
    index: int,
    watch: Watch = unwatched,
) -> Decision:
    """Return the result of decide() for the next instance after ``last``.

    ``hosts`` are the hosts that it ranked; the host in ``row`` of the snapshot took an
    instance since. Filters and weighers are asked about this host alone, and only if
    they depend on what it changed. Raises errors.ExtensionFailed as decide().
    """
    changes = _Changes(hosts, row, hosts.snapshot.changed_since(last.ranked.snapshot))
    steps = _passing_still(profile.filters, changes, request, index, watch)
    weighed = None
    if steps is not None:
        weighed = _weighed_again(profile.weighers, last, changes, request, watch)
    if steps is None or weighed is None:
        return decide(profile, hosts, request, rng, index, watch)
    order = pick(profile, weighed.totals, rng)
    return Decision(
        request=request,
        hosts=hosts,
        notes=(),
        steps=tuple(steps),
        weighed=weighed,
        ranked=hosts[order],
        totals=weighed.totals[order],
        order=order,
    )


class _Changes(NamedTuple):
    """Hosts of which one, in a row of the snapshot, has changed in some columns."""

    hosts: HostTable
    row: int
    columns: set[str]

    @property
    def host(self) -> HostTable:
        """The one that has changed."""
        return HostTable(self.hosts.snapshot, np.array([self.row]))


def _passing_still(
    filters: Sequence[BaseHostFilter],
    changes: _Changes,
    request: RequestSpec,
    index: int,
    watch: Watch,
) -> list[Step] | None:
    """Return the steps of filters that pass all hosts again; None if uncertain."""
    hosts = changes.hosts
    narrowed = narrow(hosts, request)
    names_hosts = narrowed.notes or not narrowed.filters_run
    if names_hosts or narrowed.hosts is not hosts or request.is_rebuild:
        return None
    steps = []
    for filter_ in filters:
        with named(filter_):
            if not filter_.run_filter_for_index(index):
                continue
            columns = filter_.depends_on(request)
            if columns is None:
                return None
            if not changes.columns.isdisjoint(columns):
                with watch('Filter', filter_.name, 1):
                    if not filter_.apply(changes.host, request):
                        return None
        steps.append(Step(filter_, hosts, hosts))
    return steps


def _weighed_again(
    weighers: Sequence[Weigher],
    last: Decision,
    changes: _Changes,
    request: RequestSpec,
    watch: Watch,
) -> Weighed | None:
    """Return the result of weigh() for the hosts that were ranked; None if uncertain.

    If there is NaN, the order of the hosts matters to the bounds.
    """
    hosts, before = changes.hosts, last.weighed
    if len(hosts) < 2 or last.order is None or hosts.rows is not last.ranked.rows:
        return None
    places = last.order if before.places is None else before.places[last.order]
    changed = places[np.flatnonzero(hosts.rows == changes.row)]
    scored, used = [], [each for each in weighers if each.takes_part(hosts)]
    if len(used) != len(before.scored):
        return None  # a plugin changed the aggregates
    is_one = True
    for weigher, weighing in zip(used, before.scored, strict=True):
        columns = weigher.depends_on(request)
        if columns is None:
            return None
        if not changes.columns.isdisjoint(columns):
            compares = weigher.compares
            asked = hosts[np.argsort(places)] if compares else changes.host
            with watch('Weigher', weigher.name, len(asked)), named(weigher):
                weights = weigher.weights(asked, request)
            if compares:
                is_one = False
                low_high = bounds(weights, weigher.minval, weigher.maxval)
                weighing = replace(weighing, raw=weights, bounds=low_high)
            else:
                weighing = _with_weight(weighing, changed, weights.item(0), weigher)
        scored.append(weighing)
    sums = _sums(before, scored, changed if is_one else None)
    if np.isnan(sums).any():
        return None
    return Weighed(hosts, tuple(scored), sums, places)


def _with_weight(
    weighing: Weighing, changed: Rows, weight: float, weigher: Weigher
) -> Weighing:
    """Return the weighing with another raw weight at the places of one host."""
    raw, (low, high) = weighing.raw.copy(), weighing.bounds
    place = changed.item(0)
    within = low < raw.item(place) < high and low <= weight <= high
    raw[changed] = weight
    if not within:
        low, high = bounds(raw, weigher.minval, weigher.maxval)
    made = Weighing(weighing.name, raw, (low, high), weighing.multipliers)
    if made.bounds == weighing.bounds and 'scores' in vars(weighing):
        made.take_scores(weighing.scores, place)
    return made


def _sums(before: Weighed, scored: Sequence[Weighing], changed: Rows | None) -> Floats:
    """Return the totals: one other than before, unless weights are scaled otherwise.

    ``changed`` are the places of the host whose weights changed, or None if all did.
    """
    pairs = list(zip(before.scored, scored, strict=True))
    if changed is not None and all(old.bounds == new.bounds for old, new in pairs):
        place, total = changed.item(0), 0.0
        for old, new in pairs:
            total += old.scores.item(place) if new is old else new.score(place)
        sums = before.sums.copy()
        sums[changed] = total
        return sums
    sums = np.zeros(len(before.sums))
    with np.errstate(over='ignore', invalid='ignore'):
        for weighing in scored:
            sums += weighing.scores
    return sums
