# SPDX-License-Identifier: Apache-2.0
"""Whether somebody waits for the answer, by what the message layer tells."""

from __future__ import annotations

import contextlib
import threading
import time
from types import SimpleNamespace

import amqp
import oslo_messaging
import pytest

from novasched.ports import CallerGone
from novasched.rpc import caller as callers
from novasched.rpc.caller import (
    CLOCKS_DIFFER_S,
    GONE_FOR_S,
    LOOK_AFTER_S,
    Patience,
    RpcCaller,
    calling,
    current,
    reassure,
)

NOW_S = 10_000.0


class Message(dict):
    """A message as RabbitMQ brings it: ``sent_s`` is its time, when it says one."""

    def __init__(self, expires_ms=None, sent_s=None):
        super().__init__(method='select_destinations')
        headers = {} if sent_s is None else {'timestamp_in_ms': sent_s * 1000}
        properties = {} if expires_ms is None else {'expiration': expires_ms}
        self._raw_message = SimpleNamespace(headers=headers, properties=properties)


def incoming(elapsed_s=0.0, timeout=None, **message):
    return SimpleNamespace(
        message=Message(**message),
        client_timeout=timeout,
        stopwatch=SimpleNamespace(elapsed=lambda: elapsed_s),
        reply_q='reply',
    )


def caller(received, *consumers):
    """The caller of a message; the broker counts consumers as given, one by one."""
    counted = iter(consumers)
    slept = []
    made = RpcCaller(received, lambda: next(counted), lambda: NOW_S, slept.append)
    return made, slept


# -- its turn


@pytest.mark.parametrize(
    ('received', 'is_late'),
    [
        pytest.param(incoming(9, expires_ms='10000'), False, id='in time'),
        pytest.param(incoming(11, expires_ms='10000'), True, id='it has expired'),
        pytest.param(
            incoming(11, timeout=10, expires_ms='99000'),
            True,
            id='no sign of life in time',
        ),
        pytest.param(incoming(9, timeout=10), False, id='a sign of life in time'),
        pytest.param(
            incoming(59.5, timeout=60), True, id='a sign of life would come too late'
        ),
        pytest.param(incoming(58, timeout=60), False, id='it comes just in time'),
        pytest.param(incoming(0.85, timeout=1), False, id='in time, for a short time'),
        pytest.param(
            incoming(59.5, timeout=600, expires_ms='60000'), False, id='an answer'
        ),
        pytest.param(incoming(9999), False, id='nobody knows how long'),
        pytest.param(incoming(9999, timeout='x'), False, id='nonsense'),
        pytest.param(incoming(9999, timeout=0, expires_ms='-1'), False, id='no time'),
        pytest.param(
            incoming(timeout=10, sent_s=NOW_S - CLOCKS_DIFFER_S - 11),
            True,
            id='it waited at the broker',
        ),
        pytest.param(
            incoming(timeout=10, sent_s=NOW_S - CLOCKS_DIFFER_S - 9),
            False,
            id='the clock of the broker may be slow',
        ),
        pytest.param(
            incoming(timeout=10, expires_ms='60000', sent_s=NOW_S - 3600),
            False,
            id='the clock of the broker must be slow',
        ),
        pytest.param(SimpleNamespace(message={}), False, id='another message layer'),
    ],
)
def test_who_waited_too_long_gets_no_turn(received, is_late):
    made, _ = caller(received)
    with pytest.raises(CallerGone) if is_late else contextlib.nullcontext():
        made.check_turn()


@pytest.mark.parametrize(
    ('waits_s', 'timeout', 'signs'),
    [
        pytest.param(58, 60, 1, id='it waits for long already'),
        pytest.param(29, 60, 0, id='there is time'),
        pytest.param(9999, None, 0, id='it needs none'),
    ],
)
def test_who_waits_for_long_gets_a_sign_of_life_at_once(waits_s, timeout, signs):
    received, sent = incoming(waits_s, timeout=timeout), []
    received.heartbeat = lambda: sent.append(1)
    caller(received)[0].check_turn()
    assert len(sent) == signs


def test_a_sign_of_life_that_came_too_late_is_none():
    received = incoming(58, timeout=60)

    def heartbeat():
        received.stopwatch.elapsed = lambda: 61

    received.heartbeat = heartbeat
    with pytest.raises(CallerGone, match='after 61 s, and its caller waits 60 s'):
        caller(received)[0].check_turn()


# -- the answer


def test_an_answer_after_the_deadline_is_for_nobody():
    made, _ = caller(incoming(LOOK_AFTER_S - 1, expires_ms='1000'))
    with pytest.raises(CallerGone, match='it took 4 s, and its caller waits 1 s'):
        made.check()


def test_signs_of_life_keep_a_caller_waiting():
    made, _ = caller(incoming(LOOK_AFTER_S - 1, timeout=1))
    made.check()


def test_the_broker_is_not_asked_about_short_requests():
    made, _ = caller(incoming(LOOK_AFTER_S - 1))
    made.check()


