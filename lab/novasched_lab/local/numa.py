# SPDX-License-Identifier: Apache-2.0
"""The walk-through's hosts with NUMA nodes, tried with pages of 1 GiB."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.numa import CellRefusal, fit_pair
from novasched.scheduler.fit.requirements import guest_of
from novasched.scheduler.fit.search import ordered
from novasched.scheduler.fit.topology import CellLimits, Guest, HostCell, listed
from novasched_lab.local import cluster

PAGE_SIZE = 'hw:mem_page_size'
TAKES = 'takes the instance'
GIB = 1048576
LIMITS = CellLimits(cluster.CPU_RATIO, 1.0)


@dataclasses.dataclass(frozen=True)
class TriedCell:
    """A node of a host, in the order of trying, and what it says to the instance."""

    cell: int
    vcpus_used: int
    pages_free: int
    answer: str


@dataclasses.dataclass(frozen=True)
class TriedHost:
    """A host; ``taken`` is the node that the instance gets, None if it gets none.

    ``cells`` ends with the node that was taken. ``full`` are the nodes that have no
    pages in the cloud as it is.
    """

    host: str
    taken: int | None
    cells: Sequence[TriedCell]
    full: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Scene:
    """The hosts under one title; ``request`` and ``rules`` say what was tried."""

    title: str
    request: str
    rules: str
    hosts: Sequence[TriedHost]


def scenes() -> list[Scene]:
    """Try all hosts as they are, and without pages on the node that is tried first."""
    walkthrough = cluster.read()
    request = cluster.request_spec(walkthrough)
    wanted = InstanceNUMACell(
        id=0,
        cpuset=set(range(request.vcpus)),
        pcpuset=set(),
        memory=request.memory_mb,
        pagesize=int(request.extra_specs[PAGE_SIZE]),
    )
    guest = guest_of(InstanceNUMATopology(cells=[wanted]))
    pages = (wanted.pagesize or 0) // GIB
    as_they_are, used_up = [], []
    for each in walkthrough.hosts:
        if each.cells:
            full = [cell.id for cell in each.cells if _pages_free(cell, guest) <= 0]
            cells = _used_up(each.cells, guest)
            as_they_are.append(_tried(each.host.name, each.cells, guest, full))
            used_up.append(_tried(each.host.name, cells, guest, full))
    return [
        Scene(
            title,
            f'The server: {len(wanted.cpuset)} vCPU, {wanted.memory} MiB '
            f'in pages of {pages} GiB, in one cell',
            f'A cell may have {LIMITS.cpu_allocation_ratio:g} vCPUs per CPU; '
            'spread: that with the fewest is tried first',
            hosts,
        )
        for title, hosts in (
            ('As the hosts are', as_they_are),
            ('With the pages used up of the cell that is tried first', used_up),
        )
    ]


def _pages_free(cell: HostCell, guest: Guest) -> int:
    size_kb = guest.cells[0].pagesize
    return sum(pages.free for pages in cell.mempages if pages.size_kb == size_kb)


def _used_up(cells: Sequence[HostCell], guest: Guest) -> tuple[HostCell, ...]:
    """Return the nodes after others took all large pages of the first in order."""
    first = ordered(cells, guest, None, pack=False)[0]
    size_kb = guest.cells[0].pagesize
    pages = tuple(
        pages._replace(used=pages.total) if pages.size_kb == size_kb else pages
        for pages in first.mempages
    )
    full = dataclasses.replace(first, mempages=pages)
    return tuple(full if cell is first else cell for cell in cells)


def _tried(
    name: str, cells: Sequence[HostCell], guest: Guest, full: Sequence[int]
) -> TriedHost:
    attempt = Fitting().attempt(cells, guest, LIMITS, None)
    taken = attempt.guest.cells[0].id if attempt.fits else None
    found: list[TriedCell] = []
    for cell in ordered(cells, guest, None, pack=False):
        answer = fit_pair(cell, guest.cells[0], LIMITS, 0)
        text = answer.text if isinstance(answer, CellRefusal) else TAKES
        free = _pages_free(cell, guest)
        found.append(TriedCell(cell.id, cell.cpu_usage, free, text))
        if cell.id == taken:
            break
    return TriedHost(name, taken, found, full)


def as_text(scenes: Sequence[Scene]) -> str:
    """Return the attempts, and the scenes with a line for each node."""
    head = dict.fromkeys(line for each in scenes for line in (each.request, each.rules))
    lines = (line for scene in scenes for line in (*_lines(scene), ''))
    return '\n'.join([*head, '', *lines])


def _lines(scene: Scene) -> Iterator[str]:
    fitting = sum(host.taken is not None for host in scene.hosts)
    yield f'{scene.title}: {fitting} of {len(scene.hosts)} hosts fit'
    rows = [('order', 'cell', 'vCPUs used', 'pages free', 'answer')]
    for host in scene.hosts:
        yield f'  {host.host}: {_outcome(host)}'
        cells = [map(str, dataclasses.astuple(cell)) for cell in host.cells]
        numbered = [(str(number), *cell) for number, cell in enumerate(cells, 1)]
        for order, cell, used, free, answer in (*rows, *numbered):
            yield f'    {order:<5}  {cell:>4}  {used:>10}  {free:>10}  {answer}'


def _outcome(host: TriedHost) -> str:
    if host.taken is not None:
        return f'cell {host.taken}'
    if not host.full:
        return 'does not fit'
    verb = 'was' if len(host.full) == 1 else 'were'
    return f'does not fit: {listed("cell", host.full)} {verb} full already'


def as_json(scenes: Sequence[Scene]) -> str:
    return json.dumps([dataclasses.asdict(scene) for scene in scenes], indent=2) + '\n'
