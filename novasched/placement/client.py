# SPDX-License-Identifier: Apache-2.0
"""Placement client: candidates, aggregates, claims and their rollback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json
from novasched.placement import allocations, candidates
from novasched.placement.claims import ConsumerClaim, JointClaim, OnHeld
from novasched.placement.rollback import UNDO_WITHIN_S, Rollback
from novasched.placement.session import NoAnswer, ask, failed
from novasched.placement.writes import AllocationWrites
from novasched.ports import (
    Candidate,
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
    UndoLeft,
)
from novasched.runtime.deadline import Check, never

LOG = logging.getLogger(__name__)

AGGREGATES_VERSION = '1.19'
NO_PROVIDER = '00000000-0000-0000-0000-000000000000'


class PlacementClient:
    """Satisfies ports.Placement by HTTP; threads may share it. While it is known that
    placement ``is_unavailable``, the log has no line on each question."""

    def __init__(
        self,
        adapter: Adapter,
        on_held: OnHeld | None = None,
        is_unavailable: Callable[[], bool] = lambda: False,
        writes: AllocationWrites | None = None,
    ) -> None:
        self._adapter = adapter
        self._writes = writes or AllocationWrites(adapter)
        self._on_held = on_held
        self._is_unavailable = is_unavailable

    def answers(self) -> bool:
        url = f'/resource_providers?uuid={NO_PROVIDER}'
        context = RequestContext(overwrite=False)
        answer = ask(
            http.probing(self._adapter), context, 'GET', url, None, is_quiet=True
        )
        if isinstance(answer, NoAnswer):
            return not answer.is_unavailable
        return answer.status_code < http.SERVER_FAILED

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        return candidates.candidates(
            self._adapter, context, query, self._is_unavailable()
        )

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        url = f'/resource_providers/{provider_uuid}/aggregates'
        answer = ask(
            self._adapter,
            context,
            'GET',
            url,
            AGGREGATES_VERSION,
            is_quiet=self._is_unavailable(),
        )
        if isinstance(answer, NoAnswer):
            return failed(answer)
        if answer.status_code == 200:
            try:
                found = parse_json(answer.content)['aggregates']
            except (ValueError, KeyError, TypeError):
                found = None
            if isinstance(found, list):
                return frozenset(map(str, found))
            LOG.debug('Placement answered 200 with something else than aggregates')
        LOG.error(
            'Failed to retrieve aggregates from placement API for resource provider '
            'with UUID %s. Got %d: %s.',
            provider_uuid,
            answer.status_code,
            http.excerpt(answer),
        )
        return failed(answer)

    def claim(
        self,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
        check: Check = never,
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        wanted = ClaimRequest(consumer_uuid, candidate)
        owner = {'project_id': project_id, 'user_id': user_id}
        outcome = ConsumerClaim(
            self._adapter,
            self._writes,
            context,
            wanted,
            version,
            owner,
            self._on_held,
            adds,
            is_quiet=self._is_unavailable(),
            check=check,
        ).run()
        return outcome if isinstance(outcome, ClaimRefused) else outcome[0]

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | ClaimUnknown] | ClaimRefused:
        owner = {'project_id': project_id, 'user_id': user_id}
        return JointClaim(
            self._adapter,
            context,
            wanted,
            version,
            owner,
            is_quiet=self._is_unavailable(),
        ).run()

    def holders(
        self,
        context: RequestContext,
        consumers: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None = None,
    ) -> Mapping[str, Collection[str]] | QueryFailed:
        return allocations.holders(self._adapter, context, consumers, among)

    def usages(
        self, context: RequestContext, mine: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]] | QueryFailed:
        return allocations.usages(self._adapter, context, mine)

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float = UNDO_WITHIN_S,
        keeps_unknown: bool = False,
    ) -> UndoLeft:
        rollback = Rollback(
            self._adapter, context, within_s, keeps_unknown, writes=self._writes
        )
        rollback.undo(claims)
        return rollback.left
