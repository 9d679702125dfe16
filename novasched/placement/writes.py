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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import requests
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.placement.session import NoAnswer, ask
from novasched.runtime.clock import SYSTEM_CLOCK

AT_ONCE = 1
"""Writes under way at once."""
SLOW_S = 2.0
"""After so long a write that is under way no longer holds up others."""

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
    timeout_s: float | None
    is_quiet: bool
    check: Callable[[], None]  # raises errors.RequestError if it must not be sent
    batch: _Batch
    written: Written | None = None
    has_waited: bool = False
    gone: errors.RequestError | None = None  # why it must not be sent

    @property
    def is_over(self) -> bool:
        return self.written is not None or self.gone is not None

    def may_be_sent(self) -> bool:
        """Check, if the write has waited for others."""
        try:
            if self.has_waited:
                self.check()
        except errors.RequestError as gone:
            self.gone = gone
        return self.gone is None


@dataclass(eq=False)
class _Batch:
    """Writes that go as one; the thread of the first one sends them."""

    version: str
    is_open: bool  # more may join
    writes: list[_Write] = field(default_factory=list)
    began_s: float = 0.0


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
        timeout_s: float | None = None,  # None for the adapter's
        is_alone: bool = False,
        is_quiet: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> Written:
        """Write the allocations of one consumer, as PUT /allocations/{uuid} does.

        ``check`` is called after a wait for others; its errors.RequestError is raised.
        """
        is_open = not is_alone and self._most > 1
        mine = _Write(
            context,
            consumer_uuid,
            body,
            timeout_s,
            is_quiet,
            check,
            _Batch(version, is_open),
        )
        if self._most == 1:
            return Written(self._sent([mine], version))
        with self._changed:
            self._join(mine)
        try:
            while not mine.is_over:
                with self._changed:
                    batch = self._taken(mine)
                if batch is not None:
                    self._send(batch)
        finally:
            with self._changed:
                self._leave(mine)
        if mine.gone is not None:
            raise mine.gone
        assert mine.written is not None
        return mine.written

    def _join(self, mine: _Write) -> None:
        """Add a write to the last batch, if that is open to it, or as a new one."""
        last = self._queue[-1] if self._queue else None
        may_join = last is not None and last.is_open and mine.batch.is_open
        if last is None or not may_join or last.version != mine.batch.version:
            self._queue.append(mine.batch)
        else:
            mine.batch = last
        mine.batch.writes.append(mine)
        mine.batch.is_open &= len(mine.batch.writes) < self._most

    def _leave(self, mine: _Write) -> None:
        """Leave the queue, if the thread of the write ends before it is sent."""
        if mine.batch in self._queue:
            mine.batch.writes.remove(mine)
            if not mine.batch.writes:
                self._queue.remove(mine.batch)
            self._changed.notify_all()

    def _taken(self, mine: _Write) -> _Batch | None:
        """Wait until a write is over, or its batch is to be sent by its thread."""
        while not mine.is_over:
            now, left_s = SYSTEM_CLOCK.monotonic(), 0.0
            if len(self._under_way) >= AT_ONCE:
                left_s = self._under_way[-1].began_s + SLOW_S - now
            leads = mine.batch.writes[0] is mine and self._queue[0] is mine.batch
            if leads and left_s <= 0:
                mine.batch.began_s = now
                self._under_way.append(mine.batch)
                return self._queue.popleft()
            mine.has_waited = True
            self._changed.wait(left_s if leads else None)
        return None

    def _send(self, batch: _Batch) -> None:
        writes = [write for write in batch.writes if write.may_be_sent()]
        answer: requests.Response | NoAnswer = NoAnswer('The sender ended', sent=True)
        try:
            if writes:
                answer = self._sent(writes, batch.version)
        finally:
            with self._changed:
                self._under_way.remove(batch)
                self._changed.notify_all()
                self._tell(writes, batch.version, answer)

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
            min((w.timeout_s for w in writes if w.timeout_s is not None), default=None),
            is_quiet=first.is_quiet,
        )

    def _tell(
        self,
        writes: Sequence[_Write],
        version: str,
        answer: requests.Response | NoAnswer,
    ) -> None:
        """Tell the writes how they ended, or split them where placement refused."""
        is_shared = len(writes) > 1
        if is_shared and _is_refused(answer):
            for part in reversed(_parts(writes, answer)):
                batch = _Batch(version, False, [*part])
                self._queue.appendleft(batch)
                for write in part:
                    write.batch = batch
            return
        for write in writes:
            write.written = Written(answer, is_shared)


def _is_refused(answer: requests.Response | NoAnswer) -> bool:
    """Return whether placement has written nothing, for a reason in one of many."""
    if isinstance(answer, NoAnswer):
        return False
    return 400 <= answer.status_code < http.SERVER_FAILED


def _parts(
    writes: Sequence[_Write], answer: requests.Response | NoAnswer
) -> Sequence[Sequence[_Write]]:
    """Return the parts in which refused writes go once more.

    Those that take from a provider without room go in halves, all others together.
    """
    full, others = writes, list[_Write]()
    if not isinstance(answer, NoAnswer) and (named := exhausted(answer)):
        full = [write for write in writes if named[0] in write.body['allocations']]
        others = [write for write in writes if write not in full]
    if not full or (others and len(full) == 1):
        return [others, full] if full else _halves(writes)
    return [part for part in (others, *_halves(full)) if part]


def _halves(writes: Sequence[_Write]) -> Sequence[Sequence[_Write]]:
    half = (len(writes) + 1) // 2
    return [writes[:half], writes[half:]]


def exhausted(answer: requests.Response) -> tuple[str, str] | None:
    """Return the provider and the class that have no room, if that is the reason."""
    found = _EXHAUSTED.search(answer.text) if answer.status_code == 409 else None
    return (found[2], found[1]) if found else None
