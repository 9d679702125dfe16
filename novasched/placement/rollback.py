# SPDX-License-Identifier: Apache-2.0
"""Rollback of claims: each exactly as it was made, or not at all.

A claim is known by what its consumer holds, by the generation that its 204 implied, and
by the time of that write. None is enough alone. A repeated move takes the same amounts
on the same host, a recreated consumer has the same generation, and times are whole
seconds. So a look comes before each undo, and placement refuses the undo if another
process has written the consumer since.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.objects import context as contexts
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    AGE_PRECISION_S,
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
from novasched.placement.writes import LEAST_TIMEOUT_S, AllocationWrites
from novasched.ports import (
    MAY_ARRIVE,
    STANDS,
    Claimed,
    ClaimUnknown,
    QueryFailed,
    UndoLeft,
    UndoOutcome,
    UndoUnanswered,
)
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

TOGETHER = 20
"""Claims that are undone by one POST.

Placement starts again when any of their providers changes meanwhile. On a busy machine,
with 300 hosts and four clients that made ten claims a second, POSTs of 100 took
over 10 s. Most of them failed; of a dozen POSTs of 42, one did.
"""
TRIES = 2
"""How often a request is sent that placement fails to answer or to carry out."""
CONFLICT_TRIES = 10
"""How often one for a single consumer is sent, as others change its providers."""
SOON_S = 30.0
"""So soon after a claim nobody has removed it and made the same again."""
RECOVERY_TIMEOUT_S = 10.0
KEPT = 'Another process wrote the allocations of %s; kept'
CLAIMED_AGAIN = 'the same was claimed again since, or clocks of placement differ'
NO_TIME = 'there is no time left to undo it'
AGE_UNCERTAIN = 'placement took too long to say since when the claim stands'


class Rollback:
    """Undoes the claims of one request.

    Up to TOGETHER are undone by one POST: placement takes all or none. A refused batch
    is split in half; after a provider conflict, later batches are halved too. Nothing
    is sent after ``within_s``, nor once placement has twice not answered. ``left``
    names the consumers that may still hold a claim, and why.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        within_s: float,
        keeps_unknown: bool = False,
        writes: AllocationWrites | None = None,
    ) -> None:
        self._adapter = adapter
        self._writes = writes or AllocationWrites(adapter)
        self._context = context
        self._keeps_unknown = keeps_unknown
        self._until = SYSTEM_CLOCK.monotonic() + within_s
        self._silent: str | None = None
        self._together = TOGETHER
        self._is_alone = False
        self.left = UndoLeft()

    def undo(self, claims: Sequence[Claimed | ClaimUnknown]) -> None:
        """Bring the consumers back to what they held before the claims.

        A claim that got no answer may still arrive where its consumer holds nothing:
        nothing bars it, as a consumer without allocations has no generation. What a
        consumer got since that claim was sent may belong to another delivery. In both
        cases no other host may be claimed.
        """
        self._undo([claim for claim in claims if isinstance(claim, Claimed)])
        self._undo_unknown(
            [claim for claim in claims if isinstance(claim, ClaimUnknown)]
        )

    def _undo(self, claims: Sequence[Claimed]) -> None:
        if len(claims) > self._together:
            return self._undo_parts(claims, self._together)
        if not claims:
            return None
        answer: requests.Response | NoAnswer | None = None
        for sent in self._tries(CONFLICT_TRIES):
            # Conflicts take time: somebody may have written a consumer meanwhile.
            claims = self._still_ours(claims, isinstance(answer, NoAnswer))
            if not claims:
                return None
            answer = self._ask(claims)
            if _is_unsure(answer):
                self.left.unsure.update(claim.consumer_uuid for claim in claims)
            if sent >= _tries_worth(answer, len(claims)):
                break
        return self._undone(claims, answer)

    def _undone(
        self, claims: Sequence[Claimed], answer: requests.Response | NoAnswer | None
    ) -> None:
        """Take in the answer to an undo; undo parts, if it was refused as a whole."""
        consumers = ', '.join(claim.consumer_uuid for claim in claims)
        if answer is None or isinstance(answer, NoAnswer):
            self._leave(claims, self._silenced(answer))
        elif answer.status_code == 204:
            before = any(claim.undo['allocations'] for claim in claims)
            verb = 'Restored' if before else 'Deleted'
            LOG.info('%s allocations for instance %s', verb, consumers)
        elif len(claims) > 1:
            half = (len(claims) + 1) // 2
            if what_changed(answer) == 'provider':
                self._together = half
            self._undo_parts(claims, half)
        elif what_changed(answer) == 'consumer':
            LOG.info(KEPT, consumers)
        else:
            text = http.excerpt(answer)
            LOG.warning(
                'Unable to delete allocation for instance %s: (%s %s)',
                consumers,
                answer.status_code,
                text,
            )
            self._leave(claims, text)

    def _undo_parts(self, claims: Sequence[Claimed], size: int) -> None:
        for start in range(0, len(claims), size):
            self._undo(claims[start : start + size])

    def _still_ours(self, claims: Sequence[Claimed], lost: bool) -> list[Claimed]:
        """Return the claims that stand as they were made; those that cannot be read
        are left. ``lost``: they may be undone already."""
        ours = []
        for claim in claims:
            # An answer that is long in coming may show the age as it was before.
            elapsed_s = SYSTEM_CLOCK.monotonic() - claim.by_s
            held = self._held_by(claim.consumer_uuid)
            if isinstance(held, QueryFailed):
                self._leave([claim], held.text)
            elif not _is_of(claim, held):
                if not lost:
                    LOG.info(KEPT, claim.consumer_uuid)
            elif _is_later(held, elapsed_s):
                self._leave([claim], CLAIMED_AGAIN)
            else:
                ours.append(claim)
        return ours

    def _undo_unknown(self, claims: Sequence[ClaimUnknown]) -> None:
        """Undo what one request claimed: if one consumer holds its part, all do."""
        for claim in claims:
            generation = claim.undo['consumer_generation']
            before = amounts(claim.undo['allocations'])
            for _ in range(TRIES):
                held = self._held_by(claim.consumer_uuid)
                if isinstance(held, QueryFailed):
                    return self._leave(claims, held.text)
                if _is_of(claim, held):
                    if self._keeps_unknown:
                        made = [one for one in claims if one.by_s == claim.by_s]
                        self.left.standing += made
                        return self._leave(claims, STANDS)
                    return self._undo([one.as_claimed() for one in claims])
                if held is NOTHING:
                    return self._leave(claims, MAY_ARRIVE)
                if not held.is_exactly(before, generation - 1):
                    if self._keeps_unknown and not self._was_before(claim, held):
                        self._leave([claim], MAY_ARRIVE)
                    break
                if self._bar(claim):
                    return None
        return None

    def _was_before(self, claim: ClaimUnknown, held: ConsumerAllocations) -> bool:
        """Return whether a consumer held this before the claim was sent."""
        sent_s_ago = SYSTEM_CLOCK.monotonic() - claim.sent_s
        return held.age_s is not None and held.age_s > sent_s_ago + AGE_PRECISION_S

    def _bar(self, claim: ClaimUnknown) -> bool:
        """Write again what the consumer held: the new generation bars a late claim.

        Returns False if the late claim or another process has written it meanwhile.
        """
        generation = claim.undo['consumer_generation'] - 1
        body = {**claim.undo, 'consumer_generation': generation}
        barred = [Claimed(claim.consumer_uuid, body)]
        answer: requests.Response | NoAnswer | None = None
        for sent in self._tries(CONFLICT_TRIES):
            answer = self._ask(barred)
            if sent >= _tries_worth(answer, 1):
                break
        if answer is None or isinstance(answer, NoAnswer):
            self._leave([claim], self._silenced(answer))
        elif what_changed(answer) == 'consumer':
            return False
        elif answer.status_code != 204:
            self._leave([claim], http.excerpt(answer))
        return True

    def _ask(self, claims: Sequence[Claimed]) -> requests.Response | NoAnswer:
        """Ask placement once to undo all or none."""
        body = {claim.consumer_uuid: dict(claim.undo) for claim in claims}
        # The look before it may have taken the time: a moment is left to be answered.
        left_s = max(LEAST_TIMEOUT_S, self._left_s())
        if len(claims) == 1:
            ((consumer, undo),) = body.items()
            written = self._writes.put(
                self._context,
                consumer,
                undo,
                VERSION,
                within_s=left_s,
                is_alone=self._is_alone,
            )
            self._is_alone = written.is_shared  # if it must be sent once more
            return written.answer
        url = '/allocations'
        return ask(self._adapter, self._context, 'POST', url, VERSION, body, left_s)

    def _silenced(self, answer: NoAnswer | None) -> str:
        """Ask nothing more of a placement that does not answer; return why."""
        if answer is not None:
            self._silent = answer.text
        return self._silent or NO_TIME

    def _held_by(self, consumer_uuid: str) -> ConsumerAllocations | QueryFailed:
        failed = QueryFailed(0, self._silent or NO_TIME)
        for _ in self._tries():
            timeout_s = min(self._left_s(), LOOKUP_TIMEOUT_S)
            held = held_by(self._adapter, self._context, consumer_uuid, timeout_s)
            if isinstance(held, ConsumerAllocations):
                return held
            failed = held
        if failed.status == 0 and self._left_s() > 0:
            self._silent = failed.text
        return failed

    def _tries(self, most: int = TRIES) -> Iterator[int]:
        """Number the tries, until there is no time or placement does not answer."""
        for number in range(1, most + 1):
            if self._left_s() > 0 and not self._silent:
                yield number

    def _left_s(self) -> float:
        return self._until - SYSTEM_CLOCK.monotonic()

    def _leave(self, claims: Sequence[Claimed | ClaimUnknown], why: str) -> None:
        self.left.update((claim.consumer_uuid, why) for claim in claims)


