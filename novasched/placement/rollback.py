# SPDX-License-Identifier: Apache-2.0
"""Rollback of claims: each with the generation that its 204 implied, or not at all.

Only the generation of its consumer says whose a claim is, never its amounts: the same
move made again takes the same amounts on the same host. Placement refuses an undo with
an old generation, so there is nothing to look up first, and nothing that another
process wrote is ever removed.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.objects import context as contexts
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    LOOKUP_TIMEOUT_S,
    NOTHING,
    VERSION,
    Allocations,
    ConsumerAllocations,
    amounts,
    generation_after,
    held_by,
    what_changed,
)
from novasched.placement.session import NoAnswer, ask
from novasched.ports import Claimed, ClaimUnknown, QueryFailed, UndoUnanswered

LOG = logging.getLogger(__name__)

UNDO_WITHIN_S = 30.0
TRIES = 2
"""How often a request is sent that placement fails to answer or to carry out."""
CONFLICT_TRIES = 10
"""How often one for a single consumer is sent, as others change its providers."""
RECOVERY_TIMEOUT_S = 10.0
MAY_ARRIVE = 'the claim was lost on its way, and may still arrive'
NO_TIME = 'there is no time left to undo it'


class Rollback:
    """Undoes the claims of one request.

    Several go by one POST, whatever their number: placement takes all or none. Where it
    takes none, they are halved: one which is not ours any more keeps no other from
    being undone, and others change fewer providers meanwhile. Nothing is sent after
    ``within_s``, nor once placement has twice not answered. ``left`` has the consumers
    of which nothing is known then, and why.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        within_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._adapter = adapter
        self._context = context
        self._clock = clock
        self._until = clock.monotonic() + within_s
        self._silent: str | None = None
        self.left: dict[str, str] = {}

    def undo(self, claims: Sequence[Claimed | ClaimUnknown]) -> None:
        """Bring the consumers back to what they held before the claims.

        Where a consumer held nothing before and holds nothing now, a claim that got no
        answer may still be on its way. Nothing bars it: a consumer without allocations
        has no generation. So no other host may be claimed for it after
        ``ClaimUnknown``.
        """
        self._undo([claim for claim in claims if isinstance(claim, Claimed)])
        self._undo_unknown(
            [claim for claim in claims if isinstance(claim, ClaimUnknown)]
        )

    def _undo(self, claims: Sequence[Claimed]) -> None:
        if not claims:
            return
        answer = self._send(claims)
        consumers = ', '.join(claim.consumer_uuid for claim in claims)
        if isinstance(answer, str):
            self._leave(claims, answer)
        elif answer.status_code == 204:
            before = any(claim.undo['allocations'] for claim in claims)
            verb = 'Restored' if before else 'Deleted'
            LOG.info('%s allocations for instance %s', verb, consumers)
        elif len(claims) > 1:
            middle = len(claims) // 2
            self._undo(claims[middle:])
            self._undo(claims[:middle])
        elif what_changed(answer) == 'consumer':
            LOG.info('Another process wrote the allocations of %s; kept', consumers)
        else:
            text = http.excerpt(answer)
            LOG.warning(
                'Unable to delete allocation for instance %s: (%s %s)',
                consumers,
                answer.status_code,
                text,
            )
            self._leave(claims, text)

    def _undo_unknown(self, claims: Sequence[ClaimUnknown]) -> None:
        """Undo what one request claimed: if one consumer holds its part, all do."""
        for claim in claims:
            generation = claim.undo['consumer_generation']
            before = amounts(claim.undo['allocations'])
            for _ in range(TRIES):
                held = self._held_by(claim.consumer_uuid)
                if isinstance(held, QueryFailed):
                    return self._leave(claims, held.text)
                if held.is_exactly(claim.holds, generation):
                    return self._undo([one.as_claimed() for one in claims])
                if held is NOTHING:
                    return self._leave(claims, MAY_ARRIVE)
                if not held.is_exactly(before, generation - 1):
                    break
                if self._bar(claim):
                    return None
        return None

    def _bar(self, claim: ClaimUnknown) -> bool:
        """Write again what the consumer held: the new generation bars a late claim.

        False: it was written meanwhile, by the late claim or by another process.
        """
        generation = claim.undo['consumer_generation'] - 1
        body = {**claim.undo, 'consumer_generation': generation}
        answer = self._send([Claimed(claim.consumer_uuid, body)])
        if isinstance(answer, str):
            self._leave([claim], answer)
        elif what_changed(answer) == 'consumer':
            return False
        elif answer.status_code != 204:
            self._leave([claim], http.excerpt(answer))
        return True

    def _send(self, claims: Sequence[Claimed]) -> requests.Response | str:
        """Ask placement to undo all or none; return its answer, or why there is none.

        What may succeed at a second time is tried once more.
        """
        method, url = 'POST', '/allocations'
        body = {claim.consumer_uuid: dict(claim.undo) for claim in claims}
        if len(claims) == 1:
            ((consumer, body),) = body.items()
            method, url = 'PUT', f'/allocations/{consumer}'
        answer: requests.Response | NoAnswer | None = None
        for sent, left_s in enumerate(self._tries(CONFLICT_TRIES), 1):
            answer = ask(
                self._adapter, self._context, method, url, VERSION, body, left_s
            )
            if sent >= _tries_worth(answer, len(claims)):
                break
        if answer is None:
            return self._silent or NO_TIME
        if isinstance(answer, NoAnswer):
            self._silent = answer.text
            return answer.text
        return answer

    def _held_by(self, consumer_uuid: str) -> ConsumerAllocations | QueryFailed:
        held = None
        for left_s in self._tries():
            timeout_s = min(left_s, LOOKUP_TIMEOUT_S)
            held = held_by(self._adapter, self._context, consumer_uuid, timeout_s)
            if isinstance(held, ConsumerAllocations):
                break
        return held or QueryFailed(0, self._silent or NO_TIME)

    def _tries(self, most: int = TRIES) -> Iterator[float]:
        """Yield the time that is left, for each try until placement does not answer."""
        for _ in range(most):
            left_s = self._until - self._clock.monotonic()
            if left_s > 0 and not self._silent:
                yield left_s

    def _leave(self, claims: Sequence[Claimed | ClaimUnknown], why: str) -> None:
        self.left.update((claim.consumer_uuid, why) for claim in claims)


