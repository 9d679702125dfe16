# SPDX-License-Identifier: Apache-2.0
"""Topologies as they come and go: JSON text of hosts, objects of requests."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.scheduler.fit.guests import Guest, GuestCell
from novasched.scheduler.fit.reported import number, reading
from novasched.scheduler.fit.topology import Cpus, HostCell, Networks, Pages

NAME, DATA = 'nova_object.name', 'nova_object.data'
MOST_CPUS = 65536
"""A range of more CPUs than any host has is no range."""


def host_cells(text: str | None) -> tuple[HostCell, ...]:
    """Return the nodes that a numa_topology column tells of, in their order.

    None for a host without nodes. Computes of before 2015 wrote it in a form of its
    own, without pages and cores. Raises reported.Unreadable for what is no topology.
    """
    if not text or text == 'null':
        return ()
    with reading():
        topology = json.loads(text)
        if NAME in topology:
            cells = tuple(_cell(cell[DATA]) for cell in topology[DATA]['cells'])
        else:
            cells = tuple(_old_cell(cell) for cell in topology['cells'])
        if len({cell.id for cell in cells}) < len(cells):
            raise ValueError('two nodes have one id')
        return cells


def _cell(cell: Mapping[str, Any]) -> HostCell:
    pcpuset = cell.get('pcpuset')
    metadata = cell.get('network_metadata')
    return HostCell(
        id=number(cell['id']),
        cpuset=_shared(_cpus(cell['cpuset'])),
        pcpuset=None if pcpuset is None else _shared(_cpus(pcpuset)),
        memory=number(cell['memory']),
        cpu_usage=number(cell.get('cpu_usage', 0)),
        memory_usage=number(cell.get('memory_usage', 0)),
        pinned_cpus=_cpus(cell.get('pinned_cpus', ())),
        siblings=_cores(cell.get('siblings', ())),
        mempages=tuple(_pages(pages[DATA]) for pages in cell.get('mempages', ())),
        network_metadata=None if metadata is None else _networks(metadata[DATA]),
        socket=_or_none(cell.get('socket')),
    )


def _cores(siblings: Any) -> tuple[Cpus, ...]:
    """Read cores; a CPU that is on two of them could be given away twice."""
    cores = tuple(_shared(_cpus(core)) for core in siblings)
    if sum(map(len, cores)) > len(frozenset().union(*cores)):
        raise ValueError('a CPU is on two cores')
    return cores


def _cpus(numbers: Any) -> Cpus:
    cpus = frozenset(map(int, numbers))
    for outermost in (min(cpus, default=0), max(cpus, default=0)):
        number(outermost)
    return cpus


@functools.lru_cache(maxsize=16384)
def _shared(cpus: Cpus) -> Cpus:
    """Return the set that an earlier node has, if equal: hosts are much alike."""
    return cpus


def _or_none(value: Any) -> int | None:
    return None if value is None else number(value)


def _pages(pages: Mapping[str, Any]) -> Pages:
    return Pages(
        number(pages['size_kb']),
        number(pages['total']),
        number(pages.get('used', 0)),
        number(pages.get('reserved', 0)),
    )


def _networks(metadata: Mapping[str, Any]) -> Networks:
    physnets = frozenset(map(str, metadata.get('physnets') or ()))
    return Networks(physnets, bool(metadata.get('tunneled')))


def _old_cell(cell: Mapping[str, Any]) -> HostCell:
    """Read a node in the old form; whatever CPUs it has may be shared only."""
    memory = cell.get('mem', {})
    return HostCell(
        id=number(cell['id']),
        cpuset=_listed_cpus(cell.get('cpus', '')),
        pcpuset=frozenset(),
        memory=number(memory.get('total', 0)),
        cpu_usage=number(cell.get('cpu_usage', 0)),
        memory_usage=number(memory.get('used', 0)),
    )


def _listed_cpus(text: str) -> Cpus:
    """Read '0-3,^2,8': ranges, and after '^' what is not meant."""
    meant: set[int] = set()
    left_out: set[int] = set()
    for part in filter(None, map(str.strip, text.split(','))):
        ends = part.removeprefix('^').partition('-')
        first, last = number(ends[0]), number(ends[2] or ends[0])
        if last - first >= MOST_CPUS:
            raise ValueError(f'a range has more than {MOST_CPUS} CPUs')
        numbers = range(first, last + 1)
        (left_out if part.startswith('^') else meant).update(numbers)
    return frozenset(meant - left_out)


def guest_of(topology: InstanceNUMATopology) -> Guest:
    """Read the nodes that a request asks for.

    Raises errors.UnsetField for a node without CPUs, memory or id.
    """
    return Guest(
        tuple(map(_guest_cell, topology.cells)),
        isolates_emulator=topology.emulator_threads_policy == 'isolate',
    )


def _guest_cell(cell: InstanceNUMACell) -> GuestCell:
    pinning = cell.cpu_pinning
    reserved = cell.cpuset_reserved
    return GuestCell(
        id=cell.id,
        cpuset=frozenset(cell.cpuset),
        pcpuset=frozenset(cell.pcpuset),
        memory=cell.memory,
        pagesize=cell.pagesize,
        cpu_policy=cell.cpu_policy,
        cpu_thread_policy=cell.cpu_thread_policy,
        pinning=None if pinning is None else tuple(sorted(pinning.items())),
        reserved=None if reserved is None else frozenset(reserved),
    )


def topology_of(guest: Guest, original: InstanceNUMATopology) -> InstanceNUMATopology:
    """Return a request's topology with what fitting found; the original stays."""
    pairs = zip(guest.cells, original.cells, strict=True)
    return original.replaced(cells=[_fitted(cell, asked) for cell, asked in pairs])


def _fitted(cell: GuestCell, asked: InstanceNUMACell) -> InstanceNUMACell:
    pinning = cell.pinning
    return asked.replaced(
        id=cell.id,
        pagesize=cell.pagesize,
        cpu_pinning_raw=None if pinning is None else {str(c): h for c, h in pinning},
        cpuset_reserved=None if cell.reserved is None else set(cell.reserved),
    )


def networks_of(metadata: NetworkMetadata | None) -> Networks | None:
    """Read the networks that a request asks for; None if it does not say."""
    if metadata is None:
        return None
    return Networks(frozenset(metadata.physnets), metadata.tunneled)
