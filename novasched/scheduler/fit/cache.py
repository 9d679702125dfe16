# SPDX-License-Identifier: Apache-2.0
"""The answers of hosts to questions, kept from request to request.

A host is asked again when its nodes, devices or ratios, or the providers of its
candidates, are others than before. What hosts were is kept as numbers, so that
nodes and devices that no host has any more are forgotten.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import weakref
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from novasched.scheduler.columns import Categories, Ints, Mask, Objects, PerValue, Rows
from novasched.scheduler.fit.parse import NOWHERE, HostPools, HostTopology
from novasched.scheduler.fit.pci import enough_devices
from novasched.scheduler.fit.requirements import Mapped, Place, Question
from novasched.scheduler.fit.topology import Limits
from novasched.scheduler.hosts import HostTable

S = TypeVar('S')
Mappings = Sequence[Mapped | None]

QUESTIONS = 64
FEW = 32
DIGEST = 16
WIDTH = 6
"""Numbers for nodes, devices and two ratios, and two for the providers."""


class Answers:
    """The answers to the latest questions, for the hosts of one view."""

    def __init__(self) -> None:
        self._topologies = _Serials[HostTopology | None]()
        self._pools = _Serials[HostPools]()
        self._kept = functools.lru_cache(QUESTIONS)(_Kept)

    def of(
        self,
        question: Question,
        hosts: HostTable,
        mappings: Sequence[Mappings] | None = None,
    ) -> Objects:
        """Return for each host, and each mapping of its providers, if the guest fits.

        Without mappings there is one answer per host, whatever the providers. There
        is none for a host that has too few devices in any case.
        """
        kept = self._kept(question)
        looks = self._looks(question, hosts, mappings)
        rows, before, found = hosts.rows, *kept.rows(len(hosts.snapshot))
        new = np.flatnonzero((before[rows] != looks).any(axis=1))
        if not len(new):
            return found[rows]
        first, place_of = _distinct(looks[new])
        told = kept.told() if len(first) > FEW else {}
        asking = _Asking(question, hosts, mappings)
        answers = np.empty(len(first), object)
        for number, at in enumerate(new[first].tolist()):
            known = told.get(looks[at].tobytes())
            answers[number] = asking.answer(at) if known is None else known
        before, found = before.copy(), found.copy()
        before[rows[new]], found[rows[new]] = looks[new], answers[place_of]
        kept.keep(before, found)
        return found[rows]

    def _looks(
        self,
        question: Question,
        hosts: HostTable,
        mappings: Sequence[Mappings] | None,
    ) -> Ints:
        """Return all that answers follow from, as numbers; shape (hosts, WIDTH)."""
        looks: Ints = np.zeros((len(hosts), WIDTH), np.int64)
        looks[:, 1] = self._pools.of(hosts.pci_stats)
        if question.guest is not None:
            looks[:, 0] = self._topologies.of(hosts.numa_topology)
            looks[:, 2] = hosts.cpu_allocation_ratio.astype(np.float64).view(np.int64)
            looks[:, 3] = hosts.ram_allocation_ratio.astype(np.float64).view(np.int64)
        if mappings is not None:
            digests = b''.join([_digest(question.providers(one)) for one in mappings])
            looks[:, 4:] = np.frombuffer(digests, np.int64).reshape(-1, 2)
        return looks


class _Serials(Generic[S]):
    """A number for each value of a column; no other value ever has the same.

    Equal values have one number. Only those of the last column are kept alive.
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


class _Kept:
    """The answers to one question, by row, and what the hosts were like then.

    Arrays are not changed: another thread may read them.
    """

    def __init__(self, question: Question) -> None:
        self._rows: tuple[Ints, Objects]
        self._rows = np.zeros((0, WIDTH), np.int64), np.empty(0, object)

    def rows(self, count: int) -> tuple[Ints, Objects]:
        """Return both arrays with at least so many rows."""
        looks, answers = self._rows
        more = max(0, count - len(looks))
        if more:
            never: Ints = np.full((more, WIDTH), -1, np.int64)
            looks = np.concatenate([looks, never])
            answers = np.concatenate([answers, np.empty(more, object)])
        return looks, answers

    def told(self) -> dict[bytes, Any]:
        """Return the answers by what the hosts were like: rows may have moved."""
        looks, answers = self._rows
        return dict(zip(map(bytes, looks), answers.tolist(), strict=True))

    def keep(self, looks: Ints, answers: Objects) -> None:
        self._rows = looks, answers


class _Asking:
    """Hosts that are asked at one time; those that look the same are asked once."""

    def __init__(
        self, question: Question, hosts: HostTable, mappings: Sequence[Mappings] | None
    ) -> None:
        self._question = question
        self._mappings = mappings
        self._pools, self._topologies = hosts.pci_stats, hosts.numa_topology
        self._cpu, self._ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
        self._told: dict[Hashable, tuple[bool, ...]] = {}

    def answer(self, at: int) -> tuple[bool, ...]:
        """Ask the host at a position of the table."""
        question, place = self._question, self._place(at)
        if not enough_devices(place.pools.free, question.requests):
            return ()
        mappings: Mappings = [None] if self._mappings is None else self._mappings[at]
        seen = question.seen(place, mappings)
        if seen not in self._told:
            self._told[seen] = tuple(question.answer(place, mappings))
        return self._told[seen]

    def _place(self, at: int) -> Place:
        pools, question = self._pools.item(at), self._question
        if question.guest is None:
            return Place(NOWHERE, pools)
        limits = Limits(self._cpu.item(at), self._ram.item(at), question.networks)
        return Place(self._topologies.item(at) or NOWHERE, pools, limits)


def _distinct(looks: NDArray[Any]) -> tuple[Rows, Rows]:
    """Return where each different row stands first, and which of them each row is."""
    place_of: Rows = np.zeros(len(looks), np.intp)
    first: Rows = place_of[:1]
    for column in looks.T:
        _, codes = np.unique(column, return_inverse=True)
        _, first, place_of = np.unique(
            place_of * len(codes) + codes, return_index=True, return_inverse=True
        )
    return first, place_of


def _digest(providers: object) -> bytes:
    """Return what stands for providers of candidates, in less room than they take."""
    return hashlib.blake2b(repr(providers).encode(), digest_size=DIGEST).digest()


def surviving(
    hosts: HostTable, question: Question, answers: Answers, hopeful: Mask
) -> tuple[Mask, HostTable]:
    """Return which of the hopeful hosts can serve the question, and all hosts.

    These have the candidates that are left; a host that has none cannot serve it.
    """
    passes = hopeful.copy()
    left = np.flatnonzero(passes)
    if not len(left):
        return passes, hosts
    asked = hosts[left]
    listed = asked.allocation_candidates.tolist()
    if question.tells_candidates_apart:
        mappings = [[each.get('mappings') for each in one] for one in listed]
        kept = answers.of(question, asked, mappings).tolist()
        passes[left] = [any(one) for one in kept]
        return passes, _reduced(hosts, left, listed, kept)
    found = answers.of(question, asked).tolist()
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
