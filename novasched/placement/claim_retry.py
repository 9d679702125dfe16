# SPDX-License-Identifier: Apache-2.0
"""Retries of a claim, until its outcome is known.

A claim is optimistic: it is sent as for a consumer that holds nothing, and
what the consumer holds is read only when placement says that this is wrong.
"""

from __future__ import annotations

import abc
import logging
import re
from typing import Generic, TypeVar

import requests
from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.placement.http import NoAnswer
from novasched.ports import ClaimRefused

LOG = logging.getLogger(__name__)

LOOKUP_TIMEOUT_S = 10.0

# A gateway that gave up on placement says nothing about what placement does.
GATEWAY_LOST_IT = (502, 504)

_EXHAUSTED = re.compile(
    r"allocation for '(\w+)' on resource provider '([^']+)'. The requested amount "
    'would exceed the capacity'
)

Outcome = TypeVar('Outcome')


class ClaimRetry(abc.ABC, Generic[Outcome]):
    """One claim under way: a request, and a few more where one does not settle it.

    Every attempt but the last counts as one of: lost (no answer), conflict (a consumer
    is not what we thought), busy (a provider changed meanwhile) or unreached (it was
    not sent). Each may happen once, so that a claim ends soon and never sleeps. After
    an error of the server, what the consumer holds says whether placement took the
    claim before it failed.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lost = False
        # keystoneauth1 may send again what was lost, without saying so.
        self._resent = bool(adapter.connect_retries or adapter.status_code_retries)
        self._busy = False
        self._unreached = False

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
                return self._refused(ClaimRefused(0, answer.text))
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
        )
        self._tell(refused, changed)
        if refused.status in GATEWAY_LOST_IT:
            return self._look(refused.text)
        if refused.status >= 500:
            return self._settle(refused)
        if changed == 'consumer':
            return self._reread(refused)
        if changed == 'provider' and not self._busy:
            LOG.debug('Unable to claim_resources because %s; retrying...', refused.text)
            self._busy = True
            return None
        return self._refused(refused)

    def _settle(self, refused: ClaimRefused) -> Outcome:
        """Find out whether placement, or what is in front of it, failed too late."""
        holds = self._holds()
        if holds is None:
            return self._unknown(refused.text)
        return self._claimed() if holds else self._refused(refused)

    @property
    def _may_be_ours(self) -> bool:
        """Whether what a consumer holds may be a claim of ours that got no answer."""
        return self._lost or self._resent

    @abc.abstractmethod
    def _send(self) -> requests.Response | NoAnswer:
        """Ask placement for the claim, as the consumers are known now."""

    @abc.abstractmethod
    def _tell(self, refused: ClaimRefused, changed: str | None) -> None:
        """Log that the claim was not saved; see what_changed()."""

    @abc.abstractmethod
    def _look(self, text: str) -> Outcome | None:
        """Find out whether placement took a claim that it did not answer.

        Where it did not (yet), the claim is sent again: the generations let only
        one of the two through, whenever they arrive.
        """

    @abc.abstractmethod
    def _reread(self, refused: ClaimRefused) -> Outcome | None:
        """Learn what the consumer holds, after placement said: not what you think."""

    @abc.abstractmethod
    def _holds(self) -> bool | None:
        """Return whether what was asked for is held; None: unknown."""

    @abc.abstractmethod
    def _claimed(self) -> Outcome:
        """Return that the claim was made."""

    @abc.abstractmethod
    def _refused(self, refused: ClaimRefused) -> Outcome:
        """Return that it was not, unless a lost one may arrive yet."""

    @abc.abstractmethod
    def _unknown(self, text: str) -> Outcome:
        """Return that the outcome is unknown."""


def what_changed(answer: requests.Response) -> str | None:
    """Return what changed meanwhile, consumer or provider; None for other errors."""
    try:
        error = http.parse_json(answer.content)['errors'][0]
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