@pytest.mark.parametrize(
    'consumers',
    [
        pytest.param([1], id='it is there'),
        pytest.param([None], id='nobody can tell'),
        pytest.param([0, 0, 1], id='it connects anew'),
        pytest.param([0, None], id='the broker is away'),
    ],
)
def test_who_is_there_gets_the_answer_of_a_long_request(consumers):
    made, slept = caller(incoming(LOOK_AFTER_S + 1), *consumers)
    made.check()
    assert len(slept) == len(consumers) - 1


@pytest.mark.parametrize(
    ('retry_s', 'expected_s'),
    [
        pytest.param(60, 60, id='as long as an answer is tried to be delivered'),
        pytest.param(1, GONE_FOR_S, id='at least for a while'),
        pytest.param(None, GONE_FOR_S, id='another message layer'),
    ],
)
def test_who_is_gone_for_long_gets_none(retry_s, expected_s):
    received = incoming(LOOK_AFTER_S + 1)
    driver = SimpleNamespace(missing_destination_retry_timeout=retry_s)
    received.listener = SimpleNamespace(driver=driver)
    made, slept = caller(received, *[0] * 200)
    with pytest.raises(CallerGone, match='does not read answers'):
        made.check()
    assert sum(slept) == expected_s


@pytest.mark.parametrize(
    'reply_q', [pytest.param('', id='empty'), pytest.param(None, id='none')]
)
def test_a_message_without_a_reply_queue_is_served(reply_q):
    received = incoming(LOOK_AFTER_S + 1)
    received.reply_q = reply_q
    caller(received)[0].check()


def test_a_message_that_tells_nothing_is_served():
    caller(SimpleNamespace(message={}))[0].check()


def test_patience_is_in_seconds():
    assert Patience.of(incoming(timeout='7', expires_ms='1500')) == (1.5, 7.0)


# -- who is served


def test_who_waits_is_known_while_a_message_is_served():
    assert current() is None
    done = []
    with calling(incoming()):
        current().when_answered(lambda: done.append('answered'))
        assert done == []
    assert done == ['answered']
    assert current() is None


def test_who_waits_is_told_even_of_a_defect():
    done = []

    def serve():
        with calling(incoming()):
            current().when_answered(lambda: done.append('answered'))
            raise KeyError

    with pytest.raises(KeyError):
        serve()
    assert done == ['answered']


# -- signs of life


class Event:
    """Says whether the request is answered, and keeps how long it was waited for."""

    def __init__(self, answered):
        self._answered = answered

    def wait(self, seconds):
        return self._answered


@pytest.mark.parametrize(
    ('timeout', 'answered', 'beats'),
    [
        pytest.param(60, False, 1, id='a long request'),
        pytest.param(60, True, 0, id='a short request'),
        pytest.param(None, False, 0, id='a caller that needs none'),
    ],
)
def test_a_caller_soon_learns_that_it_is_served(timeout, answered, beats):
    received, sent = incoming(timeout=timeout), []
    received.heartbeat = lambda: sent.append(1)
    reassure(Event(answered), received)
    assert len(sent) == beats


@pytest.mark.parametrize(
    'problem',
    [oslo_messaging.MessageDeliveryFailure(), OSError(), AttributeError('heartbeat')],
)
def test_a_sign_of_life_that_fails_is_no_matter(problem):
    received = incoming(timeout=60)

    def heartbeat():
        raise problem

    received.heartbeat = heartbeat
    reassure(Event(False), received)


# -- the broker


class Channel:
    """Counts the consumers of a queue, or raises."""

    def __init__(self, outcome):
        self._outcome = outcome

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def queue_declare(self, queue, passive):
        assert (queue, passive) == ('reply', True)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return SimpleNamespace(consumer_count=self._outcome)


def connected(outcome):
    """A message of a driver of oslo.messaging, as far as it is looked into."""
    kombu = SimpleNamespace(channel=lambda: Channel(outcome))
    rabbit = SimpleNamespace(_connection_lock=threading.Lock(), connection=kombu)
    borrowed = SimpleNamespace(connection=rabbit)
    received = incoming(LOOK_AFTER_S + 1)
    driver = SimpleNamespace(_get_connection=lambda: contextlib.nullcontext(borrowed))
    received.listener = SimpleNamespace(driver=driver)
    return received


@pytest.mark.parametrize(
    ('outcome', 'expected'),
    [
        pytest.param(2, 2, id='consumers'),
        pytest.param(0, 0, id='none'),
        pytest.param(amqp.NotFound('gone'), 0, id='no queue'),
        pytest.param(amqp.ConnectionForced('bye'), None, id='the broker stops'),
        pytest.param(OSError('cut'), None, id='the connection breaks'),
    ],
)
def test_the_broker_counts_who_reads_the_answer(outcome, expected):
    assert callers._counting(connected(outcome))() == expected


def test_a_message_layer_that_has_changed_tells_nothing():
    assert callers._counting(incoming())() is None
    RpcCaller(incoming(LOOK_AFTER_S + 1)).check()


def test_the_broker_is_asked_without_being_told_how():
    RpcCaller(connected(1)).check()


def test_a_broker_that_hangs_is_not_waited_for():
    hangs = threading.Event()
    since = time.monotonic()
    try:
        assert callers._within(0.01, hangs.wait) is None
    finally:
        hangs.set()
    assert time.monotonic() - since < 5
