# SPDX-License-Identifier: Apache-2.0
"""Allocations of instances and moves in placement: swapped and removed."""

from __future__ import annotations

import logging

from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.placement import allocations
from novasched.placement.allocations import ConsumerAllocations
from novasched.placement.session import NoAnswer, ask
from novasched.ports import QueryFailed

LOG = logging.getLogger(__name__)

ATTEMPTS = 4


class Allocations:
    """The allocations of consumers, in placement; threads may share it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def held_by(self, context: RequestContext, consumer: str) -> ConsumerAllocations:
        """Read the allocations of a consumer; raises errors.AllocationUpdateFailed."""
        held = allocations.held_by(self._adapter, context, consumer)
        if isinstance(held, QueryFailed):
            raise errors.AllocationUpdateFailed(consumer, held.text)
        return held

    def remove(self, context: RequestContext, consumer: str) -> bool:
        """Remove all that a consumer holds; log a failure, and return False."""
        url = f'/allocations/{consumer}'
        status, text = 0, ''
        for _ in range(ATTEMPTS):
            answer = ask(self._adapter, context, 'DELETE', url, None)
            if isinstance(answer, NoAnswer):
                status, text = 0, answer.text
                continue
            status, text = answer.status_code, http.excerpt(answer)
            if status == 204:
                LOG.info('Deleted allocations for instance %s', consumer)
            if status in (204, 404):
                return True
            if 400 <= status < 500:
                break
        LOG.warning(
            'Unable to delete allocation for instance %s: (%s %s)',
            consumer,
            status,
            text,
        )
        return False

    def swap(self, context: RequestContext, source: str, target: str) -> bool:
        """Give ``target`` what ``source`` holds, instead of what it held.

        Where the source holds nothing and the target something, it was done before.
        False when placement does not do it. Raises errors.AllocationUpdateFailed when
        another process changes one of the two.
        """
        url, version = '/allocations', allocations.VERSION
        for _ in range(ATTEMPTS):
            held, own = self.held_by(context, source), self.held_by(context, target)
            taken = held.body()
            if taken is None:
                return bool(own.allocations)
            nothing = {**taken, 'allocations': {}}
            body = {
                source: {**nothing, 'consumer_generation': held.generation},
                target: {**taken, 'consumer_generation': own.generation},
            }
            answer = ask(self._adapter, context, 'POST', url, version, body)
            if isinstance(answer, NoAnswer):
                continue
            if answer.status_code == 204:
                return True
            changed = allocations.what_changed(answer)
            if changed == 'consumer':
                raise errors.AllocationUpdateFailed(source, answer.text)
            if changed is None:
                LOG.warning('Placement moved no claim of %s: %s', source, answer.text)
                return False
        return False
