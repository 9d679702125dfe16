# SPDX-License-Identifier: Apache-2.0
"""Claims of several consumers in one request to placement: all or none."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.allocations import amounts, generation_after, held_by
from novasched.placement.attempts import LOOKUP_TIMEOUT_S, Attempts
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import Claimed, QueryFailed, Refused, Unknown, Wanted

LOG = logging.getLogger(__name__)

Joint = Sequence[Claimed | Unknown] | Refused


class JointClaim(Attempts[Joint]):
    """A POST for consumers that are taken to hold nothing; see Attempts.

    Once an answer was lost, either all is claimed or nobody can tell: a request
    that is still on its way must meet nothing that was claimed otherwise.
    """

    def __init__(
        self,
        adapter: Adapter,
        context: RequestContext,
        wanted: Sequence[Wanted],
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
        where = self._adapter, self._context, 'POST', '/allocations'
        return ask(*where, self._version, body)

    def _tell(self, refused: Refused, changed: str | None) -> None:
        LOG.debug(
            'Allocations of %d instances were not saved together. Got HTTP %s: %s',
            len(self._wanted),
            refused.status,
            refused.text,
        )

    def _look(self, text: str) -> Joint | None:
        if self._all_hold():
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        return None

    def _reread(self, refused: Refused) -> Joint:
        holds = self._all_hold() if self._may_be_ours else False
        if holds is None:
            return self._unknown(refused.text)
        return self._claimed() if holds else self._refused(refused)

    def _all_hold(self) -> bool | None:
        """Say whether every consumer holds what was asked for; None: nobody can tell.

        They are asked one after another, only until one does not, and for no longer
        than LOOKUP_TIMEOUT_S in all.
        """
        until = time.monotonic() + LOOKUP_TIMEOUT_S
        for one in self._wanted:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            if not (holds := self._has(one, left_s)):
                return holds
        return True

    def _holds(self) -> bool | None:
        """Ask for one consumer, which tells it for all."""
        return self._has(self._wanted[0])

    def _has(self, one: Wanted, timeout_s: float = LOOKUP_TIMEOUT_S) -> bool | None:
        """Say whether a consumer holds what was asked for; None: nobody can tell."""
        held = held_by(self._adapter, self._context, one.consumer_uuid, timeout_s)
        if isinstance(held, QueryFailed):
            return None
        if held.generation != generation_after(None):
            return False
        return held.allocations == amounts(one.candidate['allocations'])

    def _claimed(self) -> Joint:
        undo = self._undo()
        return [Claimed(one.consumer_uuid, undo) for one in self._wanted]

    def _refused(self, refused: Refused) -> Joint:
        return self._unknown(refused.text) if self._lost else refused

    def _unknown(self, text: str) -> Joint:
        undo = self._undo()
        return [
            Unknown(
                one.consumer_uuid, text, amounts(one.candidate['allocations']), undo
            )
            for one in self._wanted
        ]

    def _undo(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {'allocations': {}, **self._owner}
        return {**nothing, 'consumer_generation': generation_after(None)}
