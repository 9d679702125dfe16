# SPDX-License-Identifier: Apache-2.0
"""Placement as it would be after changes to the cloud, answered from a snapshot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement.snapshot import (
    NodeSize,
    PlacementSnapshot,
    ProviderState,
    SnapshotSource,
    tree_of,
)
from novasched.ports import Candidates, Placement, QueryFailed
from novasched.providers.by_root import TableSummaries
from novasched.providers.candidates import search
from novasched.resources.query import VERSION, decode

Change = Callable[[PlacementSnapshot], PlacementSnapshot]


@dataclass
class ChangedSource:
    """Reads snapshots, and changes them. Satisfies SnapshotSource.

    Placement does not know the nodes of ``added``, by uuid.
    """

    inner: SnapshotSource
    change: Change
    added: Collection[str] = ()
    _read: PlacementSnapshot | None = field(default=None, repr=False)

    def read(
        self, sizes: Mapping[str, NodeSize], aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        known = {uuid: size for uuid, size in sizes.items() if uuid not in self.added}
        self._read = self.inner.read(known, aggregates)
        return self.change(self._read)

    def with_members(
        self, snapshot: PlacementSnapshot, aggregates: Iterable[str]
    ) -> PlacementSnapshot:
        self._read = self.inner.with_members(self._read or snapshot, aggregates)
        return self.change(self._read)

    def tree(self, root: str) -> list[ProviderState]:
        return tree_of(self.change(self._read or self.read({}, ())).contents, root)


class TablePlacement:
    """Answers queries from snapshots; all else is passed on. For dry runs.

    ``snapshot`` returns one that knows some aggregates.
    """

    def __init__(
        self, inner: Placement, snapshot: Callable[[Iterable[str]], PlacementSnapshot]
    ) -> None:
        self._snapshot = snapshot
        self.claim, self.claim_all = inner.claim, inner.claim_all
        self.undo = inner.undo

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        """Answer as placement would."""
        try:
            asked = decode(query)
            table = self._snapshot(asked.aggregates()).table
            found = itertools.islice(search(asked, table), asked.limit)
            return Candidates(list(found), VERSION, TableSummaries(table))
        except errors.InvalidCandidateQuery as problem:
            return QueryFailed(400, str(problem))
        except errors.StoreFailed as problem:
            return QueryFailed(0, str(problem))

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | None:
        """Return the aggregates of a provider, as far as queries have named them."""
        try:
            table = self._snapshot(()).table
        except errors.StoreFailed:
            return None
        row = table.rows_by_uuid.get(provider_uuid)
        return frozenset(uuid for uuid, rows in table.members.items() if row in rows)
