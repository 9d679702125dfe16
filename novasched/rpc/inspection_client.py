# SPDX-License-Identifier: Apache-2.0
"""Asking the schedulers of other machines about their decisions, all at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.rpc.broker import Broker
from novasched.rpc.inspection import TARGET
from novasched.rpc.oslo_internals import driver_of
from novasched.rpc.serializer import RequestSerializer
from novasched.rpc.server import MARK, TOPIC
from novasched.rpc.transport import is_rabbit
from novasched.runtime.clock import SYSTEM_CLOCK

WITHIN_S = 2.0
"""How long a scheduler has to answer."""
BUSY_PAUSE_S = 0.1
LEAST_S = 0.1
CLOSE_S = 1.0
NO_INTERFACE = frozenset({'UnsupportedVersion', 'NoSuchMethod'})
"""Errors of a scheduler that has no such interface."""
NO_LOG = 'runs nova-scheduler, which keeps no decisions'


class InspectionReply(NamedTuple):
    """The reply of the scheduler of a host: an answer from the log in ``origin``, or a
    problem; ``has_no_log``: it runs something else than novasched."""

    host: str
    answer: Any = None
    origin: str = ''
    problem: str = ''
    has_no_log: bool = False


class InspectionClient:
    """Asks schedulers about their decisions. ``within_s`` bounds every question."""

    def __init__(self, transport: Any, within_s: float = WITHIN_S) -> None:
        self._within_s = within_s
        self._transport = transport
        self._stuck: set[str] = set()
        self._client = oslo_messaging.get_rpc_client(
            transport, TARGET, retry=0, serializer=RequestSerializer()
        )

    def ask(
        self, hosts: Collection[str], method: str, **arguments: Any
    ) -> Iterator[InspectionReply]:
        """Ask the schedulers of all hosts at once; yield replies as they come.

        Connecting to an unavailable broker has no end, so the threads are daemons. A
        host is not asked while a thread that should have ended long ago still asks it.
        """
        replies: queue.SimpleQueue[InspectionReply] = queue.SimpleQueue()
        end_s = SYSTEM_CLOCK.monotonic() + self._within_s

        def ask(host: str) -> None:
            replies.put(self._reply(host, end_s, method, arguments))
            self._stuck.discard(host)

        stuck = self._stuck.intersection(hosts)
        yield from (InspectionReply(host, problem=self._late) for host in stuck)
        missing = dict.fromkeys(host for host in hosts if host not in stuck)
        for host in missing:
            threading.Thread(target=ask, args=(host,), daemon=True).start()
        while missing:
            try:
                left_s = max(0.0, end_s + LEAST_S - SYSTEM_CLOCK.monotonic())
                reply = replies.get(timeout=left_s)
            except queue.Empty:
                break
            del missing[reply.host]
            yield reply
        self._stuck.update(missing)
        while not replies.empty():  # it came in the meantime
            self._stuck.discard(replies.get().host)
        yield from (InspectionReply(host, problem=self._late) for host in missing)

    def close(self) -> None:
        """Close the connections to the broker, if that is done soon."""
        closing = threading.Thread(target=self._transport.cleanup, daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    @property
    def _late(self) -> str:
        return f'did not answer within {self._within_s:g} s'

    def _is_of_nova(self, host: str) -> bool:
        """Return whether a scheduler listens that is not ours: asked, it would log an
        error with a traceback."""
        if not is_rabbit(self._transport.conf):
            return False
        queue, mark = f'{TOPIC}.{host}', MARK.format(TOPIC, host)
        counted = Broker(driver_of(self._transport)).consumers([queue, mark])
        return bool(counted[queue]) and counted[mark] == 0

    def _reply(
        self, host: str, end_s: float, method: str, arguments: Mapping[str, Any]
    ) -> InspectionReply:
        context = RequestContext(overwrite=False)
        if self._is_of_nova(host):
            return InspectionReply(host, problem=NO_LOG, has_no_log=True)
        while True:
            left_s = max(LEAST_S, end_s - SYSTEM_CLOCK.monotonic())
            asked = self._client.prepare(server=host, timeout=left_s)
            try:
                found = asked.call(context, method, **arguments)
                return InspectionReply(host, found['answer'], found['origin'])
            except oslo_messaging.MessagingTimeout:
                return InspectionReply(host, problem=self._late)
            except Exception as problem:  # noqa: BLE001 any class of the other side
                name = getattr(problem, 'exc_type', None) or type(problem).__name__
                if name in NO_INTERFACE:
                    return InspectionReply(host, problem=NO_LOG, has_no_log=True)
                if name != errors.Busy.__name__ or not _paused(end_s):
                    said = getattr(problem, 'value', None) or str(problem)
                    return InspectionReply(host, problem=f'answers {name}: {said}')


def _paused(end_s: float) -> bool:
    """Wait a moment; return False if there is no time for another try."""
    if SYSTEM_CLOCK.monotonic() + BUSY_PAUSE_S > end_s:
        return False
    threading.Event().wait(BUSY_PAUSE_S)
    return True
