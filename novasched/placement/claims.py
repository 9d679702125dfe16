# SPDX-License-Identifier: Apache-2.0
"""Claims: allocations of candidates, sent again until their outcome is known.

A claim is optimistic: it is sent as for consumers that hold nothing. What a consumer
holds is read only when placement says that it holds something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    LOOKUP_TIMEOUT_S,
    NOTHING,
    ConsumerAllocations,
    amounts,
    generation_after,
    held_by,
    what_changed,
)
from novasched.placement.session import NoAnswer, ask
from novasched.placement.writes import AllocationWrites, exhausted
from novasched.ports import (
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
)
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Check, never

LOG = logging.getLogger(__name__)

# A gateway that gave up on placement says nothing about what placement does, nor does
# one that answers with a page.
GATEWAY_LOST_IT = (502, 504)

OnHeld = Callable[[str, Mapping[str, Any] | None, int | None], None]
"""Callback: gets what a consumer holds already, and its generation, before more is
claimed for it."""

Owner = Mapping[str, str | None]
"""Project and user of a consumer, as placement names them."""

Outcome = Sequence[Claimed | ClaimUnknown] | ClaimRefused


class JointClaim:
    """A claim by one POST for consumers that are taken to hold nothing.

    An attempt may be lost, not sent, or fail as a consumer or provider changed. Each
    may happen once: a claim ends soon, without sleep. After a server error a lookup
    decides. After a lost answer, only a claim that cannot arrive any more counts as
    refused.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        owner: Owner,
        is_quiet: bool = False,
    ) -> None:
        self._adapter = adapter
        self._context = context
        self._is_quiet = is_quiet
        self._wanted = wanted
        self._version = version
        self._owner = owner
        self._held = NOTHING
        self._lost = False
        self._lost_generation: int | None = None
        # keystoneauth1 may send again what was lost, without saying so.
        self._resent = bool(adapter.connect_retries or adapter.status_code_retries)
        self._busy = False
        self._unreached = False
        self._began_s = SYSTEM_CLOCK.monotonic()

    def run(self) -> Outcome:
        """Claim. Raises errors.AllocationUpdateFailed where _reread() does."""
        outcome = None
        while outcome is None:
            outcome = self._attempt()
        return outcome

    def _attempt(self) -> Outcome | None:
        """Return how the claim ended, or None to try again."""
        answer = self._send()
        if isinstance(answer, NoAnswer):
            if answer.sent:
                return self._look(answer.text)
            if self._unreached:
                refused = ClaimRefused(
                    0, answer.text, is_unavailable=answer.is_unavailable
                )
                return self._refused(refused)
            self._unreached = True
            return None
        if answer.status_code == 204:
            return self._claimed()
        return self._not_saved(answer)

    def _not_saved(self, answer: requests.Response) -> Outcome | None:
        changed = what_changed(answer)
        refused = ClaimRefused(
            answer.status_code,
            http.excerpt(answer),
            exhausted(answer),
            conflicted=changed == 'provider',
            is_unavailable=http.has_failed(answer),
        )
        self._log(refused, changed)
        if refused.status in GATEWAY_LOST_IT or refused.status < http.REFUSED:
            return self._look(refused.text)
        if refused.status >= 500:
            return self._failed(refused)
        if changed == 'consumer':
            return self._reread(refused)
        if changed == 'provider' and not self._busy:
            LOG.debug('Unable to claim_resources because %s; retrying...', refused.text)
            self._busy = True
            return None
        return self._refused(refused)

    def _failed(self, refused: ClaimRefused) -> Outcome | None:
        # Placement takes all or none: one consumer speaks for all.
        return self._settle(refused, self._is_held(self._wanted[0]))

    def _settle(self, refused: ClaimRefused, is_made: bool | None) -> Outcome:
        """Return the outcome of a refused claim, unknown if ``is_made`` is None."""
        if is_made is None:
            return self._unknown(refused.text)
        return self._claimed() if is_made else self._refused(refused)

    @property
    def _may_be_ours(self) -> bool:
        """Whether what a consumer holds may be a claim of ours that got no answer."""
        return self._lost or self._resent

    def _send(self) -> requests.Response | NoAnswer:
        """Ask placement for the claim, as the consumers are known now."""
        return ask(
            self._adapter,
            self._context,
            'POST',
            '/allocations',
            self._version,
            {one.consumer_uuid: self._body(one) for one in self._wanted},
            is_quiet=self._is_quiet,
        )

    def _log(self, refused: ClaimRefused, changed: str | None) -> None:
        LOG.debug(
            'Allocations of %d instances were not saved together. Got HTTP %s: %s',
            len(self._wanted),
            refused.status,
            refused.text,
        )

    def _look(self, text: str) -> Outcome | None:
        """Find out whether placement took a claim that it did not answer.

        Where it did not (yet), the claim is sent again: the generations let only
        one of the two through, whenever they arrive.
        """
        if self._are_all_held():
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        return None

    def _reread(self, refused: ClaimRefused) -> Outcome | None:
        """Learn what the consumer holds, after placement said: not what you think."""
        return self._settle(refused, self._may_be_ours and self._are_all_held())

    def _are_all_held(self) -> bool | None:
        """Return whether every consumer holds what was asked for, or None if unknown.

        They are asked one after another, only until one does not, and for no longer
        than LOOKUP_TIMEOUT_S in all.
        """
        until = SYSTEM_CLOCK.monotonic() + LOOKUP_TIMEOUT_S
        for one in self._wanted:
            left_s = until - SYSTEM_CLOCK.monotonic()
            if left_s <= 0:
                return None
            if not (is_held := self._is_held(one, left_s)):
                return is_held
        return True

    def _is_held(
        self, one: ClaimRequest, timeout_s: float = LOOKUP_TIMEOUT_S
    ) -> bool | None:
        """Return whether a consumer holds what was asked for, or None if unknown."""
        held = held_by(self._adapter, self._context, one.consumer_uuid, timeout_s)
        return None if isinstance(held, QueryFailed) else self._is_made(one, held)

    def _is_made(self, one: ClaimRequest, held: ConsumerAllocations) -> bool:
        """Return whether a consumer holds what was asked for, written once."""
        generation = generation_after(self._held.generation)
        return held.is_exactly(amounts(self._allocations(one)), generation)

    def _allocations(self, one: ClaimRequest) -> dict[str, Any]:
        """What is held already stays as it is; the candidate adds providers."""
        held = self._held.body() or {'allocations': {}}
        return {**one.candidate['allocations'], **held['allocations']}

    def _body(self, one: ClaimRequest) -> dict[str, Any]:
        body = {**one.candidate, 'allocations': self._allocations(one)}
        if self._held.allocations:
            # They would name the wrong providers for what was held before.
            body.pop('mappings', None)
        return {**body, **self._owner, 'consumer_generation': self._held.generation}

    def _undo(self) -> dict[str, Any]:
        before = self._held.body() or {'allocations': {}, **self._owner}
        generation = generation_after(self._held.generation)
        return {**before, 'consumer_generation': generation}

    def _claimed(self) -> Outcome:
        undo, by_s = self._undo(), SYSTEM_CLOCK.monotonic()
        return [
            Claimed(one.consumer_uuid, undo, amounts(self._allocations(one)), by_s)
            for one in self._wanted
        ]

    def _refused(self, refused: ClaimRefused) -> Outcome:
        """Return the refusal, or an unknown outcome if a lost attempt may still arrive.

        After a lost attempt only a refusal by placement itself counts, and only if the
        consumer's generation bars the lost attempt.
        """
        may_arrive = self._held.generation == self._lost_generation
        if self._lost and (may_arrive or not 400 <= refused.status < 500):
            return self._unknown(refused.text)
        return refused

    def _unknown(self, text: str) -> Outcome:
        undo, by_s = self._undo(), SYSTEM_CLOCK.monotonic()
        return [
            ClaimUnknown(
                one.consumer_uuid,
                text,
                amounts(self._allocations(one)),
                undo,
                by_s,
                self._began_s,
            )
            for one in self._wanted
        ]


