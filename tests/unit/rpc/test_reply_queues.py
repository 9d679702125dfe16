# SPDX-License-Identifier: Apache-2.0
"""Which callers read their answers, by looks at their reply queues."""

import threading
import time

import pytest

from novasched.rpc import reply_queues
from novasched.rpc.broker import BROKER_S
from novasched.rpc.reply_queues import (
    FRESH_S,
    GONE_FOR_S,
    KNOWN_QUEUES,
    LOOK_EVERY_S,
    Readers,
    ReplyQueues,
)
from tests.support.clouds.fakes import FakeClock
from tests.support.suite.waiting import eventually
from tests.support.tables.cases import cases

QUEUE = 'reply_1'


class Broker:
    """Counts consumers as given, one look after another; keeps what it is asked."""

    def __init__(self, *consumers):
        self.consumers = list(consumers)
        self.asked = []

    def count(self, names):
        names = list(names)
        self.asked += names
        count = self.consumers.pop(0) if len(self.consumers) > 1 else self.consumers[0]
        return dict.fromkeys(names, count)


SHORT_S = 0.5


class Queues(ReplyQueues):
    """Has no thread: the test looks."""

    def _wake(self):
        return None


@pytest.fixture
def clock():
    return FakeClock(seconds=1000.0)


def looked(clock, *consumers, gone_for_s=GONE_FOR_S):
    """Queues after as many looks as there are counts."""
    queues = Queues(Broker(*consumers).count, gone_for_s, clock)
    for _ in consumers:
        clock.advance(LOOK_EVERY_S)
        queues.expect(QUEUE)
        queues.look()
    return queues


@cases(
    'consumers, expected',
    ('a reader', [1], Readers.PRESENT),
    ('two', [2], Readers.PRESENT),
    ('the broker does not tell', [None], Readers.UNKNOWN),
    ('no reader now', [0], Readers.ABSENT),
    ('it reconnected', [0, 1], Readers.PRESENT),
    ('none for nearly five seconds', [0] * 10, Readers.ABSENT),
    ('none for five seconds', [0] * 11, Readers.GONE),
    ('none ever since', [0] * 20, Readers.GONE),
    ('it came back late', [*[0] * 11, 1], Readers.PRESENT),
    ('the broker was away', [*[0] * 10, None, 0], Readers.ABSENT),
    ('it was there in between', [*[0] * 10, 1, 0], Readers.ABSENT),
)
def test_a_caller_is_gone_when_its_queue_was_unread_for_a_while(
    clock, consumers, expected
):
    queues = looked(clock, *consumers)
    assert queues.readers(QUEUE) is expected
    assert queues.known(QUEUE) is expected


def test_a_caller_may_take_as_long_as_an_answer_is_tried_to_be_delivered(clock):
    assert looked(clock, *[0] * 120, gone_for_s=60).known(QUEUE) is Readers.ABSENT
    assert looked(clock, *[0] * 121, gone_for_s=60).known(QUEUE) is Readers.GONE


def test_a_caller_that_is_gone_is_named_once(clock, caplog):
    caplog.set_level('WARNING')
    looked(clock, *[0] * 40)
    (line,) = caplog.messages
    assert line.startswith(f'No consumer on reply queue {QUEUE} for ')


@cases(
    'elapsed_s, looks',
    ('a moment later', LOOK_EVERY_S - 0.1, 1),
    ('later', LOOK_EVERY_S, 2),
)
def test_requests_of_one_caller_share_a_look(clock, elapsed_s, looks):
    broker = Broker(1)
    queues = Queues(broker.count, clock=clock)
    for _ in range(3):
        queues.expect(QUEUE)
    queues.look()
    clock.advance(elapsed_s)
    for _ in range(3):
        queues.expect(QUEUE)
    queues.look()
    assert broker.asked == [QUEUE] * looks


def test_all_queues_are_looked_at_together(clock):
    broker = Broker(1)
    queues = Queues(broker.count, clock=clock)
    queues.expect('a')
    queues.expect('b')
    queues.look()
    queues.look()
    assert broker.asked == ['a', 'b']


