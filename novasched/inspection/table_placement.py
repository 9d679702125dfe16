# SPDX-License-Identifier: Apache-2.0
"""Placement as it would be after changes to the cloud, answered from a copy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement_copy.copy import MOST_OF_ROOT
from novasched.ports import Candidates, Placement, QueryFailed
from novasched.providers.by_root import CandidatesByRoot, TableSummaries
from novasched.providers.candidates import search
from novasched.providers.placement_copy import PlacementCopy
from novasched.resources.query import VERSION, decode


class TablePlacement:
    """Answers queries from a copy; all else is passed on. For dry runs.

    ``copy`` returns one that knows some aggregates. ``as_it_is``: as a scheduler with a
    copy does, without a limit, and placement is asked where the copy cannot be read.
    """

    def __init__(
        self,
        inner: Placement,
        copy: Callable[[Iterable[str]], PlacementCopy],
        as_it_is: bool = False,
    ) -> None:
        self._inner = inner
        self._copy = copy
        self._as_it_is = as_it_is
        self.claim, self.claim_all = inner.claim, inner.claim_all
        self.undo, self.answers = inner.undo, inner.answers
        self.holders, self.usages = inner.holders, inner.usages

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        """Answer as placement would."""
        try:
            asked = decode(query)
            table = self._copy(asked.aggregates()).table
            searched = search(asked, table)
            if self._as_it_is:
                by_root = CandidatesByRoot([searched], MOST_OF_ROOT)
                found = by_root.flat(asked.limit is None)
            else:
                found = list(itertools.islice(searched, asked.limit))
            return Candidates(found, VERSION, TableSummaries(table))
        except errors.InvalidCandidateQuery as problem:
            return QueryFailed(400, str(problem))
        except errors.StoreFailed as problem:
            if self._as_it_is:
                return self._inner.candidates(context, query)
            return QueryFailed(0, str(problem))

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        """Return the aggregates of a provider, as far as queries have named them."""
        try:
            table = self._copy(()).table
        except errors.StoreFailed as problem:
            return QueryFailed(0, str(problem))
        row = table.rows_by_uuid.get(provider_uuid)
        return frozenset(uuid for uuid, rows in table.members.items() if row in rows)
