# SPDX-License-Identifier: Apache-2.0
"""Monitor of reply queues: which callers still read their answers.

One look at a queue serves all requests of its caller. It is taken in the thread of the
monitor, so that no request waits for the broker, but for a first look that is late.
"""

from __future__ import annotations

import enum
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from novasched.rpc.broker import BROKER_S
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
"""A queue is looked at no more often than that."""
FRESH_S = 1.0
"""A look that is older says nothing about now."""
GONE_FOR_S = 5.0
"""A caller that reconnects consumes its reply queue again within that time, or the
longer one for which oslo.messaging tries to deliver an answer."""
KNOWN_QUEUES = 1000
"""So many queues are remembered: each process that calls has one."""

Count = Callable[[Iterable[str]], Mapping[str, int | None]]
"""Counts the consumers of queues; None if unknown."""


class Readers(enum.Enum):
    """What is known of the consumers of a reply queue.

    ABSENT may come back, GONE has been absent for too long; UNKNOWN: the broker does
    not say, and the caller is taken to be there.
    """

    PRESENT = 'present'
    ABSENT = 'absent'
    GONE = 'gone'
    UNKNOWN = 'unknown'


UNREAD = Readers.ABSENT, Readers.GONE


@dataclass
class _Queue:
    readers: Readers = Readers.UNKNOWN
    looked_at: float = -math.inf
    wanted_at: float | None = None
    absent_since: float = math.inf
    watchers: int = 0


class ReplyQueues:
    """Looks at reply queues when requests come, and while their readers are absent.

    A look is waited for ``within_s``. ``on_look`` is called after each look at a queue,
    in the thread of the monitor.
    """

    def __init__(
        self,
        count: Count,
        gone_for_s: float = GONE_FOR_S,
        clock: Clock = SYSTEM_CLOCK,
        start: Callable[[threading.Thread], None] = threading.Thread.start,
        within_s: float = BROKER_S,
    ) -> None:
        self._start = start
        self._within_s = within_s
        self.gone_for_s = max(GONE_FOR_S, gone_for_s)
        self.on_look: Callable[[str, Readers], None] = lambda name, readers: None
        self._count = count
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def expect(self, name: str) -> None:
        """Have a queue looked at, unless it was a moment ago: its request has come."""
        with self._changed:
            queue = self._of(name)
            if self._clock.monotonic() - queue.looked_at >= LOOK_EVERY_S:
                self._want(queue)

    def readers(self, name: str) -> Readers:
        """Return the result of a fresh look; waits for one, but not long."""
        with self._changed:
            queue = self._of(name)
            if not self._is_fresh(queue):
                left_s = self._want(queue) + self._within_s - self._clock.monotonic()
                self._changed.wait_for(lambda: self._is_fresh(queue), max(0.0, left_s))
            return queue.readers if self._is_fresh(queue) else Readers.UNKNOWN

    def known(self, name: str) -> Readers:
        """Return the result of the last look, without waiting for another."""
        with self._changed:
            return self._of(name).readers

    def watch(self, name: str) -> None:
        """Look at a queue again and again, until as many ``unwatch`` it."""
        with self._changed:
            self._of(name).watchers += 1
            self._wake()

    def unwatch(self, name: str) -> None:
        with self._changed:
            self._of(name).watchers -= 1

    def look(self) -> None:
        """Look at all queues that are due, and say what was found."""
        with self._changed:
            now = self._clock.monotonic()
            due = [n for n, queue in self._queues.items() if self._due_at(queue) <= now]
        try:
            counted = self._count(due)
        except Exception:  # the border of a thread
            LOG.exception(
                'The consumers of reply queues cannot be read from the broker'
            )
            counted = {}
        with self._changed:
            for name in due:
                self._take_in(name, self._of(name), counted.get(name), now)
            self._changed.notify_all()
        for name in due:
            self.on_look(name, self.known(name))

    def stop(self) -> None:
        """End the thread; it starts again when it is needed."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _of(self, name: str) -> _Queue:
        """Return the state of a queue; forget the one not used for longest."""
        queue = self._queues.pop(name, None) or _Queue()
        self._queues[name] = queue
        if len(self._queues) > KNOWN_QUEUES:
            oldest = next((n for n, q in self._queues.items() if not q.watchers), name)
            if oldest != name:
                del self._queues[oldest]
        return queue

    def _is_fresh(self, queue: _Queue) -> bool:
        return self._clock.monotonic() - queue.looked_at <= FRESH_S

    def _want(self, queue: _Queue) -> float:
        """Have a queue looked at; return since when that is wanted."""
        since = queue.wanted_at
        if since is None:
            since = queue.wanted_at = self._clock.monotonic()
            self._wake()
        return since

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name='reply queues', daemon=True)
        try:
            self._start(thread)
        except RuntimeError as problem:
            LOG.warning('Reply queues are not looked at now: %s', problem)
        else:
            self._thread = thread

    def _due_at(self, queue: _Queue) -> float:
        undecided = queue.readers is Readers.ABSENT
        if queue.wanted_at is None and not queue.watchers and not undecided:
            return math.inf
        return queue.looked_at + LOOK_EVERY_S

    def _run(self) -> None:
        me, is_named = threading.current_thread(), False
        while True:
            with self._changed:
                while self._thread is me and (left_s := self._until_due_s()) > 0:
                    self._changed.wait(None if math.isinf(left_s) else left_s)
                if self._thread is not me:
                    return
            try:
                self.look()
            except Exception:  # the border of a thread
                if not is_named:
                    LOG.exception('A look at the reply queues failed')
                is_named = True
                time.sleep(LOOK_EVERY_S)

    def _until_due_s(self) -> float:
        due = min(map(self._due_at, self._queues.values()), default=math.inf)
        return due - self._clock.monotonic()

    def _take_in(
        self, name: str, queue: _Queue, consumers: int | None, now: float
    ) -> None:
        queue.looked_at, queue.wanted_at = now, None
        if consumers is None or consumers > 0:
            if consumers and queue.readers in UNREAD:
                LOG.info('Reply queue %s has a consumer again', name)
            # After an outage of the broker, a caller may take its time once more.
            queue.absent_since = math.inf
            queue.readers = Readers.UNKNOWN if consumers is None else Readers.PRESENT
            return
        queue.absent_since = min(queue.absent_since, now)
        absent_s = now - queue.absent_since
        if queue.readers is Readers.GONE:
            return
        if absent_s >= self.gone_for_s:
            queue.readers = Readers.GONE
            LOG.warning(
                'No consumer on reply queue %s for %.0f s: the caller is gone, and its '
                'claims are rolled back.',
                name,
                absent_s,
            )
        elif queue.readers is not Readers.ABSENT:
            queue.readers = Readers.ABSENT
            LOG.info('Reply queue %s has no consumer at the moment', name)
