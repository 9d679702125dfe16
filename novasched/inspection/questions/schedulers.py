# SPDX-License-Identifier: Apache-2.0
"""The schedulers of other machines: finding and asking them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from novasched.rpc.inspection_client import InspectionClient, InspectionReply

RETRY_AFTER_S = 20.0
"""A scheduler that did not answer is asked again after so long."""
HOSTS_FOR_S = 60.0
"""After so long, live schedulers are looked for again."""
ALL_OTHERS = 'other schedulers'


def unseen(host: str, problem: str = 'did not answer') -> str:
    """Return a sentence on a scheduler that has not answered."""
    made = 'they' if host == ALL_OTHERS else 'it'
    return f'{host} {problem}; decisions that {made} made are not seen'


def keeps_none(host: str) -> str:
    """Return a sentence on a scheduler without a decision log."""
    return f'{host} runs nova-scheduler, which keeps no decisions'


class OtherSchedulers:
    """The live schedulers but our own; ``without_log`` are schedulers that keep no log.

    ``find_hosts`` and ``connect`` are called at the first question, ``find_hosts``
    again after HOSTS_FOR_S; they may raise errors.NovaschedError. A silent scheduler is
    left alone for RETRY_AFTER_S. Threads ask one after the other, as a scheduler
    answers few at a time.
    """

    def __init__(
        self,
        find_hosts: Callable[[], Sequence[str]],
        connect: Callable[[], InspectionClient],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._find_hosts = find_hosts
        self._connect = connect
        self._clock = clock
        self._turn = threading.Lock()
        self._hosts: Sequence[str] = ()
        self._hosts_until = float('-inf')
        self._asker: InspectionClient | None = None
        self._unanswered: dict[str, tuple[float, str]] = {}
        self.without_log: list[str] = []

    @property
    def unanswered(self) -> list[str]:
        """Names of those whose decisions are not seen."""
        return sorted(self._unanswered)

    @property
    def warnings(self) -> list[str]:
        """Warnings about the schedulers whose decisions are not seen."""
        unanswered = sorted(self._unanswered.copy().items())
        return [
            *(unseen(host, problem) for host, (_, problem) in unanswered),
            *map(keeps_none, sorted(self.without_log)),
        ]

    def ask(
        self, method: str, only: str | None = None, **arguments: Any
    ) -> list[InspectionReply]:
        """Return the answers of those that answer, or of one ``only``."""
        with self._turn:
            if self._clock.monotonic() >= self._hosts_until:
                self._look()
            asked = [
                host
                for host in self._hosts
                if host not in self.without_log
                and self._is_due(host)
                and only in (None, host)
            ]
            if not asked or self._asker is None:
                return []
            return [
                reply
                for reply in self._asker.ask(asked, method, **arguments)
                if self._has_answered(reply)
            ]

    def _look(self) -> None:
        """Find the live schedulers; if that fails, keep those found before."""
        if not self._is_due(ALL_OTHERS):
            return
        try:
            hosts = self._find_hosts()
            if hosts and self._asker is None:
                self._asker = self._connect()
        except errors.NovaschedError as problem:
            self.note(ALL_OTHERS, f'are not known: {problem}')
            return
        self._hosts = hosts
        self._hosts_until = self._clock.monotonic() + HOSTS_FOR_S
        self._unanswered = {
            h: self._unanswered[h] for h in hosts if h in self._unanswered
        }
        self.without_log = []

    def _is_due(self, host: str) -> bool:
        now = self._clock.monotonic()
        return now >= self._unanswered.get(host, (now, ''))[0]

    def _has_answered(self, reply: InspectionReply) -> bool:
        self._unanswered.pop(reply.host, None)
        if reply.has_no_log:
            self.without_log = sorted({*self.without_log, reply.host})
        elif reply.problem:
            self.note(reply.host, reply.problem)
        return not reply.problem

    def note(self, host: str, problem: str) -> None:
        """Take in why the decisions of a host are not seen."""
        self._unanswered[host] = self._clock.monotonic() + RETRY_AFTER_S, problem

    def close(self) -> None:
        """Close what was opened to ask."""
        if self._asker is not None:
            self._asker.close()
