# SPDX-License-Identifier: Apache-2.0
"""A tap: a copy of each message that the broker gives to schedulers. It answers none.

Its queues are its own. They end with its connection, and are bounded in length and age:
a tap that is killed, paused or slow costs nobody anything.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import amqp  # type: ignore[import-untyped]
import oslo_messaging  # type: ignore[import-untyped]
from kombu import compression
from kombu.connection import Connection
from oslo_config import cfg

from novasched.ports import Requests
from novasched.rpc import notifications
from novasched.rpc.broker import UNANSWERED
from novasched.rpc.oslo_internals import rabbit_options, unpacked
from novasched.rpc.transport import CONTROL_EXCHANGE, as_driven
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

QUEUE = 'novasched_shadow.{}.{}.{}'
"""The queues of a tap, by host, what they are for, and a uuid."""
LONGEST = 5000
"""Messages that may wait in a queue; the oldest of more are dropped."""
MOST_BYTES = 64 << 20
OLDEST_S = 60
"""Seconds after which a message that waits is dropped."""
BEHIND = 'messages come faster than they are decided, and some were dropped'
RETRY_S = 2.0
POLL_S = 1.0
EMPTY_S = 0.01
"""Queues from which nothing comes for so long are empty."""
REBIND_S = 10.0
"""Whether the bindings are still there is looked at so often."""
TRIED_WITHIN_S = 10.0
"""A start waits so long for the broker, and goes on without it."""
EVENT = 'scheduler.select_destinations.'


class Interval(NamedTuple):
    """A time in which all requests were tapped, in seconds since 1970."""

    since_s: float
    until_s: float


class Tapped(NamedTuple):
    """A message as a dispatcher of oslo.messaging takes it; nobody waits for it."""

    ctxt: dict[str, Any]
    message: dict[str, Any]
    client_timeout: None = None


class Phase(NamedTuple):
    """A notification that nova-scheduler starts or ends a request, and when."""

    request_id: str
    name: str  # start or end
    at_s: float


class TapObserver:
    """Base of what hears what becomes of a tap; does nothing itself."""

    def tapped(self) -> None:
        """A request or a cast was tapped."""

    def missed(self, seconds: float) -> None:
        """Nothing, or not all, was tapped for so long."""

    def notified(self, phase: Phase) -> None:
        """nova-scheduler started or ended a request."""


class _Source(NamedTuple):
    """An exchange that a queue is bound to, and what takes its messages."""

    purpose: str
    exchange: str
    keys: Sequence[str]
    take: Callable[[Any], None]


class _Binding(NamedTuple):
    """A queue of our own, bound to an exchange of nova's."""

    channel: Any
    queue: str
    source: _Source

    def bind(self) -> None:
        """Bind it, also once more. Raises amqp.NotFound if the exchange is gone."""
        for key in self.source.keys:
            self.channel.queue_bind(self.queue, self.source.exchange, key)


