# SPDX-License-Identifier: Apache-2.0
"""Figures of hosts at one moment: how full they are, and what still fits.

Pure functions of arrays with one number for each host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from novasched.policy_lab.trace import TraceFlavor
from novasched.scheduler.columns import Floats, Ints, Mask

LOW, HIGH = 5, 95
"""Percentiles of used shares."""


@dataclass(frozen=True)
class HostLoad:
    """What hosts have (after ratios, less what is reserved), and what is used."""

    vcpus: Ints
    ram_mb: Ints
    used_vcpus: Ints
    used_ram_mb: Ints
    instances: Ints
    nodes: tuple[Ints, Ints] | None = None
    """Free vCPUs and MiB of NUMA nodes, shape (nodes, hosts): an instance is in one."""

    @property
    def free_vcpus(self) -> Ints:
        """May be negative where a host is over capacity."""
        return self.vcpus - self.used_vcpus

    @property
    def free_ram_mb(self) -> Ints:
        return self.ram_mb - self.used_ram_mb


def percent(part: float, whole: float) -> float:
    """Return a part in per cent of a whole, 0 of nothing."""
    return float(100.0 * part / whole) if whole else 0.0


def allocated(load: HostLoad) -> tuple[float, float]:
    """Return how much of all vCPUs and of all RAM is used, in per cent."""
    return (
        percent(load.used_vcpus.sum(), load.vcpus.sum()),
        percent(load.used_ram_mb.sum(), load.ram_mb.sum()),
    )


def density(load: HostLoad) -> tuple[float | None, float | None]:
    """Return the same over the hosts that have an instance, None without any."""
    has = load.instances > 0
    if not has.any():
        return None, None
    return (
        percent(load.used_vcpus[has].sum(), load.vcpus[has].sum()),
        percent(load.used_ram_mb[has].sum(), load.ram_mb[has].sum()),
    )


def empty(load: HostLoad) -> float:
    """Return how many hosts have no instance, in per cent."""
    return percent(int((load.instances == 0).sum()), len(load.instances))


def stranded(load: HostLoad) -> tuple[float, float]:
    """Return the free vCPUs and RAM, in per cent of all: after filling."""
    return (
        percent(np.maximum(load.free_vcpus, 0).sum(), load.vcpus.sum()),
        percent(np.maximum(load.free_ram_mb, 0).sum(), load.ram_mb.sum()),
    )


def slots(load: HostLoad, flavor: TraceFlavor) -> Ints:
    """Return how many instances of a flavor each host has room for."""
    vcpus, ram_mb = load.nodes or (load.free_vcpus, load.free_ram_mb)
    often = np.minimum(vcpus // flavor.vcpus, ram_mb // flavor.ram_mb)
    total: Ints = np.maximum(np.atleast_2d(often), 0).sum(axis=0)
    return total


def room(load: HostLoad, flavors: Sequence[TraceFlavor]) -> list[int]:
    """Return how many instances of each flavor alone there is room for."""
    return [int(slots(load, flavor).sum()) for flavor in flavors]


def unallocatable(
    load: HostLoad, flavors: Sequence[TraceFlavor], shares: Sequence[float]
) -> float:
    """Return the free vCPUs on hosts where a flavor does not fit, in per cent.

    This is a mean over the flavors by their ``shares`` of the vCPUs asked for.
    """
    free = np.maximum(load.free_vcpus, 0)
    lost = sum(
        share * free[slots(load, flavor) == 0].sum()
        for flavor, share in zip(flavors, shares, strict=True)
        if share
    )
    return percent(float(lost), load.vcpus.sum())


def used_shares(load: HostLoad) -> tuple[Floats, Floats]:
    """Return the used share of vCPUs and of RAM of each host, in per cent."""
    return (
        100.0 * load.used_vcpus / np.maximum(load.vcpus, 1),
        100.0 * load.used_ram_mb / np.maximum(load.ram_mb, 1),
    )


def evacuates(load: HostLoad, counts: Ints, flavors: Sequence[TraceFlavor]) -> bool:
    """Return whether the instances of the fullest host fit on the others, the largest
    first, each where least is left. ``counts`` are instances by host and flavor."""
    fullest = int(np.argmax(load.used_vcpus / np.maximum(load.vcpus, 1)))
    return _Emptying(load, counts, flavors).empty(fullest)


def drainable(load: HostLoad, counts: Ints, flavors: Sequence[TraceFlavor]) -> float:
    """Return how many hosts can be emptied, in per cent: one after the other, the least
    used first, until one cannot."""
    order = np.argsort(load.used_vcpus / np.maximum(load.vcpus, 1), kind='stable')
    emptying, done = _Emptying(load, counts, flavors), 0
    for host in order.tolist():
        if not emptying.empty(host):
            break
        done += 1
    return percent(done, len(order))


class _Emptying:
    """Moves instances off hosts, which stay empty."""

    def __init__(
        self, load: HostLoad, counts: Ints, flavors: Sequence[TraceFlavor]
    ) -> None:
        self._vcpus = load.free_vcpus.copy()
        self._ram_mb = load.free_ram_mb.copy()
        self._load = load
        self._counts = counts.copy()
        self._flavors = flavors
        # the largest share of an average host first
        vcpus, ram_mb = load.vcpus.mean(), load.ram_mb.mean()
        sizes = [max(f.vcpus / vcpus, f.ram_mb / ram_mb) for f in flavors]
        self._order = sorted(range(len(flavors)), key=lambda at: -sizes[at])
        self._open: Mask = np.ones(len(self._vcpus), bool)

    def empty(self, host: int) -> bool:
        """Move all instances of a host; return whether each has found a place."""
        self._open[host] = False
        for at in self._order:
            for _ in range(int(self._counts[host, at])):
                if not self._move(host, at):
                    return False
        return True

    def _move(self, host: int, at: int) -> bool:
        flavor = self._flavors[at]
        fits = self._open & (self._vcpus >= flavor.vcpus)
        rows = np.flatnonzero(fits & (self._ram_mb >= flavor.ram_mb))
        if not len(rows):
            return False
        left = self._vcpus[rows] / self._load.vcpus[rows]
        left = left + self._ram_mb[rows] / self._load.ram_mb[rows]
        to = rows[np.argmin(left)]
        self._vcpus[to] -= flavor.vcpus
        self._ram_mb[to] -= flavor.ram_mb
        self._counts[to, at] += 1
        return True
