# SPDX-License-Identifier: Apache-2.0
"""Claims of several consumers in one request to placement: all or none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.allocations import amounts, held_by
from novasched.placement.claims import (
    GATEWAY_LOST_IT,
    LOOKUP_TIMEOUT_S,
    Unsettled,
    exhausted,
    what_changed,
)
from novasched.placement.exchange import NoAnswer, ask
from novasched.ports import Claimed, QueryFailed, Refused, Unknown, Wanted

LOG = logging.getLogger(__name__)

Outcome = Sequence[Claimed | Unknown] | Refused


class JointClaim:
    """One POST, and a few requests more where it does not settle the matter.

    It is sent as for consumers that hold nothing, and sent again once where its
    answer was lost, once where it could not be sent, and once where a provider changed
    meanwhile; it never sleeps.
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
        self._adapter = adapter
        self._context = context
        self._wanted = wanted
        self._version = version
        self._owner = {'project_id': project_id, 'user_id': user_id}
        self._lost = False
        # keystoneauth1 may send again what was lost, and not tell.
        self._resent = bool(adapter.connect_retries or adapter.status_code_retries)
        self._busy = False
        self._unreached = False

    def run(self) -> Outcome:
        """Claim for all."""
        outcome = None
        while outcome is None:
            outcome = self._attempt()
        return outcome

    def _attempt(self) -> Outcome | None:
        """Return how it ended, or None to try again."""
        answer = ask(
            self._adapter,
            self._context,
            'POST',
            '/allocations',
            self._version,
            self._body(),
        )
        if isinstance(answer, NoAnswer):
            if answer.sent:
                return self._look(answer.text)
            if not self._unreached:
                self._unreached = True
                return None
            return self._refused(Refused(0, answer.text))
        if answer.status_code == 204:
            return self._claimed()
        return self._not_saved(answer)

    def _not_saved(self, answer: requests.Response) -> Outcome | None:
        status, text = answer.status_code, answer.text
        LOG.debug(
            'Allocations of %d instances were not saved together. Got HTTP %s: %s',
            len(self._wanted),
            status,
            text,
        )
        if status in GATEWAY_LOST_IT:
            return self._look(text)
        if status >= 500:
            return self._settle(Refused(status, text))
        changed = what_changed(answer)
        if changed == 'consumer' and (self._lost or self._resent) and self._all_hold():
            return self._claimed()
        if changed == 'provider' and not self._busy:
            self._busy = True
            return None
        return self._refused(Refused(status, text, exhausted(answer)))

    def _body(self) -> dict[str, Any]:
        return {
            one.consumer_uuid: {
                **one.candidate,
                **self._owner,
                'consumer_generation': None,
            }
            for one in self._wanted
        }

    def _look(self, text: str) -> Outcome | None:
        """Find out whether placement took the claims that it did not answer.

        Where it did not (yet), they are sent again: the generations let only one
        of the two requests through, whenever they arrive.
        """
        if self._all_hold():
            return self._claimed()
        if self._lost:
            return self._unknown(text)
        self._lost = True
        return None

    def _all_hold(self) -> bool:
        """Say whether every consumer holds what was asked for; ask one after another
        only until one does not."""
        return all(self._holds(one) for one in self._wanted)

    def _settle(self, refused: Refused) -> Outcome:
        """Find out whether placement, or what is in front of it, failed only after
        the claims were made; one consumer tells it for all."""
        holds = self._holds(self._wanted[0])
        if holds is None:
            return self._unknown(refused.text)
        return self._claimed() if holds else self._refused(refused)

    def _holds(self, one: Wanted) -> bool | None:
        """Say whether a consumer holds what was asked for; None: nobody can tell."""
        held = held_by(
            self._adapter, self._context, one.consumer_uuid, LOOKUP_TIMEOUT_S
        )
        if isinstance(held, QueryFailed):
            return None
        return held.allocations == amounts(one.candidate['allocations'])

    def _claimed(self) -> Outcome:
        return [
            Claimed(one.consumer_uuid, None, amounts(one.candidate['allocations']))
            for one in self._wanted
        ]

    def _refused(self, refused: Refused) -> Outcome:
        return self._unknown(refused.text) if self._lost else refused

    def _unknown(self, text: str) -> Outcome:
        return [
            Unsettled(
                one.consumer_uuid, text, None, amounts(one.candidate['allocations'])
            )
            for one in self._wanted
        ]
