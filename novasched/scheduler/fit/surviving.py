# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a table, and which of their candidates, a question is answered by.

Hosts that report the same are looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched.scheduler.columns import Mask, Rows
from novasched.scheduler.fit.device_requests import enough_devices
from novasched.scheduler.fit.host_topology import NOWHERE
from novasched.scheduler.fit.question import Answers, Place, Question
from novasched.scheduler.fit.topology import Limits
from novasched.scheduler.hosts import HostTable


def surviving(
    hosts: HostTable, question: Question, answers: Answers, hopeful: Mask
) -> tuple[Mask, HostTable]:
    """Return which of the hopeful hosts can serve the question, and all hosts.

    These have the candidates that are left; a host that has none cannot serve it.
    """
    passes = hopeful.copy()
    if question.requests:
        passes &= hosts.pci_stats.map(
            lambda pools: enough_devices(pools.free, question.requests)
        )
    left = np.flatnonzero(passes)
    if not len(left):
        return passes, hosts
    places, place_of = _places(hosts[left], question)
    listed = hosts[left].allocation_candidates.tolist()
    if question.tells_candidates_apart:
        kept = _kept(listed, places, place_of, question, answers)
        passes[left] = [any(one) for one in kept]
        return passes, _reduced(hosts, left, listed, kept)
    fits = np.array([answers.of(question, place, [None])[0] for place in places])
    passes[left] = fits[place_of] & [bool(candidates) for candidates in listed]
    return passes, hosts


def _places(hosts: HostTable, question: Question) -> tuple[list[Place], Rows]:
    """Return the different places of the hosts, and which one each host is."""
    pools = hosts.pci_stats
    if question.guest is None:
        first, place_of = _distinct(pools.codes)
        return [Place(NOWHERE, pools.item(at)) for at in first.tolist()], place_of
    cpu, ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
    topologies = hosts.numa_topology
    first, place_of = _distinct(topologies.codes, pools.codes, cpu, ram)
    places = [
        Place(
            topologies.item(at) or NOWHERE,
            pools.item(at),
            Limits(cpu.item(at), ram.item(at), question.networks),
        )
        for at in first.tolist()
    ]
    return places, place_of


def _distinct(*columns: NDArray[Any]) -> tuple[Rows, Rows]:
    """Return where each different row stands first, and which of them each row is."""
    place_of: Rows = np.zeros(len(columns[0]), np.intp)
    first: Rows = place_of[:1]
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        _, first, place_of = np.unique(
            place_of * len(codes) + codes, return_index=True, return_inverse=True
        )
    return first, place_of


def _kept(
    listed: Sequence[Sequence[Any]],
    places: Sequence[Place],
    place_of: Rows,
    question: Question,
    answers: Answers,
) -> list[list[bool]]:
    """Return for each candidate of each host whether it is left."""
    found = []
    for candidates, number in zip(listed, place_of.tolist(), strict=True):
        mappings = [candidate.get('mappings') for candidate in candidates]
        found.append(answers.of(question, places[number], mappings))
    return found


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
