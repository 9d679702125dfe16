# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a host have left once a fitted guest is on them."""

from __future__ import annotations

import dataclasses

from novasched.errors import RequestError
from novasched.scheduler.fit.guests import Guest, GuestCell
from novasched.scheduler.fit.topology import Cpus, HostCell, Pages


class BookingFailed(RequestError):
    """A node cannot be said to hold a guest node.

    ``error`` names nova's exception, or ours of the same meaning; ``cell`` is the id
    of the host node.
    """

    def __init__(self, error: str, cell: int, problem: str) -> None:
        super().__init__(error, cell, problem)
        self.error = error
        self.cell = cell
        self.problem = problem

    def __str__(self) -> str:
        return f'{self.error}: cell {self.cell}: {self.problem}'


def with_usage(
    cells: tuple[HostCell, ...], guest: Guest, as_nova: bool
) -> tuple[HostCell, ...]:
    """Return the nodes of a host with a fitted guest on them.

    ``as_nova`` fails wherever nova does. Otherwise a node without page data has
    CPUs and memory used, an old node what it knows of, and of the cores that are
    taken whole, threads that others have already are theirs. Raises BookingFailed
    for host CPUs that the node does not have or that others have. Nova:
    virt/hardware.py, numa_usage_from_instance_numa.
    """
    return tuple(_used(cell, guest, as_nova) for cell in cells)


def _used(cell: HostCell, guest: Guest, as_nova: bool) -> HostCell:
    if as_nova and cell.pcpuset is None:
        problem = 'the compute reports no dedicated CPUs'
        raise BookingFailed('UnsetField', cell.id, problem)
    for node in guest.cells:
        if node.id == cell.id:
            cell = dataclasses.replace(
                cell,
                mempages=_pages(cell, node, as_nova),
                memory_usage=max(0, cell.memory_usage + node.memory),
                cpu_usage=max(0, cell.cpu_usage + len(node.cpuset)),
                pinned_cpus=cell.pinned_cpus | _pinned(cell, node, as_nova),
            )
    return cell


def _pages(cell: HostCell, node: GuestCell, as_nova: bool) -> tuple[Pages, ...]:
    size_kb = node.pagesize
    if not size_kb:
        if cell.smallest_pages is None:
            if as_nova:
                problem = 'the compute reports no memory pages'
                raise BookingFailed('IndexError', cell.id, problem)
            return ()
        size_kb = cell.smallest_pages.size_kb
    return tuple(
        pages._replace(used=int(max(0, pages.used + node.memory * 1024 / size_kb)))
        if pages.size_kb == size_kb
        else pages
        for pages in cell.mempages
    )


def _pinned(cell: HostCell, node: GuestCell, as_nova: bool) -> Cpus:
    """Return the host CPUs that nobody else may have from now on."""
    if not node.pins:
        return frozenset()
    cpus = frozenset(host for _, host in node.pinning or ())
    cpus |= node.reserved or frozenset()
    if node.cpu_thread_policy == 'isolate':
        # A CPU of another node, from an earlier try, is on none of these cores.
        whole = Cpus().union(*(core for core in cell.siblings if core & cpus))
        cpus = whole if as_nova else cpus | (whole & cell.free_cpus)
    if not cpus <= (cell.pcpuset or frozenset()):
        problem = f'CPUs {_listed(cpus)} are not all for pinning'
        raise BookingFailed('CPUPinningUnknown', cell.id, problem)
    if taken := cpus & cell.pinned_cpus:
        problem = f'CPUs {_listed(taken)} are pinned already'
        raise BookingFailed('CPUPinningInvalid', cell.id, problem)
    return cpus


def _listed(cpus: Cpus) -> str:
    return ', '.join(map(str, sorted(cpus)))
