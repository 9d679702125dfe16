# SPDX-License-Identifier: Apache-2.0
"""Why a guest does not fit onto the nodes of a host: the first thing that is short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from novasched.scheduler.fit.numa import Refused
from novasched.scheduler.fit.search import (
    Agreement,
    Devices,
    Fits,
    bits,
    first_choice,
    networks_elsewhere,
    ordered,
)
from novasched.scheduler.fit.topology import Guest, HostCell, Limits, Networks, listed
from novasched.scheduler.reasons import Code, Reason


def explain(
    cells: Sequence[HostCell],
    guest: Guest,
    limits: Limits | None,
    devices: Devices | None,
    pack: bool,
) -> Reason:
    """Return why a guest does not fit onto a host.

    Nova's search can miss a place that there is; then the reason says so.
    """
    count = len(guest.cells)
    if count > len(cells):
        return Reason(Code.NODES_MISSING, f'{len(cells)} of {count} NUMA cells')
    tried = ordered(cells, guest, devices, pack)
    fits = Fits(tried, guest, limits)
    able = [fits.able(node) for node in range(count)]
    if 0 in able:
        return unplaced(_refused(fits, able.index(0), cells), count)
    placed = first_choice(fits, Agreement(tried, None, None))
    if placed is None:
        return contended([_ids(tried, bits(mask)) for mask in able])
    ids = frozenset(_ids(tried, placed))
    if devices and devices.wanted and not devices.supports(ids):
        return _without_devices(fits, ids, devices)
    asked = limits.networks if limits else None
    return _without_networks(cells, ids, asked) or MISSED


def _ids(cells: Sequence[HostCell], hosts: Iterable[int]) -> list[int]:
    return sorted(cells[host].id for host in hosts)


def _refused(fits: Fits, node: int, cells: Sequence[HostCell]) -> Refusals:
    """Return why each host node cannot take a guest node, in the host's order."""
    hosts = {cell.id: host for host, cell in enumerate(fits.cells)}
    tested = ((cell.id, fits.test(node, hosts[cell.id])) for cell in cells)
    by_cell = [(n, found) for n, found in tested if isinstance(found, Refused)]
    return Refusals(node, by_cell)


def _without_devices(fits: Fits, ids: frozenset[int], devices: Devices) -> Reason:
    """Say why there are no devices for a guest on some nodes, and why not on others.

    Each other node with such devices says why it cannot take a guest of one node.
    """
    reason = devices.why(ids)
    hosts = {cell.id: host for host, cell in enumerate(fits.cells)}
    parts = [f'{reason.text} with {listed("cell", sorted(ids))}']
    for cell_id, count in sorted(devices.elsewhere(ids).items()):
        text = f'{count} in cell {cell_id}'
        if len(fits.guest.cells) == 1 and cell_id in hosts:
            tested = fits.test(0, hosts[cell_id])
            if isinstance(tested, Refused):
                text = f'{text}, where {tested.text}'
        parts.append(text)
    return Reason(reason.code, '; '.join(parts))


def _without_networks(
    cells: Sequence[HostCell], ids: frozenset[int], asked: Networks | None
) -> Reason | None:
    """Say which networks there are only on other nodes; None if there are none."""
    missed = asked and networks_elsewhere(cells, ids, asked)
    if not missed:
        return None
    nodes = listed('cell', sorted(ids))
    return Reason(Code.NETWORKS_ELSEWHERE, f'{missed} only away from {nodes}')


MISSED = Reason(
    Code.NUMA_DOES_NOT_FIT,
    'the NUMA nodes fit, but nova looks for them in a way that misses them',
)


class Refusals(NamedTuple):
    """Why each host node, by id, cannot take one guest node."""

    node: int
    by_cell: Sequence[tuple[int, Refused]]


def unplaced(refusals: Refusals, count: int) -> Reason:
    """Say what each host node lacks for one of ``count`` guest nodes."""
    cells: dict[Refused, list[int]] = {}
    for cell, refused in refusals.by_cell:
        cells.setdefault(refused, []).append(cell)
    if len(cells) == 1 and len(refusals.by_cell) > 1:
        text = f'{refusals.by_cell[0][1].text} in each cell'
    else:
        text = _told_apart(cells)
    if count > 1:
        text = f'guest cell {refusals.node}: {text}'
    codes = {refused.code for refused in cells}
    return Reason(codes.pop() if len(codes) == 1 else Code.NUMA_DOES_NOT_FIT, text)


def _told_apart(cells: Mapping[Refused, Sequence[int]]) -> str:
    """Say what is short in which host nodes, and what would do if it is one number."""
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
    """Say where each guest node fits, when they do not fit together.

    ``places`` has the ids of host nodes for each guest node.
    """
    parts = [
        f'guest cell {node} fits in {listed("cell", ids)}'
        for node, ids in enumerate(places)
    ]
    return Reason(Code.NODES_CONTENDED, f'{", ".join(parts)}; not all at once')
