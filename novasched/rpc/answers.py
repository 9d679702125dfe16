# SPDX-License-Identifier: Apache-2.0
"""Answers to requests: sent at once, or parked while their caller reads none.

If the queue of an answer is missing, oslo.messaging tries to deliver it for a minute,
in the thread of the request. It forgets an answer whose queue has no reader. Here such
an answer waits outside the threads of requests. It waits until its queue is read, or
until its caller is gone and its claims are undone.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
from typing import Any

from novasched import errors
from novasched.ports import CallerGone
from novasched.rpc import faults, oslo_internals
from novasched.rpc.caller import RpcCaller
from novasched.rpc.reply_queues import UNREAD, Readers, ReplyQueues
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor

LOG = logging.getLogger(__name__)

PARKED_AT_MOST = 256
"""Beyond that, an answer that cannot be delivered is undone at once."""
THREADS = 4
"""So many parked answers are sent, or undone, at a time."""
HOLD_BACK_S = 5.0
"""How long the answer to the second copy of a request, which claimed nothing, waits.

The caller takes the first answer that it gets, which must be the first copy's.
"""


class Incoming:
    """A message of oslo.messaging whose answer goes by way of ``answers``."""

    def __init__(self, incoming: Any, caller: RpcCaller, answers: Answers) -> None:
        self._incoming = incoming
        self._answers = answers
        self._content: tuple[Any, Any] = None, None
        self.caller = caller
        self.parked_at = math.inf
        self.may_be_read = False
        self.is_second = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Answer a call; a cast has none. A message of another layer does it itself.

        ``failure`` is as sys.exc_info() gives it. What was claimed is undone then.
        """
        if failure:
            self.caller.undeliverable()
        if not oslo_internals.is_parkable(self._incoming):
            self._incoming.reply(reply, failure)
        elif self._incoming.orig_msg_id:
            self._content = reply, failure
            refused = getattr(failure[1], '__cause__', None) if failure else None
            self.is_second = isinstance(refused, errors.AlreadyClaimed)
            self._answers.send(self)

    @property
    def is_too_late(self) -> bool:
        """Return whether something is claimed for a caller that has timed out."""
        return self.caller.has_claims and self.caller.has_timed_out

    def publish(self) -> bool:
        """Send the answer; return False when it came back, as its queue is missing.

        oslo.messaging sends it again when the connection breaks: then the first one
        may have arrived, whatever becomes of the second.
        """
        with oslo_internals.reply_connection(self._incoming) as connection:
            channel, may_be_read = connection.channel, self.may_be_read
            self.may_be_read = True  # whatever else may fail
            try:
                oslo_internals.send_reply(self._incoming, connection, *self._content)
            except oslo_internals.UNDELIVERABLE:
                self.may_be_read = may_be_read or connection.channel is not channel
                return False
        return True

    def end(self) -> None:
        """Sending it failed: undo what was claimed, unless it may be read."""
        if self.may_be_read:
            self.caller.answered()
        else:
            self.caller.undeliverable()

    def refuse(self) -> None:
        """Undo what was claimed; leave word of it, should the caller come back."""
        had_claims = self.caller.has_claims
        self.caller.undeliverable()
        if had_claims:
            gone = faults.to_wire(CallerGone('its answer was not read'))
            self._content = None, (type(gone), gone, None)
            self.publish()


class Answers:
    """Sends the answers of one server, and parks those without a reader.

    At most ``most`` are parked, each for twice the time after which a caller is gone.
    Answers without claims take no more than half of the room.
    """

    def __init__(
        self,
        queues: ReplyQueues,
        most: int = PARKED_AT_MOST,
        clock: Clock = SYSTEM_CLOCK,
        executor: BulkheadExecutor | None = None,
    ) -> None:
        self._queues = queues
        self._most = most
        self._clock = clock
        self._executor = executor or BulkheadExecutor('answers', THREADS)
        self._changed = threading.Condition()
        self._parked: dict[str, list[Incoming]] = {}
        self._open = 0
        self._ends_at = math.inf
        queues.on_look = self._looked

    def has_room(self) -> bool:
        """Return whether one more answer can be parked."""
        with self._changed:
            return self._open < self._most

    def send(self, answer: Incoming) -> None:
        """Send an answer, or park it; undo its claims where neither can be done.

        An answer without claims may wait in its queue for a reader.
        """
        if answer.is_second and self._park(answer):
            return
        try:
            self._send(answer)
        except BaseException:
            answer.end()
            raise

    def _send(self, answer: Incoming) -> None:
        absent = self._queues.known(answer.reply_q) in UNREAD
        if answer.is_too_late:
            self._give_up(answer)
        elif not (absent and answer.caller.has_claims) and answer.publish():
            answer.caller.answered()
        elif not self._park(answer):
            self._give_up(answer)

    def end_by(self, deadline: float) -> None:
        """Give up at that time what is still parked then: the server stops."""
        self._ends_at = deadline

    def drain(self) -> None:
        """Wait until nothing is parked any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open)

    def close(self) -> None:
        """Let the threads end, once nothing is parked any more."""
        self._executor.close()

    def _park(self, answer: Incoming) -> bool:
        most = self._most if answer.caller.has_claims else self._most // 2
        with self._changed:
            if self._open >= most:
                return False
            self._open += 1
        answer.caller.keep_open()
        answer.parked_at = self._clock.monotonic()
        self._queues.watch(answer.reply_q)
        self._wait_for_reader(answer)
        return True

    def _wait_for_reader(self, answer: Incoming) -> None:
        with self._changed:
            self._parked.setdefault(answer.reply_q, []).append(answer)

    def _looked(self, name: str, readers: Readers) -> None:
        """Have parked answers of a queue sent or given up, if their time has come."""
        with self._changed:
            parked = self._parked.pop(name, [])
            due = [one for one in parked if self._is_due(one, readers)]
            if left := [one for one in parked if one not in due]:
                self._parked[name] = left
        for answer in due:
            try:
                self._executor.submit(functools.partial(self._finish, answer, readers))
            except RuntimeError as problem:
                LOG.warning('An answer waits for a thread to send it: %s', problem)
                self._wait_for_reader(answer)

    def _is_due(self, answer: Incoming, readers: Readers) -> bool:
        if answer.is_second:
            return self._clock.monotonic() >= min(
                answer.parked_at + HOLD_BACK_S, self._ends_at
            )
        decided = readers in (Readers.PRESENT, Readers.GONE)
        return decided or answer.is_too_late or self._is_late(answer)

    def _is_late(self, answer: Incoming) -> bool:
        until = answer.parked_at + 2 * self._queues.gone_for_s
        return self._clock.monotonic() >= min(until, self._ends_at)

    def _finish(self, answer: Incoming, readers: Readers) -> None:
        """Send a parked answer, or undo its claims; its queue may vanish meanwhile."""
        done = True
        try:
            unread = readers in UNREAD and not answer.is_second
            if unread or answer.is_too_late:
                self._give_up(answer)
            elif answer.publish():
                answer.caller.answered()
            elif self._is_late(answer):
                self._give_up(answer)
            else:
                done = answer.is_second = False
        except Exception:  # the border of a thread
            LOG.exception('An answer could be neither delivered nor undone')
            answer.end()
        finally:
            if done:
                self._close(answer)
        if not done:
            self._wait_for_reader(answer)

    def _give_up(self, answer: Incoming) -> None:
        if answer.may_be_read:
            answer.caller.answered()
        else:
            answer.refuse()

    def _close(self, answer: Incoming) -> None:
        self._queues.unwatch(answer.reply_q)
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
