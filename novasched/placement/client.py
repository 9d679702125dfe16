# SPDX-License-Identifier: Apache-2.0
"""The placement service, as the manager sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement import aggregates, candidates, claims, joint_claims, undoing
from novasched.ports import (
    Candidate,
    Candidates,
    Claimed,
    QueryFailed,
    Refused,
    Unknown,
    Wanted,
)


class PlacementClient:
    """Satisfies ports.Placement by HTTP; threads may share it."""

    def __init__(
        self, adapter: Adapter, on_held: claims.OnHeld = claims.untold
    ) -> None:
        self._adapter = adapter
        self._on_held = on_held

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        return candidates.candidates(self._adapter, context, query)

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | None:
        return aggregates.aggregates(self._adapter, context, provider_uuid)

    def claim(
        self,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
    ) -> Claimed | Refused | Unknown:
        return claims.Claim(
            self._adapter,
            context,
            consumer_uuid,
            candidate,
            version,
            project_id,
            user_id,
            self._on_held,
            adds,
        ).run()

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[Wanted],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | Unknown] | Refused:
        return joint_claims.JointClaim(
            self._adapter, context, wanted, version, project_id, user_id
        ).run()

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | Unknown],
        within_s: float = undoing.UNDO_WITHIN_S,
    ) -> Mapping[str, str]:
        undo = undoing.Undoing(self._adapter, context, within_s)
        undo.undo(claims)
        return undo.left
