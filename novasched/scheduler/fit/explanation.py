# SPDX-License-Identifier: Apache-2.0
"""Words for why a guest does not fit onto the nodes of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.reasons import Code, Reason

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


def listed(word: str, things: Iterable[object]) -> str:
    """Return 'cell 1' or 'cells 1 and 2'."""
    *most, last = map(str, things)
    return f'{word}s {", ".join(most)} and {last}' if most else f'{word} {last}'
