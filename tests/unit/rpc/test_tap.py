# SPDX-License-Identifier: Apache-2.0
"""A tap whose connection is played: what it dispatches, and when it listened."""

import json

import amqp
import pytest
from kombu import compression
from prometheus_client import Counter

from novasched.observability.requests import RequestTracker
from novasched.rpc.tap import BEHIND, LONGEST, OLDEST_S, REBIND_S, Tap, TapObserver
from tests.support.clouds.fakes import FakeClock

REQUEST = {'method': 'select_destinations', 'args': {}, 'version': '4.5'}


class Message:
    """A message as a broker delivers it."""

    def __init__(self, said, packed=None):
        text = json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(said)})
        headers, self.body = {}, text.encode()
        if packed:
            self.body, headers['compression'] = compression.compress(self.body, packed)
        self.properties = {'application_headers': headers}


class Channel:
    def __init__(self, connection):
        self._connection = connection
        connection.channels.append(self)

    def exchange_declare(self, exchange, kind, passive):
        assert passive
        self._find(exchange)

    def queue_declare(self, queue, **bounds):
        self.queue = queue

    def queue_bind(self, queue, exchange, key):
        self._find(exchange)

    def _find(self, exchange):
        if exchange in self._connection.missing:
            raise amqp.NotFound(f'no exchange {exchange}')

    def basic_consume(self, queue, no_ack, callback):
        assert no_ack
        self._connection.take[queue.split('.')[2]] = callback

    def close(self):
        self._connection.channels.remove(self)


class Broker:
    """Plays seconds that pass, calls, and messages of queues; then the tap ends."""

    def __init__(self, *played, missing=()):
        self.missing, self.channels, self.take = list(missing), [], {}
        self.clock, self.played = FakeClock(), [*played, 0]
        self.said, self.missed, self.phases = [], [], []
        observer = TapObserver()
        observer.missed, observer.notified = self.missed.append, self.phases.append
        self.tap = Tap(
            lambda: self,
            self,
            RequestTracker,
            host='ctl1',
            exchange='nova',
            topic='scheduler',
            notified=['notifications.info'],
            observer=observer,
            clock=self.clock,
        )
        self.problems = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """It stays open."""

    def channel(self):
        return Channel(self)

    def heartbeat_check(self):
        """Nothing."""

    def dispatch(self, incoming):
        self.said.append(incoming.message)

    def drain_events(self, timeout):
        self.problems.append(self.tap.problem)
        if len(self.played) <= 1:
            self.tap.stop()
        now = self.played.pop(0) if self.played else 0
        if callable(now):
            now = now() or 0
        if isinstance(now, int | float):
            self.clock.advance(now)
            raise TimeoutError
        took_s, queue, message = now
        self.take[queue](message)
        self.clock.advance(took_s)

    def run(self):
        self.tap.start()
        self.tap.wait()
        return self


@pytest.mark.parametrize('packed', [None, 'zlib'])
def test_request_is_dispatched(packed):
    broker = Broker((0, 'requests', Message(REQUEST, packed))).run()
    assert broker.said == [REQUEST]


def test_message_that_cannot_be_read_is_named_once(caplog):
    odd = Message(REQUEST)
    odd.body = b'{'
    broker = Broker(*[(0, 'requests', odd)] * 3, (0, 'requests', Message(REQUEST)))
    assert broker.run().said == [REQUEST]
    assert caplog.text.count('A message that was tapped cannot be read') == 1


def test_time_in_which_the_queues_are_emptied_is_listened_to():
    broker = Broker(1, (2, 'requests', Message(REQUEST)), 1, 1).run()
    (interval,) = broker.tap.intervals()
    assert interval.until_s - interval.since_s >= 3
    assert broker.missed == []


@pytest.mark.parametrize('seconds', [OLDEST_S - 10, OLDEST_S + 10])
def test_backlog_of_more_than_a_minute_is_a_gap(seconds):
    """Each request takes two seconds, and others wait meanwhile."""
    slow = [(2, 'requests', Message(REQUEST))] * (seconds // 2)
    broker = Broker(1, *slow, 1, 1).run()
    is_gap = seconds > OLDEST_S
    assert (len(broker.tap.intervals()), len(broker.missed)) == (1 + is_gap, is_gap)
    assert (BEHIND in broker.problems) is is_gap
    assert broker.tap.problem is None


def test_full_queue_is_a_gap():
    broker = Broker(1, *[(0, 'requests', Message(REQUEST))] * LONGEST, 1, 1).run()
    assert len(broker.missed) == 1


def test_many_casts_are_no_gap():
    broker = Broker(1, *[(0, 'casts', Message(REQUEST))] * LONGEST, 1, 1).run()
    assert broker.missed == []


def test_channel_of_an_exchange_that_is_missing_is_closed():
    broker = Broker(1, 1, 1, 1, 1, missing=['scheduler_fanout']).run()
    assert len(broker.channels) == 2
    assert broker.tap.problem is None


def test_exchange_that_goes_away_is_noticed():
    broker = Broker(REBIND_S, lambda: broker.missing.append('nova'), REBIND_S, 1, 1)
    assert 'no exchange nova' in broker.run().tap.problem


def test_interval_that_is_written_is_forgotten_once_it_has_ended():
    broker = Broker(1, OLDEST_S + 1, (0, 'requests', Message(REQUEST)), 1).run()
    first, last = broker.tap.intervals()
    broker.tap.forget([first])
    assert broker.tap.intervals() == [last]
    broker.tap.forget([last])
    assert broker.tap.intervals() == [last]


def test_clock_that_is_set_back_during_a_gap_ends_no_tap():
    def gap():
        broker.clock.set_back(3600)
        broker.clock.advance(OLDEST_S + 1)
        raise ConnectionError('the broker goes away')

    broker = Broker(1, gap, 1, 1)
    counted = Counter('gap', 'seconds', registry=None)
    broker.tap._observer.missed = counted.inc
    broker.run()
    assert broker.tap.problem is None
    assert counted.collect()[0].samples[0].value >= OLDEST_S
    assert all(each.since_s <= each.until_s for each in broker.tap.intervals())


def test_notification_that_cannot_be_unpacked_is_passed_over():
    odd = Message(REQUEST)
    odd.properties['application_headers']['compression'] = 'unknown'
    broker = Broker((0, 'notices', odd), (0, 'requests', Message(REQUEST))).run()
    assert broker.said == [REQUEST]
    assert not any(broker.problems)


@pytest.mark.parametrize(
    ('event', 'expected'),
    [('scheduler.select_destinations.end', ['end']), ('compute.instance.update', [])],
)
def test_notification_of_the_scheduler_is_heard(event, expected):
    said = {'event_type': event, 'timestamp': '2026-11-29 12:00:00.5'}
    said['_context_request_id'] = 'req-1'
    broker = Broker((0, 'notices', Message(said))).run()
    assert [each.name for each in broker.phases] == expected