def _is_unsure(answer: requests.Response | NoAnswer) -> bool:
    """Return whether what was sent may be carried out later; not where a gateway has no
    server for it."""
    if isinstance(answer, NoAnswer):
        return answer.sent
    status = answer.status_code
    is_known = http.is_refused(status) or status == requests.codes.no_content
    return not is_known and status != requests.codes.service_unavailable


def _is_later(held: ConsumerAllocations, elapsed_s: float) -> bool:
    """Return whether a consumer got what it holds after a claim, which was made so long
    ago. Soon after, that is not believed: clocks of placement may differ."""
    if held.age_s is None or elapsed_s < SOON_S:
        return False
    return held.age_s < elapsed_s - AGE_PRECISION_S


def _is_of(claim: Claimed | ClaimUnknown, held: ConsumerAllocations) -> bool:
    """Return whether a consumer holds exactly what was claimed, written once."""
    return held.is_exactly(claim.holds, claim.undo['consumer_generation'])


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
    clock: Clock = SYSTEM_CLOCK

    def stands(
        self, consumer_uuid: str, holds: Allocations, generation: int | None
    ) -> bool:
        return self._standing(consumer_uuid, holds, generation) is not None

    def undo(
        self,
        consumer_uuid: str,
        holds: Allocations,
        before: Mapping[str, Any] | None,
        generation: int | None,
        ages_s: tuple[float, float],
    ) -> UndoOutcome:
        began_s = self.clock.monotonic()
        held = self._standing(consumer_uuid, holds, generation)
        if held is None:
            return UndoOutcome.ABSENT
        is_between = _is_between(ages_s, held.age_s, self.clock.monotonic() - began_s)
        if is_between is None:
            raise UndoUnanswered(consumer_uuid, AGE_UNCERTAIN)
        if not is_between:
            return UndoOutcome.OTHER
        nothing: dict[str, Any] = {
            'allocations': {},
            'project_id': held.project_id,
            'user_id': held.user_id,
        }
        # The generation lets it through only if the consumer has not changed since.
        body = {**(before or nothing), 'consumer_generation': held.generation}
        answer = ask(
            self.adapter,
            contexts.admin(),
            'PUT',
            f'/allocations/{consumer_uuid}',
            VERSION,
            body,
            RECOVERY_TIMEOUT_S,
        )
        if isinstance(answer, NoAnswer):
            raise UndoUnanswered(consumer_uuid, answer.text)
        if answer.status_code not in (204, 409):
            raise errors.AllocationDeleteFailed(consumer_uuid, http.excerpt(answer))
        return UndoOutcome.UNDONE if answer.ok else UndoOutcome.CONFLICT

    def _standing(
        self,
        consumer_uuid: str,
        holds: Allocations,
        generation: int | None,
    ) -> ConsumerAllocations | None:
        """Return the allocations of a consumer if they are these, else None.

        A later claim of the same amounts, as of the same move made again, is in use.
        """
        admin = contexts.admin()
        held = held_by(self.adapter, admin, consumer_uuid, RECOVERY_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            kind = errors.AllocationDeleteFailed if held.status else UndoUnanswered
            raise kind(consumer_uuid, held.text)
        return held if held.is_exactly(holds, generation_after(generation)) else None


def _is_between(
    ages_s: tuple[float, float], age_s: float | None, waited_s: float
) -> bool | None:
    """Return whether an age is between two, which were known before its answer.

    It may be the age at any moment of the wait: None if it is one age or the other by
    that moment.
    """
    age_s = 0.0 if age_s is None else age_s
    least_s, most_s = ages_s[0] - AGE_PRECISION_S, ages_s[1] + AGE_PRECISION_S
    if least_s + waited_s <= age_s <= most_s:
        return True
    return None if least_s <= age_s <= most_s + waited_s else False


def claim_recovery(adapter: Adapter, clock: Clock = SYSTEM_CLOCK) -> ClaimRecovery:
    """Return recovery by an adapter that does not retry.

    Retries of keystoneauth1 would take longer than ``undo`` may.
    """
    once = copy.copy(adapter)
    once.connect_retries = once.status_code_retries = 0
    return ClaimRecovery(once, clock)
