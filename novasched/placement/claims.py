# SPDX-License-Identifier: Apache-2.0
"""Claims: giving a consumer what a candidate names, and taking it back.

A claim is optimistic: it is sent as for a consumer that holds nothing, and
what the consumer holds is read only when placement says that this is wrong.
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass, field
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    NOTHING,
    Allocations,
    amounts,
    delete,
    held_by,
    restore,
)
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import (
    Candidate,
    Claimed,
    QueryFailed,
    Refused,
    UndoUnanswered,
    Unknown,
)

LOG = logging.getLogger(__name__)

LOOKUP_TIMEOUT_S = 10.0
UNDO_WITHIN_S = 30.0

# A gateway that gave up on placement says nothing about what placement does.
GATEWAY_LOST_IT = (502, 504)

_EXHAUSTED = re.compile(
    r"allocation for '(\w+)' on resource provider '([^']+)'. The requested amount "
    'would exceed the capacity'
)


@dataclass(frozen=True)
class Unsettled(Unknown):
    """Also tells what was asked for, so that nothing else is taken back.

    Where even reading failed, the consumer may hold what it held all along.
    """

    wanted: Allocations = field(default_factory=dict)


class Claim:
    """One claim under way: a PUT, and a few more where one does not settle it.

    Every attempt but the last counts as one of: lost (no answer), conflict (the
    consumer is not what we thought), busy (a provider changed meanwhile) or unreached
    (it was not sent). Each may happen once, so that a claim ends soon and never
    sleeps. After an error of the server, what the consumer holds says whether
    placement took the claim before it failed.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> None:
        self._adapter = adapter
        self._context = context
        self._consumer = consumer_uuid
        self._candidate = candidate
        self._version = version
        self._owner = {'project_id': project_id, 'user_id': user_id}
        self._held = NOTHING
        self._lost = False
        self._lost_generation: int | None = None
        # keystoneauth1 may send again what was lost, and not tell.
        self._resent = bool(adapter.connect_retries or adapter.status_code_retries)
        self._conflicted = False
        self._busy = False
        self._unreached = False

    def run(self) -> Claimed | Refused | Unknown:
        """Claim. Raises errors.AllocationUpdateFailed."""
        outcome = None
        while outcome is None:
            outcome = self._attempt()
        return outcome

    def _attempt(self) -> Claimed | Refused | Unknown | None:
        """Return how the claim ended, or None to try again."""
        url = f'/allocations/{self._consumer}'
        answer = ask(
            self._adapter, self._context, 'PUT', url, self._version, self._body()
        )
        if isinstance(answer, NoAnswer):
            if answer.sent:
                return self._look(answer.text)
            if not self._unreached:
                self._unreached = True
                return None
            return self._refused(0, answer.text)
        if answer.status_code == 204:
            return self._claimed()
        return self._not_saved(answer)

    def _not_saved(
        self, answer: requests.Response
    ) -> Claimed | Refused | Unknown | None:
        status, text = answer.status_code, answer.text
        changed = what_changed(answer)
        # Whoever holds something already, such as an evacuated server, starts so.
        expected = changed == 'consumer' and not self._conflicted
        LOG.log(
            logging.DEBUG if expected else logging.WARNING,
            'Failed to save allocation for %s. Got HTTP %s: %s',
            self._consumer,
            status,
            text,
        )
        if status in GATEWAY_LOST_IT:
            return self._look(text)
        if status >= 500:
            return self._settle(status, text)
        if changed == 'consumer':
            return self._reread(text)
        if changed == 'provider' and not self._busy:
            LOG.debug('Unable to claim_resources because %s; retrying...', text)
            self._busy = True
            return None
        return self._refused(status, text, exhausted(answer))

    def _body(self) -> dict[str, Any]:
        body = {**self._candidate, 'allocations': self._wanted()}
        if self._held.allocations:
            # They would name the wrong providers for what was held before.
            body.pop('mappings', None)
        return {**body, **self._owner, 'consumer_generation': self._held.generation}

    def _wanted(self) -> dict[str, Any]:
        """What is held already stays as it is; the candidate adds providers."""
        held = self._held.body() or {'allocations': {}}
        return {**self._candidate['allocations'], **held['allocations']}

    def _reread(self, text: str) -> Claimed | Refused | Unknown | None:
        """Learn what the consumer holds, after placement said: not what you think."""
        held = held_by(self._adapter, self._context, self._consumer)
        if isinstance(held, QueryFailed):
            return self._unknown(text) if self._lost else Refused(409, text)
        ours = held.allocations == amounts(self._wanted())
        if ours and (self._lost or self._resent):
            return self._claimed()
        if self._conflicted:
            raise errors.AllocationUpdateFailed(
                self._consumer,
                f'another process changed the consumer {self._consumer} after the '
                'report client read the consumer state during the claim ',
            )
        self._conflicted = True
        self._held = held
        return None

    def _look(self, text: str) -> Claimed | Unknown | None:
        """Find out whether placement took a claim that it did not answer.

        Where it did not (yet), the claim is sent again: the generation lets only
        one of the two through, whenever they arrive.
        """
        held = held_by(self._adapter, self._context, self._consumer, LOOKUP_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            return self._unknown(text)
        if held.allocations == amounts(self._wanted()):
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        self._lost_generation = self._held.generation
        self._held = held
        return None

    def _settle(self, status: int, text: str) -> Claimed | Refused | Unknown:
        """Find out whether placement, or what is in front of it, failed too late."""
        held = held_by(self._adapter, self._context, self._consumer, LOOKUP_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            return self._unknown(text)
        if held.allocations == amounts(self._wanted()):
            return self._claimed()
        return self._refused(status, text)

    def _claimed(self) -> Claimed:
        return Claimed(self._consumer, self._held.body(), amounts(self._wanted()))

    def _refused(
        self, status: int, text: str, exhausted: tuple[str, str] | None = None
    ) -> Refused | Unknown:
        """After a lost attempt, only placement's own word is a refusal, and only where
        the generation of the consumer bars the lost one, should it arrive yet."""
        may_arrive = self._held.generation == self._lost_generation
        if self._lost and (may_arrive or not 400 <= status < 500):
            return self._unknown(text)
        return Refused(status, text, exhausted)

    def _unknown(self, text: str) -> Unknown:
        wanted = amounts(self._wanted())
        return Unsettled(self._consumer, text, self._held.body(), wanted)


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


def what_changed(answer: requests.Response) -> str | None:
    """Return what changed meanwhile, consumer or provider; None for other errors."""
    try:
        error = json.loads(answer.content)['errors'][0]
        if error['code'] != 'placement.concurrent_update':
            return None
        if 'consumer generation conflict' in error['detail']:
            return 'consumer'
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return 'provider'


def exhausted(answer: requests.Response) -> tuple[str, str] | None:
    """Return the provider and the class that have no room, if that is the reason."""
    found = _EXHAUSTED.search(answer.text) if answer.status_code == 409 else None
    return (found[2], found[1]) if found else None
