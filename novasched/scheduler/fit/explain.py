# SPDX-License-Identifier: Apache-2.0
"""Reason why a guest does not fit onto the cells of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from novasched.scheduler.fit.numa import CellRefusal
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.search import (
    Fits,
    NumaAffinity,
    bits,
    first_choice,
    networks_elsewhere,
    ordered,
)
from novasched.scheduler.fit.topology import (
    CellLimits,
    Guest,
    HostCell,
    Networks,
    listed,
)
from novasched.scheduler.reasons import Code, Reason


def explain(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: CellLimits | None,
    devices: HostDevices | None,
    pack: bool,
) -> Reason:
    """Return the first thing that a guest lacks on a host.

    Nova's search can miss a place that there is; then the reason says so.
    """
    count = len(guest.cells)
    if count > len(cells):
        return Reason(Code.NODES_MISSING, f'{len(cells)} of {count} NUMA cells')
    tried = ordered(cells, guest, devices, pack)
    fits = Fits(tried, guest, limits)
    able = [fits.able(guest_cell) for guest_cell in range(count)]
    if 0 in able:
        return unplaced(_refused(fits, able.index(0), cells), count)
    placed = first_choice(fits, NumaAffinity(tried, None, None))
    if placed is None:
        return contended([_ids(tried, bits(mask)) for mask in able])
    ids = frozenset(_ids(tried, placed))
    if devices and devices.wanted and not devices.supports(ids):
        return _without_devices(fits, ids, devices)
    asked = limits.networks if limits else None
    return _without_networks(cells, ids, asked) or MISSED


def _ids(cells: Sequence[HostCell], hosts: Iterable[int]) -> list[int]:
    return sorted(cells[host].id for host in hosts)


def _refused(fits: Fits, guest_cell: int, cells: Sequence[HostCell]) -> Refusals:
    """Return why each host cell cannot take a guest cell, in the host's order."""
    hosts = {cell.id: host for host, cell in enumerate(fits.cells)}
    tested = ((cell.id, fits.test(guest_cell, hosts[cell.id])) for cell in cells)
    by_cell = [(n, found) for n, found in tested if isinstance(found, CellRefusal)]
    return Refusals(guest_cell, by_cell)


def _without_devices(fits: Fits, ids: frozenset[int], devices: HostDevices) -> Reason:
    """Say why there are no devices for a guest on some cells, and why not on others.

    Each other cell with such devices says why it cannot take a guest of one cell.
    """
    reason = devices.why(ids)
    hosts = {cell.id: host for host, cell in enumerate(fits.cells)}
    parts = [f'{reason.text} with {listed("cell", sorted(ids))}']
    for cell_id, count in sorted(devices.elsewhere(ids).items()):
        text = f'{count} in cell {cell_id}'
        if len(fits.guest.cells) == 1 and cell_id in hosts:
            tested = fits.test(0, hosts[cell_id])
            if isinstance(tested, CellRefusal):
                text = f'{text}, where {tested.text}'
        parts.append(text)
    return Reason(reason.code, '; '.join(parts))


def _without_networks(
    cells: Sequence[HostCell], ids: frozenset[int], asked: Networks | None
) -> Reason | None:
    """Say which networks there are only on other cells; None if there are none."""
    missed = asked and networks_elsewhere(cells, ids, asked)
    if not missed:
        return None
    near = listed('cell', sorted(ids))
    return Reason(Code.NETWORKS_ELSEWHERE, f'{missed} only away from {near}')


MISSED = Reason(
    Code.NUMA_DOES_NOT_FIT,
    'the NUMA nodes fit, but nova looks for them in a way that misses them',
)


class Refusals(NamedTuple):
    """Refusals of one guest cell by each host cell, by id."""

    guest_cell: int
    by_cell: Sequence[tuple[int, CellRefusal]]


def unplaced(refusals: Refusals, count: int) -> Reason:
    """Say what each host cell lacks for one of ``count`` guest cells."""
    cells: dict[CellRefusal, list[int]] = {}
    for cell, refused in refusals.by_cell:
        cells.setdefault(refused, []).append(cell)
    if len(cells) == 1 and len(refusals.by_cell) > 1:
        text = f'{refusals.by_cell[0][1].text} in each cell'
    else:
        text = _by_refusal(cells)
    if count > 1:
        text = f'guest cell {refusals.guest_cell}: {text}'
    codes = {refused.code for refused in cells}
    return Reason(codes.pop() if len(codes) == 1 else Code.NUMA_DOES_NOT_FIT, text)


def _by_refusal(cells: Mapping[CellRefusal, Sequence[int]]) -> str:
    """Say what is short in which host cells, and what would do if it is one number."""
    parts = []
    said = None
    for refused, ids in cells.items():
        words = refused.text.removeprefix(refused.have)
        short = bool(refused.have) and words == said
        text = refused.have if short else refused.text
        parts.append(f'{text} in {listed("cell", ids)}')
        said = words
    text = ', '.join(parts)
    wanted = {refused.want for refused in cells}
    if len(wanted) == 1 and '' not in wanted:
        text = f'{text}; no cell holds {wanted.pop()}'
    return text


def contended(places: Sequence[Sequence[int]]) -> Reason:
    """Say where each guest cell fits, when they do not fit together.

    ``places`` has the ids of host cells for each guest cell.
    """
    parts = [
        f'guest cell {number} fits in {listed("cell", ids)}'
        for number, ids in enumerate(places)
    ]
    return Reason(Code.NODES_CONTENDED, f'{", ".join(parts)}; not all at once')