def _tries_worth(answer: requests.Response | NoAnswer, consumers: int) -> int:
    """Return how often a request is sent that gets this answer."""
    if isinstance(answer, NoAnswer) or answer.status_code >= 500:
        return TRIES
    if answer.status_code == 409 and what_changed(answer) != 'consumer':
        # Placement itself has tried ten times: several conflict less when halved.
        return CONFLICT_TRIES if consumers == 1 else 1
    return 1


@dataclass(frozen=True)
class ClaimRecovery:
    """Undoes claims of killed workers exactly, or not. Satisfies journal.ClaimUndo."""

    adapter: Adapter

    def stands(
        self, consumer_uuid: str, holds: Allocations, generation: int | None
    ) -> bool:
        found = self._standing(consumer_uuid, holds, generation, RECOVERY_TIMEOUT_S)
        return found is not None

    def undo(
        self,
        consumer_uuid: str,
        holds: Allocations,
        before: Mapping[str, Any] | None,
        generation: int | None,
        left_s: Callable[[], float],
    ) -> bool:
        """False also where the consumer changed when placement heard of it."""
        if (seconds := left_s()) <= 0:
            return False
        timeout_s = min(RECOVERY_TIMEOUT_S, seconds)
        held = self._standing(consumer_uuid, holds, generation, timeout_s)
        # The answer may have taken all the time that was left.
        if held is None or (seconds := left_s()) <= 0:
            return False
        nothing: dict[str, Any] = {
            'allocations': {},
            'project_id': held.project_id,
            'user_id': held.user_id,
        }
        # The generation lets it through only if the consumer has not changed since.
        body = {**(before or nothing), 'consumer_generation': held.generation}
        url = f'/allocations/{consumer_uuid}'
        timeout_s = min(RECOVERY_TIMEOUT_S, seconds)
        answer = ask(
            self.adapter, contexts.admin(), 'PUT', url, VERSION, body, timeout_s
        )
        if isinstance(answer, NoAnswer):
            raise UndoUnanswered(consumer_uuid, answer.text)
        if answer.status_code not in (204, 409):
            raise errors.AllocationDeleteFailed(consumer_uuid, answer.text)
        return answer.status_code == 204

    def _standing(
        self,
        consumer_uuid: str,
        holds: Allocations,
        generation: int | None,
        timeout_s: float,
    ) -> ConsumerAllocations | None:
        """Return what a consumer holds if it is this; None: it is something else.

        A later claim of the same amounts, as of the same move made again, is in use.
        """
        held = held_by(self.adapter, contexts.admin(), consumer_uuid, timeout_s)
        if isinstance(held, QueryFailed):
            kind = errors.AllocationDeleteFailed if held.status else UndoUnanswered
            raise kind(consumer_uuid, held.text)
        return held if held.is_exactly(holds, generation_after(generation)) else None


def claim_recovery(adapter: Adapter) -> ClaimRecovery:
    """Return recovery by an adapter that does not retry.

    Retries of keystoneauth1 would take longer than ``undo`` may.
    """
    once = copy.copy(adapter)
    once.connect_retries = once.status_code_retries = 0
    return ClaimRecovery(once)
