# SPDX-License-Identifier: Apache-2.0
"""Placement, which tells the copy what this process claims and rolls back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import (
    Candidate,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    UndoLeft,
)

T = TypeVar('T')

Outcome = Sequence[Claimed | ClaimUnknown] | ClaimRefused


class PlacementWithCopy:
    """Placement, and a copy that takes in what it answers. Satisfies ports.Placement.

    What a refused claim asked for is read again: the copy was behind.
    """

    def __init__(self, inner: Placement, copy: CopyKeeper) -> None:
        self._inner = inner
        self._copy = copy
        self.candidates = inner.candidates

    def answers(self) -> bool:
        """Ask placement; where it answers, have the copy brought up to date, so that
        those who waited need not all ask placement for candidates."""
        answers = self._inner.answers()
        if answers:
            self._copy.catch_up()
        return answers

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        try:
            return self._copy.aggregates(provider_uuid)
        except errors.NoCopy:
            return self._inner.aggregates(context, provider_uuid)

    def holders(
        self,
        context: RequestContext,
        consumers: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None = None,
    ) -> Mapping[str, Collection[str]] | QueryFailed:
        """See ports.Placement. A database that does not show ``mine`` is a replica
        that is behind: one that shows them shows all that came before them. They are
        asked for first, as it may catch up between two parts of a large group."""
        asked = [*mine, *consumers]
        found = self._looked(lambda: self._copy.store.holders(asked))
        if found is not None and all(mine[c] in found.get(c, ()) for c in mine):
            return {uuid: held for uuid, held in found.items() if uuid in consumers}
        return self._inner.holders(context, consumers, mine, among)

    def usages(
        self, context: RequestContext, mine: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]] | QueryFailed:
        """See ports.Placement, and holders()."""
        found = self._looked(lambda: self._copy.store.usages(mine))
        return self._inner.usages(context, mine) if found is None else found

    def _looked(self, read: Callable[[], T | None]) -> T | None:
        """Look at the store; return the answer, None if it cannot be read."""
        with contextlib.suppress(errors.CopyError, errors.StoreFailed):
            return self._copy.look(read)
        return None

    def claim(
        self, context: RequestContext, wanted: ClaimRequest, *args: Any, **more: Any
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        outcome = self._inner.claim(context, wanted, *args, **more)
        known = outcome if isinstance(outcome, ClaimRefused) else [outcome]
        self._take_in([wanted], known)
        return outcome

    def claim_all(
        self, context: RequestContext, wanted: Sequence[ClaimRequest], *args: Any
    ) -> Outcome:
        outcome = self._inner.claim_all(context, wanted, *args)
        self._take_in(wanted, outcome)
        return outcome

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        left = self._inner.undo(context, claims, within_s, keeps_unknown)
        consumers = [each.consumer_uuid for each in claims]
        self._copy.own_claims.forget(each for each in consumers if each not in left)
        return left

    def _take_in(self, wanted: Sequence[ClaimRequest], outcome: Outcome) -> None:
        taken = {each.consumer_uuid: _amounts(each.candidate) for each in wanted}
        if isinstance(outcome, ClaimRefused):
            uuids = {uuid for amounts in taken.values() for uuid in amounts}
            self._copy.invalidate(outcome.exhausted[:1] if outcome.exhausted else uuids)
        else:
            self._copy.assume(taken)


def _amounts(candidate: Candidate) -> dict[str, Mapping[str, int]]:
    allocations = candidate['allocations']
    return {uuid: allocation['resources'] for uuid, allocation in allocations.items()}
