# SPDX-License-Identifier: Apache-2.0
"""Claims: giving a consumer what a candidate names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement.allocations import (
    NOTHING,
    Held,
    amounts,
    generation_after,
    held_by,
)
from novasched.placement.attempts import LOOKUP_TIMEOUT_S, Attempts
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import Candidate, Claimed, QueryFailed, Refused, Unknown

LOG = logging.getLogger(__name__)

OnHeld = Callable[[str, Mapping[str, Any] | None, int | None], None]
"""Is told what a consumer holds already, and its generation, before more is claimed
for it."""


def untold(
    consumer_uuid: str, before: Mapping[str, Any] | None, generation: int | None
) -> None:
    """Do nothing with it."""


Outcome = Claimed | Refused | Unknown


class Claim(Attempts[Outcome]):
    """A PUT for one consumer, which may hold something already; see Attempts.

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
        on_held: OnHeld = untold,
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
        where = self._adapter, self._context, 'PUT', f'/allocations/{self._consumer}'
        return ask(*where, self._version, self._body())

    def _tell(self, refused: Refused, changed: str | None) -> None:
        # Whoever holds something already, such as an evacuated server, starts so.
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

    def _reread(self, refused: Refused) -> Outcome | None:
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

    def _look(self, text: str) -> Outcome | None:
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

    def _learn(self, held: Held) -> None:
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

    def _is_made(self, held: Held) -> bool:
        """Say whether the consumer holds what was asked for, written once."""
        if held.generation != generation_after(self._held.generation):
            return False
        return held.allocations == amounts(self._wanted())

    def _undo(self) -> dict[str, Any]:
        before = self._held.body() or {'allocations': {}, **self._owner}
        generation = generation_after(self._held.generation)
        return {**before, 'consumer_generation': generation}

    def _claimed(self) -> Outcome:
        return Claimed(self._consumer, self._undo())

    def _refused(self, refused: Refused) -> Outcome:
        """After a lost attempt, only placement's own word is a refusal, and only where
        the generation of the consumer bars the lost one, should it arrive yet."""
        may_arrive = self._held.generation == self._lost_generation
        if self._lost and (may_arrive or not 400 <= refused.status < 500):
            return self._unknown(refused.text)
        return refused

    def _unknown(self, text: str) -> Outcome:
        return Unknown(self._consumer, text, amounts(self._wanted()), self._undo())
