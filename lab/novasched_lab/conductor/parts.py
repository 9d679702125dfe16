# SPDX-License-Identifier: Apache-2.0
"""What every task of the conductor works with."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import ClaimRefused, ClaimUnknown, Placement
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Cells, Link
from novasched_lab.conductor.groups import GroupSetup
from novasched_lab.conductor.provider_mapping import candidate_of
from novasched_lab.conductor.quota import Quota
from novasched_lab.failures import FAILURES, SchedulerBroke
from novasched_lab.store.stores import ApiServers

LOG = logging.getLogger(__name__)


class Schedulers(Protocol):
    """Whoever chooses hosts; see rpc.client.SchedulerClient."""

    def select_destinations(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str],
        return_alternates: bool = True,
    ) -> list[list[Selection]]:
        """Return per instance the claimed host and its alternates."""


@dataclass(frozen=True)
class Parts:
    """The neighbours of a conductor; ``host`` is its own name."""

    api: ApiServers
    cells: Cells
    schedulers: Schedulers
    placement: Placement
    allocations: Allocations
    groups: GroupSetup
    quota: Quota
    host: str
    max_attempts: int = 3
    resizes_on_same_host: bool = False

    def choose(
        self,
        context: RequestContext,
        request: RequestSpec,
        uuids: Sequence[str],
        alternates: bool = True,
        only: Link | None = None,
    ) -> list[list[Selection]]:
        """Have hosts chosen and claimed, one list per instance, alternates last.

        Members of its server group are looked for in one cell, or in all. Raises one
        of failures.FAILURES, whatever the scheduler raises.
        """
        request = self.groups.of(request, only)
        started = time.monotonic()
        try:
            chosen = self.schedulers.select_destinations(
                context, request, uuids, return_alternates=alternates
            )
        except FAILURES:
            raise
        except Exception as problem:  # another process may raise anything
            raise SchedulerBroke(problem) from problem
        LOG.debug(
            'Took %0.2f seconds to select destinations for %s instance(s).',
            time.monotonic() - started,
            len(uuids),
        )
        if len(chosen) != len(uuids) or not all(chosen):
            raise errors.InvalidRequest(
                'the scheduler did not answer for all instances'
            )
        return chosen

    def claim(
        self, context: RequestContext, request: RequestSpec, selection: Selection
    ) -> ClaimRefused | None:
        """Claim an alternate as its selection says; return why it cannot be.

        Raises errors.AllocationUpdateFailed; then nothing is held.
        """
        candidate = candidate_of(selection)
        if candidate is None:
            return None
        uuid, admin = request.instance_uuid, context.elevated()
        outcome = self.placement.claim(
            admin,
            uuid,
            candidate,
            selection.allocation_request_version or '1.36',
            request.project_id,
            (request.user_id if 'user_id' in request else None) or context.user_id,
        )
        if isinstance(outcome, ClaimUnknown):
            self.allocations.remove(admin, uuid)
            raise errors.AllocationUpdateFailed(uuid, outcome.text)
        return outcome if isinstance(outcome, ClaimRefused) else None
