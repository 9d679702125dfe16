# SPDX-License-Identifier: Apache-2.0
"""Cached fits of hosts, kept from request to request, and the candidates left by them.

A host is evaluated again when its cells, devices or ratios, or the providers of its
candidates, change. Keys are numbers, so that the cells and devices that no host has any
more are released.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import weakref
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from novasched.scheduler.columns import Categories, Ints, Mask, Objects, PerValue, Rows
from novasched.scheduler.fit.parse import NOWHERE, HostPools, HostTopology
from novasched.scheduler.fit.pci import ProviderMapping, enough_devices
from novasched.scheduler.fit.requirements import (
    FitRequirements,
    HostCapacity,
)
from novasched.scheduler.fit.topology import CellLimits
from novasched.scheduler.hosts import HostTable

S = TypeVar('S')
Mappings = Sequence[ProviderMapping | None]

MOST_REQUIREMENTS = 64
MOST_KEYS = 1024
"""Fits that are kept by key, and two more for each host."""
DIGEST = 16
WIDTH = 6
"""Numbers for cells, devices and two ratios, and two for the providers."""


class FitCache:
    """Fits for the latest requirements, for the hosts of one view."""

    def __init__(self) -> None:
        self._topologies = _Serials[HostTopology | None]()
        self._pools = _Serials[HostPools]()
        self._cached = functools.lru_cache(MOST_REQUIREMENTS)(_CachedFits)

    def of(
        self,
        requirements: FitRequirements,
        hosts: HostTable,
        mappings: Sequence[Mappings] | None = None,
    ) -> Objects:
        """Return for each host, and each mapping of its providers, if the guest fits.

        Without mappings there is one fit per host, whatever the providers. There
        is none for a host that has too few devices in any case.
        """
        kept = self._cached(requirements)
        keys = self._keys(requirements, hosts, mappings)
        rows, before, found = hosts.rows, *kept.rows(len(hosts.snapshot))
        new = np.flatnonzero((before[rows] != keys).any(axis=1))
        if not len(new):
            return found[rows]
        evaluation = _Evaluation(requirements, hosts, mappings)
        fits = np.empty(len(new), object)
        for number, at in enumerate(new.tolist()):
            fits[number] = kept.of(keys[at].tobytes(), at, evaluation)
        before, found = before.copy(), found.copy()
        before[rows[new]], found[rows[new]] = keys[new], fits
        kept.keep(before, found)
        return found[rows]

    def _keys(
        self,
        requirements: FitRequirements,
        hosts: HostTable,
        mappings: Sequence[Mappings] | None,
    ) -> Ints:
        """Return all that fits depend on, as numbers; shape (hosts, WIDTH)."""
        keys: Ints = np.zeros((len(hosts), WIDTH), np.int64)
        keys[:, 1] = self._pools.of(hosts.pci_stats)
        if requirements.guest is not None:
            keys[:, 0] = self._topologies.of(hosts.numa_topology)
            keys[:, 2] = hosts.cpu_allocation_ratio.astype(np.float64).view(np.int64)
            keys[:, 3] = hosts.ram_allocation_ratio.astype(np.float64).view(np.int64)
        if mappings is not None:
            digests = b''.join(
                [_digest(requirements.providers(one)) for one in mappings]
            )
            keys[:, 4:] = np.frombuffer(digests, np.int64).reshape(-1, 2)
        return keys


class _Serials(Generic[S]):
    """A number for each value of a column; no other value ever has the same.

    Equal values have one number. Only the numbers of the last column are kept alive.
    """

    def __init__(self) -> None:
        self._numbers: weakref.WeakKeyDictionary[Any, int]
        self._numbers = weakref.WeakKeyDictionary()
        self._next = itertools.count(1)
        self._column = PerValue[S](self._number)

    def of(self, column: Categories[S]) -> Ints:
        """Return the number of each host's value; 0 for None."""
        return self._column.of(column)

    def _number(self, value: S) -> int:
        if value is None:
            return 0
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = next(self._next)
        return number


