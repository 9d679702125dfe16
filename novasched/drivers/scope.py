# SPDX-License-Identifier: Apache-2.0
"""Which hosts a request may get: those of its cell, and of its candidates."""

from __future__ import annotations

from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates, Cell


def by_provider(candidates: Candidates | None) -> dict[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order."""
    if candidates is None:
        return None
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates.requests:
        for uuid in candidate['allocations']:
            found.setdefault(uuid, []).append(candidate)
    return found


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