@cases(
    'consumers, looks',
    ('not at one that is read', [1], 1),
    ('not at one of which nothing is known', [None], 1),
    ('at one without reader, until it has one', [0, 0, 0, 1], 4),
    ('at one without reader, until it is decided', [0], 11),
)
def test_looks_go_on_by_themselves(clock, consumers, looks):
    broker = Broker(*consumers)
    queues = Queues(broker.count, clock=clock)
    queues.expect(QUEUE)
    for _ in range(30):
        queues.look()
        clock.advance(LOOK_EVERY_S)
    assert len(broker.asked) == looks


def test_looks_go_on_while_somebody_watches(clock):
    broker = Broker(0)
    queues = Queues(broker.count, clock=clock)
    told = []
    queues.on_look = lambda *what: told.append(what)
    queues.watch(QUEUE)
    for _ in range(20):
        queues.look()
        clock.advance(LOOK_EVERY_S)
    queues.unwatch(QUEUE)
    queues.look()
    assert told == [(QUEUE, Readers.ABSENT)] * 10 + [(QUEUE, Readers.GONE)] * 10


def test_old_consumer_count_is_not_believed(clock):
    queues = looked(clock, 0)
    clock.advance(FRESH_S + 0.1)
    queues._queues[QUEUE].wanted_at = clock.monotonic() - BROKER_S
    assert queues.readers(QUEUE) is Readers.UNKNOWN


def test_queues_that_are_not_used_are_forgotten_but_those_that_are_watched(clock):
    queues = looked(clock, 1)
    queues.watch('watched')
    for number in range(KNOWN_QUEUES):
        queues.expect(f'reply_{number}_')
    assert queues.known('watched') is Readers.UNKNOWN
    assert len(queues._queues) == KNOWN_QUEUES
    assert QUEUE not in queues._queues


# -- with its thread


@pytest.fixture
def running():
    """Make queues with a thread."""
    made = []

    def make(count, **options):
        made.append(ReplyQueues(count, **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_a_request_waits_for_the_first_look(running):
    assert running(Broker(1).count).readers(QUEUE) is Readers.PRESENT


def test_a_broker_that_hangs_is_waited_for_once(running):
    hangs = threading.Event()

    def count(names):
        hangs.wait()
        return {}

    queues = running(count, within_s=SHORT_S)
    took_s = []
    try:
        for _ in range(4):
            since = time.monotonic()
            assert queues.readers(QUEUE) is Readers.UNKNOWN
            took_s.append(time.monotonic() - since)
        assert took_s[0] >= SHORT_S > 2 * min(took_s)
    finally:
        hangs.set()


def test_a_look_that_fails_is_not_the_last(running, caplog):
    counts = iter([KeyError('x'), 1])

    def count(names):
        if isinstance(counted := next(counts), Exception):
            raise counted
        return dict.fromkeys(names, counted)

    queues = running(count)
    assert queues.readers(QUEUE) is Readers.UNKNOWN
    assert queues.readers('reply_2') is Readers.PRESENT
    (line,) = caplog.messages
    assert line == 'The consumers of reply queues cannot be read from the broker'


def test_a_thread_that_cannot_be_started_is_started_later(caplog):
    starts = [False, True]

    def start(thread):
        if not starts.pop(0):
            raise RuntimeError("can't start new thread")
        thread.start()

    queues = ReplyQueues(Broker(1).count, start=start)
    queues.expect(QUEUE)
    assert caplog.messages == [
        "Reply queues are not looked at now: can't start new thread"
    ]
    queues.watch(QUEUE)
    assert queues.readers(QUEUE) is Readers.PRESENT
    queues.stop()


def test_failure_after_a_read_does_not_end_the_reads(running, caplog):
    queues, seen = running(Broker(1).count), []

    def on_look(name, readers):
        seen.append(name)
        raise RuntimeError("can't start new thread")

    queues.on_look = on_look
    queues.watch(QUEUE)
    eventually(lambda: len(seen) >= 3)
    assert caplog.messages == ['A look at the reply queues failed']


def test_the_thread_looks_by_itself_and_starts_again_after_a_stop(running):
    broker = Broker(1)
    queues = running(broker.count)
    queues.expect(QUEUE)
    eventually(lambda: queues.known(QUEUE) is Readers.PRESENT)
    queues.stop()
    assert queues.readers('reply_2') is Readers.PRESENT


def test_a_look_is_fresh_for_longer_than_until_the_next():
    assert reply_queues.LOOK_EVERY_S < reply_queues.FRESH_S < BROKER_S
