# SPDX-License-Identifier: Apache-2.0
"""What the broker is asked, and what stands for no answer."""

import contextlib
import logging
import threading
from types import SimpleNamespace

import amqp

from novasched.rpc.broker import BROKER_S, CLOCK_EVERY_S, Broker, BrokerClock, waited_s
from tests.support.tables.cases import cases

NOW_S = 10_000.0


class Channel:
    """Counts the consumers of queues, or raises; stamps the messages it gets."""

    def __init__(self, outcome, headers=None):
        self._outcome = outcome
        self._headers = headers
        self._messages = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def queue_declare(self, queue, passive=False, exclusive=False):
        assert passive is not exclusive
        outcome = self._outcome
        if passive and isinstance(outcome, dict):
            outcome = outcome[queue]
        if isinstance(outcome, Exception):
            raise outcome
        return SimpleNamespace(queue='amq.gen-1', consumer_count=outcome)

    def basic_publish(self, message, routing_key):
        assert routing_key == 'amq.gen-1'
        self._messages.append(message)

    def basic_get(self, queue, no_ack):
        assert no_ack
        return SimpleNamespace(headers=self._headers) if self._messages else None

    def queue_delete(self, queue):
        assert queue == 'amq.gen-1'


class Rabbit:
    """A connection of oslo.messaging, as far as it is looked into."""

    def __init__(self, *channel):
        self._connection_lock = threading.Lock()
        self.connection = SimpleNamespace(channel=lambda: Channel(*channel))
        self.timeouts = []

    def set_transport_socket_timeout(self, timeout=None):
        self.timeouts.append(timeout)


def broker(*channel):
    rabbit = Rabbit(*channel)
    borrowed = SimpleNamespace(connection=rabbit)
    driver = SimpleNamespace(_get_connection=lambda: contextlib.nullcontext(borrowed))
    return Broker(driver, SimpleNamespace(time=lambda: NOW_S)), rabbit


@cases(
    'outcome, expected',
    ('consumers', 2, 2),
    ('none', 0, 0),
    ('no queue', amqp.NotFound('gone'), 0),
    ('a queue of one connection', amqp.ResourceLocked('mine'), 1),
    ('no right to know', amqp.AccessRefused('no'), None),
    ('the broker stops', amqp.ConnectionForced('bye'), None),
    ('the broker hangs', TimeoutError(), None),
    ('another oslo.messaging', AttributeError('_x'), None),
)
def test_the_broker_counts_who_reads_a_queue(outcome, expected):
    asked, rabbit = broker(outcome)
    assert asked.consumers(['q']) == {'q': expected}
    assert rabbit.timeouts == [BROKER_S, None]


def test_a_queue_that_is_gone_says_nothing_about_the_next():
    outcomes = amqp.NotFound('gone'), amqp.AccessRefused('no'), 1, OSError('cut'), 1
    asked, _ = broker(dict(zip('abcde', outcomes, strict=True)))
    assert asked.consumers('abcde') == {'a': 0, 'b': None, 'c': 1, 'd': None, 'e': None}


def test_a_message_layer_without_a_broker_tells_nothing():
    asked = Broker(SimpleNamespace())
    assert asked.consumers(['q']) == {'q': None}
    assert asked.clock_behind_s() is None


@cases(
    'outcome, headers, expected',
    ('behind', 0, {'timestamp_in_ms': 9_910_000}, 90.0),
    ('ahead', 0, {'timestamp_in_ms': 10_090_000}, -90.0),
    ('nonsense', 0, {'timestamp_in_ms': 'x'}, None),
    ('no stamp', 0, {}, None),
    ('no headers', 0, None, None),
    ('no right to a queue', amqp.AccessRefused('no'), {}, None),
)
def test_the_broker_stamps_a_message_of_ours(outcome, headers, expected):
    assert broker(outcome, headers)[0].clock_behind_s() == expected


# -- its clock


class Measured:
    """Gives what a clock is behind, one after another; the last one for ever."""

    def __init__(self, *behind_s):
        self._behind_s = list(behind_s)
        self.times = 0
        self.now = 0.0

    def time(self):
        return NOW_S

    def monotonic(self):
        return self.now

    def __call__(self):
        self.times += 1
        left = self._behind_s
        return left.pop(0) if len(left) > 1 else left[0]

    def clock(self):
        return BrokerClock(self, self)


@cases(
    'behind_s, known, expected',
    ('behind', 90.0, True, NOW_S - 90),
    ('ahead', -90.0, True, NOW_S + 90),
    ('unknown', None, False, NOW_S),
)
def test_the_brokers_time_is_ours_less_what_it_is_behind(behind_s, known, expected):
    clock = Measured(behind_s).clock()
    assert clock.is_known() is known
    assert clock() == expected


def test_clocks_are_compared_now_and_then():
    measured = Measured(0.0)
    clock = measured.clock()
    for _ in range(3):
        clock.is_known()
    assert measured.times == 1
    measured.now = CLOCK_EVERY_S + 1
    clock.is_known(5)
    assert measured.times == 2


def test_a_comparison_that_is_asked_for_early_is_waited_for():
    measured = Measured(0.0, 100.0)
    clock = measured.clock()
    clock.is_known()
    measured.now = 6.0
    clock.is_known(5)
    assert clock() == NOW_S - 100


@cases(
    'behind_s, said',
    ('behind', [90.0, 91.0], ['The clock of the broker is 90 s behind ours']),
    ('ahead', [-90.0], ['The clock of the broker is 90 s ahead of ours']),
    ('too little to matter', [59.0], []),
    ('unknown', [None], []),
    (
        'again',
        [90.0, 0.0, 95.0],
        [
            'The clock of the broker is 90 s behind ours',
            'The clock of the broker is 95 s behind ours',
        ],
    ),
)
def test_clocks_that_differ_by_much_are_named_once(caplog, behind_s, said):
    caplog.set_level(logging.WARNING)
    measured = Measured(*behind_s)
    clock = measured.clock()
    for _ in range(4):
        clock.is_known(1)
        measured.now += 2
    assert caplog.messages == said


def test_a_comparison_that_hangs_is_not_waited_for_any_longer():
    hangs = threading.Event()
    clock = BrokerClock(lambda: hangs.wait() and None, within_s=0.1)
    try:
        assert clock.is_known() is False
    finally:
        hangs.set()


# -- how long messages waited


class Message(dict):
    """A message, with or without what the broker adds."""

    def __init__(self, headers=None):
        super().__init__(method='select_destinations')
        if headers is not None:
            self._raw_message = SimpleNamespace(headers=headers)


STOPWATCH = SimpleNamespace(elapsed=lambda: 0.5)


@cases(
    'headers, stopwatch, expected',
    ('the broker says', {'timestamp_in_ms': 98_000}, STOPWATCH, 2.0),
    ('clocks differ', {'timestamp_in_ms': 101_000}, STOPWATCH, 0.0),
    ('it says nonsense', {'timestamp_in_ms': 'x'}, STOPWATCH, 0.5),
    ('it says nothing', {}, STOPWATCH, 0.5),
    ('there is no broker', None, STOPWATCH, 0.5),
    ('nobody knows', None, None, None),
)
def test_the_wait_is_since_the_broker_or_else_a_worker_got_it(
    headers, stopwatch, expected
):
    incoming = SimpleNamespace(message=Message(headers))
    if stopwatch:
        incoming.stopwatch = stopwatch
    assert waited_s(incoming, lambda: 100.0) == expected