class _CachedFits:
    """Fits for one set of requirements, by row, and the keys of the hosts then.

    Fits are kept by key, too: hosts are alike, and return to what they were. Arrays are
    not changed: another thread may read them.
    """

    def __init__(self, requirements: FitRequirements) -> None:
        self._rows: tuple[Ints, Objects]
        self._rows = np.zeros((0, WIDTH), np.int64), np.empty(0, object)
        self._by_key: dict[bytes, tuple[bool, ...]] = {}

    def rows(self, count: int) -> tuple[Ints, Objects]:
        """Return both arrays with at least so many rows."""
        keys, fits = self._rows
        more = max(0, count - len(keys))
        if more:
            never: Ints = np.full((more, WIDTH), -1, np.int64)
            keys = np.concatenate([keys, never])
            fits = np.concatenate([fits, np.empty(more, object)])
        return keys, fits

    def of(self, key: bytes, at: int, evaluation: _Evaluation) -> tuple[bool, ...]:
        """Return the fits of the host at a position of a table, by its key."""
        fits = self._by_key.get(key)
        if fits is None:
            if len(self._by_key) > MOST_KEYS + 2 * len(self._rows[0]):
                self._by_key.clear()
            fits = self._by_key[key] = evaluation.fits(at)
        return fits

    def keep(self, keys: Ints, fits: Objects) -> None:
        self._rows = keys, fits


class _Evaluation:
    """Evaluation of hosts, once for each equivalence class."""

    def __init__(
        self,
        requirements: FitRequirements,
        hosts: HostTable,
        mappings: Sequence[Mappings] | None,
    ) -> None:
        self._requirements = requirements
        self._mappings = mappings
        self._pools, self._topologies = hosts.pci_stats, hosts.numa_topology
        self._cpu, self._ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
        self._by_class: dict[Hashable, tuple[bool, ...]] = {}

    def fits(self, at: int) -> tuple[bool, ...]:
        """Return the fits of the host at a position of the table."""
        requirements, capacity = self._requirements, self._capacity(at)
        if not enough_devices(capacity.pools.free, requirements.requests):
            return ()
        mappings: Mappings = [None] if self._mappings is None else self._mappings[at]
        host_class = requirements.equivalence_class(capacity, mappings)
        if host_class not in self._by_class:
            self._by_class[host_class] = tuple(requirements.fits(capacity, mappings))
        return self._by_class[host_class]

    def _capacity(self, at: int) -> HostCapacity:
        pools, requirements = self._pools.item(at), self._requirements
        if requirements.guest is None:
            return HostCapacity(NOWHERE, pools)
        limits = CellLimits(
            self._cpu.item(at), self._ram.item(at), requirements.networks
        )
        return HostCapacity(self._topologies.item(at) or NOWHERE, pools, limits)


def _digest(providers: object) -> bytes:
    """Return a short digest of the providers of candidates."""
    return hashlib.blake2b(repr(providers).encode(), digest_size=DIGEST).digest()


def filter_candidates(
    hosts: HostTable, requirements: FitRequirements, cache: FitCache, hopeful: Mask
) -> tuple[Mask, HostTable]:
    """Return which of the hopeful hosts meet the requirements, and all hosts.

    These have the candidates that are left; a host that has none does not meet them.
    """
    passes = hopeful.copy()
    left = np.flatnonzero(passes)
    if not len(left):
        return passes, hosts
    asked = hosts[left]
    listed = asked.allocation_candidates.tolist()
    if requirements.tells_candidates_apart:
        mappings = [[each.get('mappings') for each in one] for one in listed]
        kept = cache.of(requirements, asked, mappings).tolist()
        passes[left] = [any(one) for one in kept]
        return passes, _reduced(hosts, left, listed, kept)
    found = cache.of(requirements, asked).tolist()
    passes[left] = [
        any(one) and bool(candidates)
        for one, candidates in zip(found, listed, strict=True)
    ]
    return passes, hosts


def _reduced(
    hosts: HostTable,
    positions: Rows,
    listed: Sequence[Sequence[Any]],
    kept: Sequence[Sequence[bool]],
) -> HostTable:
    """Return the hosts without the candidates that are not kept."""
    fewer = [number for number, one in enumerate(kept) if not all(one)]
    if not fewer:
        return hosts
    left = [
        [one for one, stays in zip(listed[n], kept[n], strict=True) if stays]
        for n in fewer
    ]
    rows = hosts.rows[positions[fewer]]
    snapshot = hosts.snapshot.replace({'allocation_candidates': left}, rows)
    return HostTable(snapshot, hosts.rows)