class Tap:
    """Dispatches what the topic ``scheduler`` and its fanout exchange give, one message
    after the other.

    It has the methods of a server of oslo.messaging that a service starts and stops.
    ``connect`` makes a connection to the broker, ``exchange`` is nova's, and
    ``notified`` has the routing keys of its notifications.
    """

    drain_s: float = 0.0

    def __init__(
        self,
        connect: Callable[[], Connection],
        dispatcher: Any,
        requests: Requests,
        *,
        host: str,
        exchange: str,
        topic: str,
        notified: Sequence[str] = (),
        observer: TapObserver | None = None,
        longest: int = LONGEST,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._connect = connect
        self._dispatcher = dispatcher
        self.requests = requests
        self._host = host
        # Casts have a queue of their own: many computes must not drop a request.
        self._sources = [
            _Source('requests', exchange, [topic], self._take_request),
            _Source('casts', f'{topic}_fanout', [''], self._take),
        ]
        if notified:
            notices = _Source('notices', exchange, notified, self._take_notice)
            self._sources.append(notices)
        self._observer = observer or TapObserver()
        self._longest = longest
        self._clock = clock
        self._ended = threading.Event()
        self._tried = threading.Event()
        self._thread = threading.Thread(target=self._run, name='tap', daemon=True)
        self._failing = LogOnce()
        self._unreadable = LogOnce()
        self._lock = threading.Lock()
        self._intervals: list[Interval] = []  # those that are not written yet
        self._until: tuple[float, float] | None = None  # the last one's, by both clocks
        self._burst = 0  # requests since the queues were empty
        self.problem: str | None = 'it has not begun'
        """Why nothing is tapped now; None while the tap listens."""

    def start(self) -> None:
        """Begin to listen, and go on until the end, whatever becomes of the broker."""
        self._thread.start()
        self._tried.wait(TRIED_WITHIN_S)

    def stop(self) -> None:
        """Take no more messages."""
        self._ended.set()

    def wait(self) -> None:
        """Wait for the message under way."""
        self._thread.join()

    def intervals(self) -> list[Interval]:
        """Return the times in which it listened that are not written yet, or go on."""
        with self._lock:
            return list(self._intervals)

    def forget(self, written: Sequence[Interval]) -> None:
        """Keep intervals no more that are written and have ended."""
        with self._lock:
            known, last = {each.since_s for each in written}, self._intervals[-1:]
            ended = [e for e in self._intervals[:-1] if e.since_s not in known]
            self._intervals = [*ended, *last]

    # -- the thread

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except UNANSWERED as problem:
                self._lost(f'{type(problem).__name__}: {problem}')
            except Exception as problem:
                LOG.exception('The tap has failed, and begins anew')
                self._lost(f'{type(problem).__name__}: {problem}')
            self._ended.wait(RETRY_S)

    def _listen(self, connection: Any) -> None:
        missing, bound = list(self._sources), list[_Binding]()
        due_s = rebind_s = self._clock.monotonic()
        while not self._ended.is_set():
            now_s = self._clock.monotonic()
            if now_s >= due_s:
                bound += filter(None, (self._bind(connection, s) for s in missing))
                there = {each.source.purpose for each in bound}
                missing = [s for s in self._sources if s.purpose not in there]
                connection.heartbeat_check()
                due_s = now_s + POLL_S
            if _drained(connection, EMPTY_S):
                self._extend()
                continue
            self._extend(is_empty=True)
            if now_s >= rebind_s:
                for each in bound:
                    each.bind()
                rebind_s = now_s + REBIND_S
            _drained(connection, POLL_S)

    def _bind(self, connection: Any, source: _Source) -> _Binding | None:
        """Bind a queue of our own to an exchange of nova's, which is never declared.

        Return None while the exchange is not there: whether it lasts is nova's choice.
        """
        channel = connection.channel()
        queue = QUEUE.format(self._host, source.purpose, uuid.uuid4())
        made = _Binding(channel, queue, source)
        bounds = {
            'x-max-length': self._longest,
            'x-max-length-bytes': MOST_BYTES,
            'x-overflow': 'drop-head',
            'x-message-ttl': OLDEST_S * 1000,
        }
        try:
            # First, as a queue that is bound to nothing would stay.
            channel.exchange_declare(source.exchange, '', passive=True)
            channel.queue_declare(
                queue, exclusive=True, auto_delete=True, arguments=bounds
            )
            made.bind()
        except amqp.NotFound as problem:
            channel.close()  # an error reopens it
            if source is self._sources[0]:
                self._lost(str(problem))
            return None
        channel.basic_consume(queue, no_ack=True, callback=source.take)
        if source is self._sources[0]:
            self._begin()
            LOG.info('Messages for schedulers are tapped')
        return made

    def _take_request(self, raw: Any) -> None:
        self._burst += 1
        self._take(raw)

    def _take(self, raw: Any) -> None:
        """Dispatch a message; nothing that it says or does may end the tap."""
        try:
            self._observer.tapped()
            context, message = unpacked(_body(raw))
        except Exception as problem:
            if self._unreadable.begins(type(problem).__name__):
                LOG.exception('A message that was tapped cannot be read')
            return
        try:
            self._dispatcher.dispatch(Tapped(context, message))
        except oslo_messaging.ExpectedException:
            pass  # it has its line in the log
        except Exception:
            LOG.exception('A message that was tapped has failed')

    def _take_notice(self, raw: Any) -> None:
        """Hear when nova-scheduler started or ended a request."""
        with contextlib.suppress(Exception):
            body = _body(raw)
            text = body if isinstance(body, bytes) else body.encode()
            if EVENT.encode() not in text:
                return
            context, message = unpacked(body)
            at = datetime.datetime.fromisoformat(message['timestamp'])
            self._observer.notified(
                Phase(
                    context['request_id'],
                    message['event_type'].removeprefix(EVENT),
                    at.replace(tzinfo=datetime.UTC).timestamp(),
                )
            )

    # -- what was listened to

    def _begin(self) -> None:
        now_s = self._clock.time()
        if self._until is not None:
            self._observer.missed(self._clock.monotonic() - self._until[1])
        self._keep(Interval(now_s, now_s))
        self.problem, self._burst = None, 0
        self._tried.set()
        self._failing.ends()

    def _extend(self, is_empty: bool = False) -> None:
        """Listening goes on where the queues are empty, unless messages were dropped
        since they were so before."""
        if self._until is None:
            return
        behind_s = self._clock.monotonic() - self._until[1]
        were_dropped = behind_s > OLDEST_S or self._burst >= self._longest
        if not is_empty:
            self.problem = BEHIND if were_dropped else self.problem
        elif self.problem is None or self.problem == BEHIND:
            if were_dropped:
                self._begin()
            else:
                since_s = self._intervals[-1].since_s
                self._keep(Interval(since_s, max(since_s, self._clock.time())))
            self._burst = 0

    def _keep(self, interval: Interval) -> None:
        """Keep an interval; its end is new if its beginning is not."""
        with self._lock:
            if self._intervals and self._intervals[-1].since_s == interval.since_s:
                self._intervals.pop()
            self._intervals.append(interval)
        self._until = interval.until_s, self._clock.monotonic()

    def _lost(self, problem: str) -> None:
        self.problem = problem
        self._tried.set()
        if self._failing.begins():
            LOG.warning('Messages for schedulers cannot be tapped: %s', problem)


def _drained(connection: Any, timeout_s: float) -> bool:
    """Take a message, or an answer; return False if none comes within that time."""
    try:
        connection.drain_events(timeout=timeout_s)
    except TimeoutError:
        return False
    return True


def _body(raw: Any) -> str | bytes:
    """Return the body of a message, which kombu may have compressed."""
    headers = raw.properties.get('application_headers') or {}
    if kind := headers.get('compression'):
        return bytes(compression.decompress(raw.body, kind))  # type: ignore[no-untyped-call]
    body: str | bytes = raw.body
    return body


def from_conf(
    conf: cfg.ConfigOpts,
    dispatcher: Any,
    requests: Requests,
    *,
    host: str,
    topic: str,
    observer: TapObserver,
) -> Tap:
    """Return a tap at the broker of the transport URL, connected as the driver would.

    Raises errors.OptionError for options with which no connection can be made.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    options = rabbit_options(conf, url)
    as_driven(options, url)
    return Tap(
        lambda: as_driven(options, url),
        dispatcher,
        requests,
        host=host,
        exchange=conf.control_exchange or CONTROL_EXCHANGE,
        topic=topic,
        notified=[f'{each}.info' for each in notifications.topics(conf)],
        observer=observer,
    )
