# SPDX-License-Identifier: Apache-2.0
"""Claims: allocations of a candidate for one consumer, or for several at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    NOTHING,
    ConsumerAllocations,
    amounts,
    generation_after,
    held_by,
)
from novasched.placement.claim_retry import LOOKUP_TIMEOUT_S, ClaimRetry
from novasched.placement.http import NoAnswer, ask
from novasched.ports import (
    Candidate,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
)

LOG = logging.getLogger(__name__)

OnHeld = Callable[[str, Mapping[str, Any] | None, int | None], None]
"""Callback: gets what a consumer holds already, and its generation, before more is
claimed for it."""


def ignore_held(
    consumer_uuid: str, before: Mapping[str, Any] | None, generation: int | None
) -> None:
    """Do nothing; the default callback."""


ClaimOutcome = Claimed | ClaimRefused | ClaimUnknown


class ConsumerClaim(ClaimRetry[ClaimOutcome]):
    """A PUT for one consumer, which may hold something already; see ClaimRetry.

    Only a claim that ``adds`` may be added to that. For any other it says that the
    request was delivered twice, or that an earlier claim was left behind: the server
    must not hold two hosts.
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
        on_held: OnHeld = ignore_held,
        adds: bool = False,
    ) -> None:
        super().__init__(adapter)
        self._on_held = on_held
        self._adds = adds
        self._context = context
        self._consumer = consumer_uuid
        self._candidate = candidate
        self._version = version
        self._owner = {'project_id': project_id, 'user_id': user_id}
        self._held = NOTHING
        self._lost_generation: int | None = None
        self._conflicted = False

    def _send(self) -> requests.Response | NoAnswer:
        return ask(
            self._adapter,
            self._context,
            'PUT',
            f'/allocations/{self._consumer}',
            self._version,
            self._body(),
        )

    def _tell(self, refused: ClaimRefused, changed: str | None) -> None:
        # A consumer that holds something, such as an evacuated server, starts so.
        expected = changed == 'consumer' and not self._conflicted
        LOG.log(
            logging.DEBUG if expected else logging.WARNING,
            'Failed to save allocation for %s. Got HTTP %s: %s',
            self._consumer,
            refused.status,
            refused.text,
        )

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

    def _reread(self, refused: ClaimRefused) -> ClaimOutcome | None:
        held = held_by(self._adapter, self._context, self._consumer)
        if isinstance(held, QueryFailed):
            return self._unknown(refused.text) if self._may_be_ours else refused
        if self._is_made(held) and self._may_be_ours:
            return self._claimed()
        if self._conflicted:
            raise errors.AllocationUpdateFailed(
                self._consumer,
                f'another process changed the consumer {self._consumer} after the '
                'report client read the consumer state during the claim ',
            )
        self._conflicted = True
        self._learn(held)
        return None

    def _look(self, text: str) -> ClaimOutcome | None:
        held = held_by(self._adapter, self._context, self._consumer, LOOKUP_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            return self._unknown(text)
        if self._is_made(held):
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        self._lost_generation = self._held.generation
        self._learn(held)
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
        self._on_held(self._consumer, held.body(), held.generation)

    def _holds(self) -> bool | None:
        held = held_by(self._adapter, self._context, self._consumer, LOOKUP_TIMEOUT_S)
        if isinstance(held, QueryFailed):
            return None
        return self._is_made(held)

    def _is_made(self, held: ConsumerAllocations) -> bool:
        """Say whether the consumer holds what was asked for, written once."""
        if held.generation != generation_after(self._held.generation):
            return False
        return held.allocations == amounts(self._wanted())

    def _undo(self) -> dict[str, Any]:
        before = self._held.body() or {'allocations': {}, **self._owner}
        generation = generation_after(self._held.generation)
        return {**before, 'consumer_generation': generation}

    def _claimed(self) -> ClaimOutcome:
        return Claimed(self._consumer, self._undo())

    def _refused(self, refused: ClaimRefused) -> ClaimOutcome:
        """After a lost attempt, only placement's own word is a refusal, and only where
        the generation of the consumer bars the lost one, should it arrive yet."""
        may_arrive = self._held.generation == self._lost_generation
        if self._lost and (may_arrive or not 400 <= refused.status < 500):
            return self._unknown(refused.text)
        return refused

    def _unknown(self, text: str) -> ClaimOutcome:
        return ClaimUnknown(self._consumer, text, amounts(self._wanted()), self._undo())


JointOutcome = Sequence[Claimed | ClaimUnknown] | ClaimRefused


class JointClaim(ClaimRetry[JointOutcome]):
    """A POST for consumers that are taken to hold nothing; see ClaimRetry.

    Once an answer was lost, the outcome is either claimed or unknown: a request
    that is still on its way must meet nothing that was claimed otherwise.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> None:
        super().__init__(adapter)
        self._context = context
        self._wanted = wanted
        self._version = version
        self._owner = {'project_id': project_id, 'user_id': user_id}

    def _send(self) -> requests.Response | NoAnswer:
        fixed = {**self._owner, 'consumer_generation': None}
        body = {one.consumer_uuid: {**one.candidate, **fixed} for one in self._wanted}
        return ask(
            self._adapter, self._context, 'POST', '/allocations', self._version, body
        )

    def _tell(self, refused: ClaimRefused, changed: str | None) -> None:
        LOG.debug(
            'Allocations of %d instances were not saved together. Got HTTP %s: %s',
            len(self._wanted),
            refused.status,
            refused.text,
        )

    def _look(self, text: str) -> JointOutcome | None:
        if self._all_hold():
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        return None

    def _reread(self, refused: ClaimRefused) -> JointOutcome:
        holds = self._all_hold() if self._may_be_ours else False
        if holds is None:
            return self._unknown(refused.text)
        return self._claimed() if holds else self._refused(refused)

    def _all_hold(self) -> bool | None:
        """Say whether every consumer holds what was asked for; None: unknown.

        They are asked one after another, only until one does not, and for no longer
        than LOOKUP_TIMEOUT_S in all.
        """
        until = SYSTEM_CLOCK.monotonic() + LOOKUP_TIMEOUT_S
        for one in self._wanted:
            left_s = until - SYSTEM_CLOCK.monotonic()
            if left_s <= 0:
                return None
            if not (holds := self._has(one, left_s)):
                return holds
        return True

    def _holds(self) -> bool | None:
        """Ask for one consumer: placement takes all or none."""
        return self._has(self._wanted[0])

    def _has(
        self, one: ClaimRequest, timeout_s: float = LOOKUP_TIMEOUT_S
    ) -> bool | None:
        """Say whether a consumer holds what was asked for; None: unknown."""
        held = held_by(self._adapter, self._context, one.consumer_uuid, timeout_s)
        if isinstance(held, QueryFailed):
            return None
        if held.generation != generation_after(None):
            return False
        return held.allocations == amounts(one.candidate['allocations'])

    def _claimed(self) -> JointOutcome:
        undo = self._undo()
        return [Claimed(one.consumer_uuid, undo) for one in self._wanted]

    def _refused(self, refused: ClaimRefused) -> JointOutcome:
        return self._unknown(refused.text) if self._lost else refused

    def _unknown(self, text: str) -> JointOutcome:
        undo = self._undo()
        return [
            ClaimUnknown(
                one.consumer_uuid, text, amounts(one.candidate['allocations']), undo
            )
            for one in self._wanted
        ]

    def _undo(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {'allocations': {}, **self._owner}
        return {**nothing, 'consumer_generation': generation_after(None)}
