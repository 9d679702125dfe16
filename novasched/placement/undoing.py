# SPDX-License-Identifier: Apache-2.0
"""Taking claims back, and nothing else that their consumers hold."""

from __future__ import annotations

import logging
import time

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement.allocations import delete, held_by, restore
from novasched.placement.attempts import LOOKUP_TIMEOUT_S, Unsettled
from novasched.ports import Claimed, QueryFailed, UndoUnanswered, Unknown

LOG = logging.getLogger(__name__)

UNDO_WITHIN_S = 30.0


def undo(
    adapter: Adapter,
    context: RequestContext,
    claim: Claimed | Unknown,
    within_s: float = UNDO_WITHIN_S,
) -> None:
    """Bring the consumer back to what it held before the claim.

    Where it held nothing before and holds nothing now, a claim that got no answer
    may still be on its way. Nothing bars it: a consumer without allocations has no
    generation, and would have to hold some to get one. So after ``Unknown`` no
    other host may be claimed for this consumer, even when this succeeds.

    Raises errors.AllocationDeleteFailed when placement does not do it at the
    second time either, which is not tried after ``within_s``; UndoUnanswered when it
    does not answer.
    """
    consumer = claim.consumer_uuid
    until = time.monotonic() + within_s
    failure = _bring_back(adapter, context, claim, within_s)
    if failure and (failure.status == 409 or not 400 <= failure.status < 500):
        left_s = until - time.monotonic()
        if left_s > 0:
            failure = _bring_back(adapter, context, claim, left_s)
    if failure:
        LOG.warning(
            'Unable to delete allocation for instance %s: (%s %s)',
            consumer,
            failure.status,
            failure.text,
        )
        kind = errors.AllocationDeleteFailed if failure.status else UndoUnanswered
        raise kind(consumer, failure.text)


def _bring_back(
    adapter: Adapter,
    context: RequestContext,
    claim: Claimed | Unknown,
    within_s: float,
) -> QueryFailed | None:
    """Undo it once; what another process did to the consumer since then stays."""
    consumer = claim.consumer_uuid
    timeout_s = min(within_s, LOOKUP_TIMEOUT_S)
    ours = claim.holds if isinstance(claim, Claimed) else None
    if isinstance(claim, Unsettled):
        ours = claim.wanted
    if claim.before is not None:
        return restore(adapter, context, consumer, claim.before, ours, timeout_s)
    if ours is not None:
        held = held_by(adapter, context, consumer, timeout_s)
        if isinstance(held, QueryFailed):
            if isinstance(claim, Unsettled):
                return held
        elif held.allocations != ours:
            LOG.debug('Instance %s does not hold what we claimed; left so', consumer)
            return None
    return delete(adapter, context, consumer, timeout_s)
