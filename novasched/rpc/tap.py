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
OLDEST_S = 60
"""Seconds after which a message that waits is dropped."""
RETRY_S = 2.0
POLL_S = 1.0
STALL_S = 5.0
"""A tap that did nothing for so long was paused, and its queue grew meanwhile."""
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
            _Source('requests', exchange, [topic], self._take),
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
        self._lock = threading.Lock()
        self._intervals: list[Interval] = []  # those that were not asked for yet
        self._until: tuple[float, float] | None = None  # the last one's, by both clocks
        self._burst = 0  # messages since the queues were empty
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
        """Return the times in which it listened, which end or are new since the last
        call; only the last one may go on."""
        with self._lock:
            found, self._intervals = self._intervals, self._intervals[-1:]
        return found

    # -- the thread

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except UNANSWERED as problem:
                self._lost(f'{type(problem).__name__}: {problem}')
                self._ended.wait(RETRY_S)

    def _listen(self, connection: Any) -> None:
        missing, due_s = self._sources, self._clock.monotonic()
        while not self._ended.is_set():
            if self._clock.monotonic() >= due_s:
                missing = [s for s in missing if not self._bind(connection, s)]
                connection.heartbeat_check()
                due_s = self._clock.monotonic() + POLL_S
            is_empty = False
            try:
                connection.drain_events(timeout=POLL_S)
            except TimeoutError:
                is_empty, self._burst = True, 0
            if self.problem is None:
                self._extend(is_empty)

    def _bind(self, connection: Any, source: _Source) -> bool:
        """Bind a queue of our own to an exchange of nova's, which is never declared.

        Return False while the exchange is not there: whether it lasts is nova's choice.
        """
        channel = connection.channel()
        queue = QUEUE.format(self._host, source.purpose, uuid.uuid4())
        bounds = {
            'x-max-length': self._longest,
            'x-overflow': 'drop-head',
            'x-message-ttl': OLDEST_S * 1000,
        }
        try:
            # First, as a queue that is bound to nothing would stay.
            channel.exchange_declare(source.exchange, '', passive=True)
            channel.queue_declare(
                queue, exclusive=True, auto_delete=True, arguments=bounds
            )
            for key in source.keys:
                channel.queue_bind(queue, source.exchange, key)
        except amqp.NotFound as problem:
            if source is self._sources[0]:
                self._lost(str(problem))
            return False
        channel.basic_consume(queue, no_ack=True, callback=source.take)
        if source is self._sources[0]:
            self._begin()
        return True

    def _take(self, raw: Any) -> None:
        """Dispatch a message; nothing that it says or does may end the tap."""
        self._burst += 1
        self._observer.tapped()
        try:
            context, message = unpacked(raw.body)
            self._dispatcher.dispatch(Tapped(context, message))
        except oslo_messaging.ExpectedException:
            pass  # it has its line in the log
        except Exception:
            LOG.exception('A message that was tapped has failed')

    def _take_notice(self, raw: Any) -> None:
        """Hear when nova-scheduler started or ended a request."""
        with contextlib.suppress(
            ValueError, TypeError, KeyError, oslo_messaging.MessagingException
        ):
            context, message = unpacked(raw.body)
            event, sent = message['event_type'], message['timestamp']
            if event.startswith(EVENT):
                at = datetime.datetime.fromisoformat(sent).replace(tzinfo=datetime.UTC)
                name, request_id = event.removeprefix(EVENT), context['request_id']
                self._observer.notified(Phase(request_id, name, at.timestamp()))

    # -- what was listened to

    def _begin(self) -> None:
        now_s = self._clock.time()
        if self._until is not None:
            self._observer.missed(now_s - self._until[0])
        self._keep(Interval(now_s, now_s))
        self.problem, self._burst = None, 0
        self._tried.set()
        if self._failing.ends():
            LOG.info('Messages for schedulers are tapped again')

    def _extend(self, is_empty: bool) -> None:
        """Listening goes on, unless messages were dropped during a pause.

        After a pause that is known only once the queues are empty.
        """
        assert self._until is not None
        pause_s = self._clock.monotonic() - self._until[1]
        is_long = pause_s > STALL_S
        if pause_s > OLDEST_S or (is_long and self._burst >= self._longest):
            self._begin()
        elif is_empty or not is_long:
            self._keep(Interval(self._intervals[-1].since_s, self._clock.time()))

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
