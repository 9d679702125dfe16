# SPDX-License-Identifier: Apache-2.0
"""The hosts that a request may get: those of its cell, and of its candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Mapping
from typing import Any

from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates, Cell

FORGET_AFTER_S = 600.0
"""How long a provider is taken for a root: it may get a parent later."""


class KnownRoots:
    """The providers that were found to be roots though they are no compute nodes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._uuids: set[str] = set()
        self._forget_at = clock() + FORGET_AFTER_S

    def uuids(self) -> set[str]:
        """Return them by uuid; who finds more of them adds them."""
        if self._clock() >= self._forget_at:
            self._uuids = set()
            self._forget_at = self._clock() + FORGET_AFTER_S
        return self._uuids


def by_provider(
    candidates: Candidates | None,
    nodes: Container[str] = frozenset(),
    roots: set[str] | None = None,
) -> dict[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order.

    One that takes from none of ``nodes``, the known compute nodes, is also under
    the root of each of its providers: it asks a host only for what the children of
    the host have. ``roots`` are known to be such and get more; no summary is looked
    at for them.
    """
    if candidates is None:
        return None
    found: dict[str, list[Candidate]] = {}
    roots = set() if roots is None else roots
    for candidate in candidates.requests:
        uuids = candidate['allocations']
        for uuid in uuids:
            found.setdefault(uuid, []).append(candidate)
        if not any(uuid in nodes for uuid in uuids) and not roots.issuperset(uuids):
            above = _above(uuids, candidates.summaries)
            roots.update(uuid for uuid, root in above.items() if root == uuid)
            for root in dict.fromkeys(above.values()):
                if root not in uuids:
                    found.setdefault(root, []).append(candidate)
    return found


def _above(uuids: Collection[str], summaries: Mapping[str, Any]) -> dict[str, str]:
    """Return the root of each provider that has a summary."""
    told = {uuid: summaries[uuid] for uuid in uuids if uuid in summaries}
    return {uuid: each.get('root_provider_uuid') or uuid for uuid, each in told.items()}


def target_cell(view: ClusterView, request: RequestSpec) -> Cell | None:
    """Return the cell that the request must stay in, or None.

    A disabled cell is one; so is a cell that is too new to be known here.
    """
    destination = request.requested_destination
    if destination is None or destination.allow_cross_cell_move:
        return None
    cell = destination.cell if 'cell' in destination else None
    if cell is None:
        return None
    known = view.cells.get(cell.uuid)
    return known or Cell(
        cell.uuid, cell.name, cell.transport_url, cell.database_connection, True
    )


def cells_left_out(view: ClusterView, request: RequestSpec) -> tuple[str, ...]:
    """Return the names of the cells that give no hosts as they did not answer."""
    cell = target_cell(view, request)
    wanted = [c for c in view.cells.enabled() if cell is None or c.uuid == cell.uuid]
    return tuple(c.name or c.uuid for c in wanted if not view.is_available(c))
