# SPDX-License-Identifier: Apache-2.0
"""Allocations of instances and moves in placement: swapped and removed."""

from __future__ import annotations

import logging
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement import allocations, claim_retry
from novasched.placement.allocations import ConsumerAllocations
from novasched.placement.http import NoAnswer, ask
from novasched.ports import QueryFailed

LOG = logging.getLogger(__name__)

ATTEMPTS = 4


class Allocations:
    """The allocations of consumers, in placement; threads may share it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def held_by(self, context: RequestContext, consumer: str) -> ConsumerAllocations:
        """Return what a consumer holds; raises errors.AllocationUpdateFailed."""
        held = allocations.held_by(self._adapter, context, consumer)
        if isinstance(held, QueryFailed):
            raise errors.AllocationUpdateFailed(consumer, held.text)
        return held

    def remove(self, context: RequestContext, consumer: str) -> bool:
        """Remove all that a consumer holds; log a failure, and return False."""
        failure = None
        for _ in range(ATTEMPTS):
            failure = allocations.delete(self._adapter, context, consumer)
            if failure is None or 400 <= failure.status < 500:
                break
        if failure is not None:
            LOG.warning(
                'Unable to delete allocation for instance %s: (%s %s)',
                consumer,
                failure.status,
                failure.text,
            )
        return failure is None

    def swap(self, context: RequestContext, source: str, target: str) -> bool:
        """Give ``target`` what ``source`` holds, instead of what it held.

        Where the source holds nothing and the target something, it was done before.
        False when placement does not do it. Raises errors.AllocationUpdateFailed when
        another process changes one of the two.
        """
        for _ in range(ATTEMPTS):
            theirs, own = self.held_by(context, source), self.held_by(context, target)
            if not theirs.allocations:
                return bool(own.allocations)
            body = {
                source: {**_body(theirs, {}), 'consumer_generation': theirs.generation},
                target: {
                    **_body(theirs, theirs.allocations),
                    'consumer_generation': own.generation,
                },
            }
            answer = ask(
                self._adapter,
                context,
                'POST',
                '/allocations',
                allocations.VERSION,
                body,
            )
            if isinstance(answer, NoAnswer):
                continue
            if answer.status_code == 204:
                return True
            changed = claim_retry.what_changed(answer)
            if changed == 'consumer':
                raise errors.AllocationUpdateFailed(source, answer.text)
            if changed is None:
                LOG.warning('Placement moved no claim of %s: %s', source, answer.text)
                return False
        return False


def _body(owner: ConsumerAllocations, held: allocations.Allocations) -> dict[str, Any]:
    return {
        'allocations': {
            provider: {'resources': dict(amounts)} for provider, amounts in held.items()
        },
        'project_id': owner.project_id,
        'user_id': owner.user_id,
    }
