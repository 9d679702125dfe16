# SPDX-License-Identifier: Apache-2.0
"""Writes of allocations. Those that come while another one is under way go together.

One POST for eight consumers costs placement less than half of eight PUTs. No write
waits for company: a write goes alone unless others are under way, and what came
meanwhile follows as one. See docs/decisions/0021-claims-travel-together.md
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import requests
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.placement.session import NoAnswer, ask
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Check, never

AT_ONCE = 1
"""Writes under way at once, but for those that go alone."""
SLOW_S = 2.0
"""After so long a write that is under way no longer holds up others."""
PATIENT_S, LEAST_TIMEOUT_S = 10.0, 1.0
"""With less time left a write does not wait for others; it has this much at least."""
CHECK_S = 0.5
"""How often a write that waits checks whether it is still wanted."""

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.IntOpt(
            'claims_together',
            default=16,
            min=1,
            max=64,
            help="""
How many claims of different requests may go to placement as one POST.

Claims go together only if they are ready while others are under way; no claim waits
for another. Each request keeps its own outcome: where placement refuses the POST, it is
split. With 1, each claim is a PUT of its own, as in nova.
""",
        )
    ]
}

_EXHAUSTED = re.compile(
    r"allocation for '(\w+)' on resource provider '([^']+)'. The requested amount "
    'would exceed the capacity'
)


class Written(NamedTuple):
    """What placement answered to a write, or to all that went with it."""

    answer: requests.Response | NoAnswer
    is_shared: bool = False


@dataclass(eq=False)
class _Write:
    """New allocations of one consumer."""

    context: RequestContext
    consumer_uuid: str
    body: Mapping[str, Any]
    until_s: float | None  # by the monotonic clock
    is_quiet: bool
    batch: _Batch
    written: Written | None = None
    has_left: bool = False  # its thread has ended

    @property
    def left_s(self) -> float | None:
        """The seconds until it must have ended; None without a limit."""
        if self.until_s is None:
            return None
        return max(LEAST_TIMEOUT_S, self.until_s - SYSTEM_CLOCK.monotonic())

    @property
    def is_urgent(self) -> bool:
        return self.left_s is not None and self.left_s < PATIENT_S


@dataclass(eq=False)
class _Batch:
    """Writes that go as one; any of their threads sends them."""

    version: str
    is_split: bool = False  # part of a batch that was refused
    writes: list[_Write] = field(default_factory=list)
    began_s: float = 0.0

    def takes(self, write: _Write, most: int) -> bool:
        """Return whether a write may join; a consumer is written once in each POST."""
        consumers = {other.consumer_uuid for other in self.writes}
        is_open = not self.is_split and len(consumers) < most
        fits = self.version == write.batch.version
        return is_open and fits and write.consumer_uuid not in consumers


class AllocationWrites:
    """Writes allocations, up to ``most`` together; threads share it."""

    def __init__(self, adapter: Adapter, most: int = 1) -> None:
        self._adapter = adapter
        self._most = most
        self._changed = threading.Condition()
        self._queue: deque[_Batch] = deque()
        self._under_way: list[_Batch] = []

    @property
    def waiting(self) -> int:
        """How many writes wait for others that are under way."""
        with self._changed:
            return sum(len(batch.writes) for batch in self._queue)

    def put(
        self,
        context: RequestContext,
        consumer_uuid: str,
        body: Mapping[str, Any],
        version: str,
        *,
        within_s: float | None = None,  # None: the adapter's timeout, and any wait
        is_alone: bool = False,
        is_quiet: bool = False,
        check: Check = never,
    ) -> Written:
        """Write the allocations of one consumer, as PUT /allocations/{uuid} does.

        ``check`` is called now and then while they wait for others; what it raises is
        raised if they have not been sent. A write that goes alone does not wait, nor
        one with less than PATIENT_S left.
        """
        batch = _Batch(version)
        until_s = None if within_s is None else SYSTEM_CLOCK.monotonic() + within_s
        mine = _Write(context, consumer_uuid, body, until_s, is_quiet, batch)
        if is_alone or mine.is_urgent or self._most == 1:
            return Written(self._sent([mine], version))
        with self._changed:
            self._join(mine)
        try:
            while mine.written is None:
                with self._changed:
                    taken = self._taken(mine)
                if taken is not None:
                    self._send(taken)
                elif mine.written is None:
                    self._check(mine, check)
                    if mine.is_urgent and self._withdraw(mine):
                        return Written(self._sent([mine], version))
        finally:
            with self._changed:
                self._leave(mine)
        return mine.written

    def _join(self, mine: _Write) -> None:
        """Add a write to the first batch that it may join, or as a new one."""
        for batch in self._queue:
            if batch.takes(mine, self._most):
                mine.batch = batch
                break
        else:
            self._queue.append(mine.batch)
        mine.batch.writes.append(mine)

    def _leave(self, mine: _Write) -> None:
        """Leave the queue, if the thread of the write ends before it is sent."""
        if mine.batch in self._queue and not mine.has_left:
            mine.batch.writes.remove(mine)
            if not mine.batch.writes:
                self._queue.remove(mine.batch)
            self._changed.notify_all()
        mine.has_left = True

    def _taken(self, mine: _Write) -> _Batch | None:
        """Wait for what a write waits for, for CHECK_S at most; return its batch if
        this thread is to send it."""
        ends_s = SYSTEM_CLOCK.monotonic() + CHECK_S
        while mine.written is None:
            now, free_in_s = SYSTEM_CLOCK.monotonic(), 0.0
            if len(self._under_way) >= AT_ONCE:
                free_in_s = self._under_way[-1].began_s + SLOW_S - now
            is_next = bool(self._queue) and self._queue[0] is mine.batch
            if is_next and free_in_s <= 0:
                mine.batch.began_s = now
                self._under_way.append(mine.batch)
                self._changed.notify_all()  # the next batch waits for this one
                return self._queue.popleft()
            if now >= ends_s:
                break
            left_s = ends_s - now
            self._changed.wait(min(free_in_s, left_s) if is_next else left_s)
        return None

    def _check(self, mine: _Write, check: Check) -> None:
        """Check whether a write that waits is still wanted; what was sent is."""
        try:
            check()
        except errors.RequestError:
            if self._withdraw(mine):
                raise

    def _withdraw(self, mine: _Write) -> bool:
        """Take a write out of the queue; return False if it was sent."""
        with self._changed:
            was_sent = mine.batch not in self._queue or mine.batch.is_split
            if not was_sent:
                self._leave(mine)
            return not was_sent

    def _send(self, batch: _Batch) -> None:
        answer: requests.Response | NoAnswer = NoAnswer('The sender ended', sent=True)
        try:
            answer = self._sent(batch.writes, batch.version)
        finally:
            with self._changed:
                self._under_way.remove(batch)
                self._tell(batch, answer)
                self._changed.notify_all()

    def _sent(
        self, writes: Sequence[_Write], version: str
    ) -> requests.Response | NoAnswer:
        first = writes[0]
        method, url = 'POST', '/allocations'
        body: Mapping[str, Any] = {write.consumer_uuid: write.body for write in writes}
        if len(writes) == 1:
            method, url, body = 'PUT', f'/allocations/{first.consumer_uuid}', first.body
        return ask(
            self._adapter,
            first.context,
            method,
            url,
            version,
            body,
            min((w.left_s for w in writes if w.left_s is not None), default=None),
            is_quiet=first.is_quiet,
        )

    def _tell(self, batch: _Batch, answer: requests.Response | NoAnswer) -> None:
        """Tell the writes how they ended, or split them where placement refused."""
        is_shared = len(batch.writes) > 1
        # It may be for one of them, or for their number.
        if isinstance(answer, NoAnswer) or not (
            is_shared and http.is_refused(answer.status_code)
        ):
            for write in batch.writes:
                write.written = Written(answer, is_shared)
            return
        for part in reversed(_parts(batch.writes, answer)):
            writes = [write for write in part if not write.has_left]
            if writes:
                self._queue.appendleft(_Batch(batch.version, True, writes))
            for write in writes:
                write.batch = self._queue[0]


def _parts(
    writes: Sequence[_Write], answer: requests.Response
) -> Sequence[Sequence[_Write]]:
    """Return the parts in which refused writes go once more.

    Those that take from a provider without room go in halves, all others together. If
    none is known to, all go in halves. A part may be empty.
    """
    provider, _ = exhausted(answer) or ('', '')
    full = [write for write in writes if provider in write.body['allocations']]
    others = [write for write in writes if write not in full] if full else []
    refused = full or writes
    half = (len(refused) + 1) // 2
    return [others, refused[:half], refused[half:]]


def exhausted(answer: requests.Response) -> tuple[str, str] | None:
    """Return the provider and the class that have no room, if that is the reason."""
    found = _EXHAUSTED.search(answer.text) if answer.status_code == 409 else None
    return (found[2], found[1]) if found else None
