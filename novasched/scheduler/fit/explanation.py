# SPDX-License-Identifier: Apache-2.0
"""Words for why a guest does not fit onto the nodes of a host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    parts = []
    said = None
    for cell, refused in refusals.by_cell:
        words = refused.text.removeprefix(refused.have)
        short = bool(refused.have) and words == said
        parts.append(f'{refused.have if short else refused.text} in cell {cell}')
        said = words
    text = ', '.join(parts)
    wanted = {refused.want for _, refused in refusals.by_cell}
    if len(wanted) == 1 and '' not in wanted:
        text = f'{text}; no cell holds {wanted.pop()}'
    if count > 1:
        text = f'guest cell {refusals.node}: {text}'
    codes = {refused.code for _, refused in refusals.by_cell}
    return Reason(codes.pop() if len(codes) == 1 else Code.NUMA_DOES_NOT_FIT, text)


def contended(places: Sequence[Sequence[int]]) -> Reason:
    """Say where each guest node fits, when they do not fit together.

    ``places`` has the ids of host nodes for each guest node.
    """
    parts = [
        f'guest cell {node} fits in {listed("cell", ids)}'
        for node, ids in enumerate(places)
    ]
    return Reason(Code.NODES_CONTENDED, f'{", ".join(parts)}; not all at once')


def listed(word: str, numbers: Iterable[int]) -> str:
    """Return 'cell 1' or 'cells 1 and 2'."""
    *most, last = map(str, numbers)
    return f'{word}s {", ".join(most)} and {last}' if most else f'{word} {last}'
