# SPDX-License-Identifier: Apache-2.0
"""Placement with a rival that claims, too, and is faster now and then."""

from __future__ import annotations

import uuid
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.ports import (
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Placement,
)
from novasched_lab.local.cluster import OWNER
from novasched_lab.resource_providers import VERSION


class RivalPlacement:
    """Asks placement; if ``is_faster``, the memory of the host that is claimed next is
    taken just before. Satisfies ports.Placement."""

    def __init__(self, inner: Placement, adapter: Adapter) -> None:
        self._inner = inner
        self._adapter = adapter
        self._consumer = f'/allocations/{uuid.uuid4()}'
        self.is_faster = False
        self.answers, self.candidates = inner.answers, inner.candidates
        self.undo, self.claim_all = inner.undo, inner.claim_all
        self.holders, self.usages = inner.holders, inner.usages
        self.aggregates = inner.aggregates

    def claim(
        self, context: RequestContext, wanted: ClaimRequest, *args: Any, **more: Any
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        """Claim a candidate, after the other one."""
        if self.is_faster:
            self.is_faster = False
            self._take_memory(next(iter(wanted.candidate['allocations'])))
        return self._inner.claim(context, wanted, *args, **more)

    def _take_memory(self, provider: str) -> None:
        url = f'/resource_providers/{provider}'
        has = self._adapter.get(f'{url}/inventories', microversion=VERSION).json()
        uses = self._adapter.get(f'{url}/usages', microversion=VERSION).json()
        memory = has['inventories']['MEMORY_MB']
        free = memory['total'] - memory['reserved'] - uses['usages']['MEMORY_MB']
        body = {
            'allocations': {provider: {'resources': {'MEMORY_MB': free}}},
            'project_id': OWNER,
            'user_id': OWNER,
            'consumer_generation': None,
        }
        self._adapter.put(self._consumer, json=body, microversion=VERSION)

    def give_back(self) -> None:
        """Free what the other one has taken."""
        self._adapter.delete(self._consumer, microversion=VERSION)
