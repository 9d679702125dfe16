# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter, and the cache of attested trust levels that it reads."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from novasched.attestation.server import GROUP, UNKNOWN, AttestationServer, Attested
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.filters.legacy.trusted import TrustRule

NEVER = Attested(UNKNOWN, datetime.datetime(1970, 1, 1))  # noqa: DTZ001

Poll = Callable[[Sequence[str]], Mapping[str, Attested]]


class KnownLevels:
    """Cache of what ``poll`` returns, for ``max_age_s`` seconds after each check.

    One poll asks for all nodes of the cloud. Safe to be called by several threads:
    they share a poll.
    """

    def __init__(
        self,
        poll: Poll,
        max_age_s: float,
        clock: Clock = SYSTEM_CLOCK,
        lock: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        self._poll = poll
        self._max_age_s = max_age_s
        self._clock = clock
        self._known: dict[str, Attested] = {}
        self._polls = 0
        self._lock = lock or threading.Lock()

    def look_up(self, nodes: Sequence[str], cloud: Sequence[str]) -> Mapping[str, str]:
        """Return the level of each node; poll at most once, if one is old.

        After a poll that failed every level is unknown, until the next look.
        """
        polls = self._polls
        with self._lock:
            if self._is_old(nodes, shared=self._polls != polls):
                self._ask([*cloud, *nodes])
            return {node: self._known[node].level for node in nodes}

    def _is_old(self, nodes: Sequence[str], shared: bool) -> bool:
        """``shared``: another thread polled while this one waited."""
        if not all(node in self._known for node in nodes):
            return True
        if shared:
            return False
        now = self._clock.utcnow()
        ages = (now - self._known[node].checked_at for node in nodes)
        return any(age.total_seconds() > self._max_age_s for age in ages)

    def _ask(self, nodes: Sequence[str]) -> None:
        known = dict.fromkeys(nodes, NEVER)
        answers = self._poll(list(known))
        known.update((node, answers[node]) for node in known if node in answers)
        self._known = known
        self._polls += 1

    def last(self, node: str) -> str:
        """Return the level that was last learned, without a poll."""
        return self._known.get(node, NEVER).level


class TrustedFilter(TrustRule):
    """Pass hosts whose attested level of trust is what ``trust:trusted_host`` asks.

    The attestation server is asked when a request first needs a level, and again
    when what it said is older than ``[trusted_computing]
    attestation_auth_timeout``. Nova 16: scheduler/filters/trusted_filter.py.
    """

    deprecated = (
        'TrustedFilter is deprecated in Pike and will be removed in a subsequent '
        'release. Traits in placement say which hosts are trusted.'
    )

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        server = AttestationServer.from_conf(conf)
        return cls(KnownLevels(server.poll, conf[GROUP].attestation_auth_timeout))
