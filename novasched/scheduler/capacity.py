# SPDX-License-Identifier: Apache-2.0
"""Capacity: how many more servers of one kind hosts can take.

The filters are asked about all hosts at once, each with as many servers taken already
as it may hold. What comes of it is the same as from filling the hosts one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.runtime.deadline import Check, never
from novasched.scheduler.columns import Categories, Ints, Mask
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.fit.claim import book_on
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import NOWHERE
from novasched.scheduler.fit.requirements import FitRequirements, HostCapacity
from novasched.scheduler.fit.topology import CellLimits
from novasched.scheduler.hosts import HostTable, consume_each
from novasched.scheduler.narrow import narrow
from novasched.scheduler.outline import why
from novasched.scheduler.pipeline import Profile, run_filters
from novasched.scheduler.reasons import Code, Reason

MOST_KEPT = 200_000
"""Hosts times kinds of servers whose answers are kept."""

NOTHING = Reason(Code.REJECTED, 'no filter rejects it')
IO_OPS = 'num_io_ops'
"""Builds end: they are not in the way of later ones."""


@dataclass(frozen=True)
class _Filled:
    """A host with ``count`` copies of a guest, and what that leaves; ``is_full``: there
    is no place for another one."""

    count: int
    left: HostCapacity
    is_full: bool


class CellCounter:
    """Counts the copies of a guest that fit the NUMA nodes and devices of hosts.

    At most so many answers are kept, so that later only hosts that have changed cost
    anything.
    """

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._kept: dict[Hashable, _Filled] = {}

    def counts(
        self, hosts: HostTable, guests: _Guests, most: Ints, check: Check = never
    ) -> Ints:
        """Return how many copies fit each host; no more than ``most`` are tried."""
        found = [
            min(self._fill(key, guests, most_of_host, check).count, most_of_host)
            for key, most_of_host in zip(
                _capacities(hosts, guests), most.tolist(), strict=True
            )
        ]
        return np.array(found, np.int64)

    def taken(
        self, hosts: HostTable, guests: _Guests, counts: Ints, check: Check = never
    ) -> HostTable:
        """Return the hosts after each took so many copies."""
        left = []
        for capacity, count in zip(
            _capacities(hosts, guests), counts.tolist(), strict=True
        ):
            filled = self._fill(capacity, guests, count, check)
            if filled.count != count:
                filled = _filled(_Filled(0, capacity, False), guests, count, check)
            left.append(filled.left)
        topologies: list[Any] = [each.topology for each in left]
        pools: list[Any] = [each.pools for each in left]
        return hosts.with_columns(
            numa_topology=_replaced(hosts, 'numa_topology', topologies),
            pci_stats=_replaced(hosts, 'pci_stats', pools),
        )

    def _fill(
        self, capacity: HostCapacity, guests: _Guests, most: int, check: Check
    ) -> _Filled:
        key = guests, capacity
        known = self._kept.get(key, _Filled(0, capacity, False))
        if known.count >= most or known.is_full:
            return known
        found = _filled(known, guests, most, check)
        if len(self._kept) >= self._most_kept:
            self._kept.clear()
        self._kept[key] = found
        return found


@dataclass(frozen=True)
class _Guests:
    """What a request needs of NUMA nodes and devices, and which of it is checked by
    filters that are enabled."""

    booked: FitRequirements
    checked: tuple[FitRequirements, ...]

    @classmethod
    def of(
        cls, request: RequestSpec, filters: Sequence[BaseHostFilter], fitting: Fitting
    ) -> _Guests | None:
        """Return None where nothing is needed, or nothing is checked."""
        booked = FitRequirements.of(request, fitting)
        checked = []
        for each in filters:
            if type(each) is NUMATopologyFilter and booked.guest is not None:
                checked.append(FitRequirements.of(request, each.fitting))
            elif type(each) is PciPassthroughFilter and booked.requests:
                checked.append(FitRequirements(None, booked.requests))
        return cls(booked, tuple(checked)) if checked else None

    def fit(self, capacity: HostCapacity) -> bool:
        """Return whether the filters would pass a host."""
        return all(any(each.fits(capacity, [None])) for each in self.checked)


def _filled(start: _Filled, guests: _Guests, most: int, check: Check) -> _Filled:
    count, left = start.count, start.left
    while count < most:
        check()
        if not guests.fit(left):
            return _Filled(count, left, True)
        left = book_on(left, guests.booked, None).left
        count += 1
    return _Filled(count, left, False)


def _capacities(hosts: HostTable, guests: _Guests) -> list[HostCapacity]:
    """Return the resources of each host for guests."""
    networks = guests.booked.networks
    limits: list[CellLimits | None] = [None] * len(hosts)
    if any(each.guest is not None for each in guests.checked):
        ratios = zip(
            hosts.cpu_allocation_ratio.tolist(),
            hosts.ram_allocation_ratio.tolist(),
            strict=True,
        )
        limits = [CellLimits(cpu, ram, networks) for cpu, ram in ratios]
    each = zip(
        hosts.numa_topology.tolist(), hosts.pci_stats.tolist(), limits, strict=True
    )
    return [HostCapacity(nodes or NOWHERE, pools, most) for nodes, pools, most in each]


def _replaced(hosts: HostTable, name: str, values: list[Any]) -> Categories[Any]:
    """Return a column with other values for the hosts of a table."""
    column: Categories[Any] = hosts.snapshot.column(name)
    codes = column.codes.copy()
    codes[hosts.rows] = len(column.values) + np.arange(len(values))
    return Categories([*column.values, *values], codes)


class Counting:
    """The counting of one kind of server.

    ``request`` is for one server without a server group; a filter that rejects a host
    is taken to reject it with more servers, too. ``check`` is called in each round of a
    loop; it raises where the work is to end.
    """

    def __init__(
        self,
        profile: Profile,
        request: RequestSpec,
        counter: CellCounter | None = None,
        check: Check = never,
    ) -> None:
        self._profile = profile
        self._request = request
        self._counter = counter or CellCounter()
        self._check = check
        self._guests = _Guests.of(request, profile.filters, profile.fitting)

    def slots(self, hosts: HostTable, remaining: Ints) -> Ints:
        """Return for each host how many more servers would be placed on it.

        ``remaining`` is how many of them placement would take.
        """
        found = np.zeros(len(hosts), np.int64)
        narrowed = narrow(hosts, self._request)
        filters = self._profile.filters if narrowed.filters_run else ()
        positions = np.flatnonzero(np.isin(hosts.rows, narrowed.hosts.rows))
        positions = positions[remaining[positions] > 0]
        positions = positions[self._passes(filters, hosts[positions])]
        most = remaining[positions]
        if self._guests is not None and filters:
            most = self._counter.counts(
                hosts[positions], self._guests, most, self._check
            )
            filters = [each for each in filters if not _is_counted(each)]
            positions, most = positions[most > 0], most[most > 0]
        found[positions] = self._bisected(filters, hosts[positions], most)
        return found

    def blockers(self, hosts: HostTable, counts: Ints) -> list[tuple[str, Reason]]:
        """Return for each host the filter, and why it rejects one server more than it
        has; ('', ...) for hosts that no filter rejects."""
        table = self._consumed(hosts, counts)
        if self._guests is not None:
            table = self._counter.taken(table, self._guests, counts, self._check)
        found: list[tuple[str, Reason] | None] = [None] * len(hosts)
        places = {row: place for place, row in enumerate(hosts.rows.tolist())}
        _, steps = run_filters(self._profile.filters, table, self._request)
        for step in steps:
            for host in step.rejected.states():
                reason = why(step.filter, host, self._request)
                found[places[host._row]] = step.name, reason
        return [each or ('', NOTHING) for each in found]

    def _bisected(
        self, filters: Sequence[BaseHostFilter], hosts: HostTable, most: Ints
    ) -> Ints:
        """Return the largest number of servers up to ``most`` with which hosts pass;
        they pass with one. ``most`` itself is tried first."""
        low, high = np.ones(len(hosts), np.int64), most + 1
        trying = most
        while len(open_ := np.flatnonzero(high - low > 1)):
            self._check()
            tried = trying[open_]
            table = self._consumed(hosts[open_], tried - 1)
            passes = self._passes(filters, table)
            low[open_[passes]] = tried[passes]
            high[open_[~passes]] = tried[~passes]
            trying = (low + high) // 2
        return low

    def _consumed(self, hosts: HostTable, copies: Ints) -> HostTable:
        """Return the hosts, nothing set on them, after each took some servers."""
        apart = HostTable(hosts.snapshot.for_new_request(), hosts.rows)
        consumed = consume_each(apart, copies, self._request)
        return consumed.with_columns(**{IO_OPS: hosts.snapshot.raw(IO_OPS)})

    def _passes(self, filters: Sequence[BaseHostFilter], hosts: HostTable) -> Mask:
        left, _ = run_filters(filters, hosts, self._request)
        passed: Mask = np.isin(hosts.rows, left.rows)
        return passed


def _is_counted(filter_: BaseHostFilter) -> bool:
    return type(filter_) in (NUMATopologyFilter, PciPassthroughFilter)
