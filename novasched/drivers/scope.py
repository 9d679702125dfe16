# SPDX-License-Identifier: Apache-2.0
"""Which hosts a request may get: those of its cell, and of its candidates."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any

from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates, Cell


def by_provider(
    candidates: Candidates | None, nodes: Container[str] = frozenset()
) -> dict[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order.

    One that takes from none of ``nodes``, the known compute nodes, is also under
    the root of each of its providers: it asks a host only for what the children of
    the host have.
    """
    if candidates is None:
        return None
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates.requests:
        uuids = candidate['allocations']
        for uuid in uuids:
            found.setdefault(uuid, []).append(candidate)
        if not any(uuid in nodes for uuid in uuids):
            for root in _roots(uuids, candidates.summaries):
                found.setdefault(root, []).append(candidate)
    return found


def _roots(uuids: Collection[str], summaries: Mapping[str, Any]) -> list[str]:
    """Return the roots of these providers, but for those that are among them."""
    roots = [summaries[u].get('root_provider_uuid') for u in uuids if u in summaries]
    return [root for root in dict.fromkeys(roots) if root and root not in uuids]


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
