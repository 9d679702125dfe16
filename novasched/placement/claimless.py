# SPDX-License-Identifier: Apache-2.0
"""A placement that is asked, and of which nothing is claimed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from novasched.objects.context import RequestContext
from novasched.ports import (
    Candidates,
    Claimed,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    UndoLeft,
)


class ClaimlessPlacement:
    """Asks placement, and grants every claim without making it. Satisfies
    ports.Placement."""

    def __init__(self, inner: Placement) -> None:
        self._inner = inner
        self.answers = inner.answers
        self.aggregates = inner.aggregates

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        return self._inner.candidates(context, query)

    def holders(
        self,
        context: RequestContext,
        consumers: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None = None,
    ) -> Mapping[str, Collection[str]] | QueryFailed:
        """Return nothing: what is in flight concerns nobody that claims nothing."""
        return {}

    def usages(
        self, context: RequestContext, mine: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]] | QueryFailed:
        """Return nothing: see holders()."""
        return {}

    def claim(
        self,
        context: RequestContext,
        wanted: ClaimRequest,
        *args: Any,
        **more: Any,
    ) -> Claimed:
        return self.grant(wanted)

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | ClaimUnknown]:
        return [self.grant(each) for each in wanted]

    def grant(self, wanted: ClaimRequest) -> Claimed:
        """Return the claim as if it were made."""
        return Claimed(wanted.consumer_uuid)

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        return UndoLeft()