class ConsumerClaim(JointClaim):
    """A claim by a PUT for one consumer, which may hold something already.

    ``writes`` may send it with other claims; ``check`` is called if it waits. Only a
    claim that ``adds`` may be added to what the consumer holds. Otherwise the request
    was delivered twice, or an earlier claim was left behind: the server must not hold
    two hosts.
    """

    def __init__(
        self,
        adapter: Adapter,
        writes: AllocationWrites,
        context: RequestContext,
        wanted: ClaimRequest,
        version: str,
        owner: Owner,
        on_held: OnHeld | None = None,
        adds: bool = False,
        is_quiet: bool = False,
        check: Check = never,
    ) -> None:
        super().__init__(adapter, context, [wanted], version, owner, is_quiet)
        self._writes = writes
        self._check = check
        # A server that moves may hold something: its first attempt is refused then.
        self._is_alone = adds
        self._is_shared = False
        self._one = wanted
        self._consumer = wanted.consumer_uuid
        self._on_held = on_held
        self._adds = adds
        self._conflicted = False

    def _send(self) -> requests.Response | NoAnswer:
        written = self._writes.put(
            self._context,
            self._consumer,
            self._body(self._one),
            self._version,
            is_alone=self._is_alone,
            is_quiet=self._is_quiet,
            # A claim that was lost may be written already.
            check=never if self._lost else self._check,
        )
        self._is_shared = written.is_shared
        return written.answer

    def _failed(self, refused: ClaimRefused) -> Outcome | None:
        """The server failed on one of the claims that went together, or on all: each
        that was not made goes once more, alone."""
        is_made = self._is_held(self._one)
        if self._is_shared and is_made is False:
            self._is_alone = self._resent = True  # it may be made late, all the same
            return None
        return self._settle(refused, is_made)

    def _log(self, refused: ClaimRefused, changed: str | None) -> None:
        # A consumer that holds something, such as an evacuated server, starts so.
        expected = changed == 'consumer' and not self._conflicted
        expected = expected or (refused.is_unavailable and self._is_quiet)
        LOG.log(
            logging.DEBUG if expected else logging.WARNING,
            'Failed to save allocation for %s. Got HTTP %s: %s',
            self._consumer,
            refused.status,
            refused.text,
        )

    def _look(self, text: str) -> Outcome | None:
        held = held_by(self._adapter, self._context, self._consumer, LOOKUP_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            return self._unknown(text)
        if self._is_made(self._one, held):
            return self._claimed()
        # What it holds of another claim may be undone before the lost one arrives.
        if self._lost or (held.allocations and not self._adds):
            return self._unknown(text)
        self._lost = self._is_alone = True
        self._lost_generation = self._held.generation
        self._learn(held)
        return None

    def _reread(self, refused: ClaimRefused) -> Outcome | None:
        held = held_by(self._adapter, self._context, self._consumer)
        if isinstance(held, QueryFailed):
            return self._unknown(refused.text) if self._may_be_ours else refused
        if self._is_made(self._one, held) and self._may_be_ours:
            return self._claimed()
        if self._lost and held.allocations and not self._adds:  # see _look()
            return self._unknown(refused.text)
        self._learn(held)
        if self._conflicted and self._lost:  # the lost one may be written just now
            return self._unknown(refused.text)
        if self._conflicted:
            raise errors.AllocationUpdateFailed(
                self._consumer,
                f'another process changed the consumer {self._consumer} after the '
                'report client read the consumer state during the claim ',
            )
        self._conflicted = True
        self._is_alone = self._lost
        return None

    def _learn(self, held: ConsumerAllocations) -> None:
        if held.allocations and not self._adds:
            raise errors.AlreadyClaimed(
                self._consumer,
                'it holds allocations already, and this request is no move: it was '
                'delivered twice, or an earlier claim was left behind. Look at them '
                f'with: openstack resource provider allocation show {self._consumer}',
            )
        self._held = held
        if self._on_held is not None:
            self._on_held(self._consumer, held.body(), held.generation)
