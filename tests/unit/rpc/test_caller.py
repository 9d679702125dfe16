# SPDX-License-Identifier: Apache-2.0
"""Whether somebody waits for the answer, by what the message layer tells."""

import contextlib
from types import SimpleNamespace

import oslo_messaging
import pytest

from novasched.ports import CallerGone
from novasched.rpc.broker import BrokerClock
from novasched.rpc.caller import (
    CLOCK_IS_NEW_S,
    CLOCKS_DIFFER_S,
    Patience,
    RpcCaller,
    calling,
    current,
    trace_parent,
)
from novasched.rpc.reply_queues import Readers
from tests.support.tables.cases import cases

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


class Queues:
    """Knows of each queue what the test says; keeps which are expected."""

    def __init__(self, readers=Readers.PRESENT):
        self._readers = readers
        self.expected = []

    def expect(self, name):
        self.expected.append(name)

    def readers(self, name):
        assert name == 'reply'
        return self._readers


def clock(*behind_s):
    """A broker's clock that is found to be so far behind ours, one after another."""
    left = list(behind_s)
    times = iter(range(0, 10_000, 10))
    ours = SimpleNamespace(time=lambda: NOW_S, monotonic=lambda: float(next(times)))
    return BrokerClock(lambda: left.pop(0), ours)


def caller(received, behind_s=0.0):
    """The caller of a message; the clock of the broker is so far behind ours."""
    return RpcCaller(received, Queues(), broker_clock=clock(behind_s, behind_s))


class Stopwatch:
    """Time since a request came, also as a monotonic clock."""

    now = 0.0

    def elapsed(self):
        return self.now

    monotonic = elapsed


class Served:
    """A request of a caller that wants a sign of life within ``sign_s``.

    ``outcomes`` are those of its signs: None, or what is raised.
    """

    def __init__(self, sign_s=60, readers=Readers.PRESENT, **message):
        self.watch, self.queues, self.sent = Stopwatch(), Queues(readers), []
        self.outcomes = []
        received = incoming(timeout=sign_s, **message)
        received.stopwatch = self.watch
        received.heartbeat = self._heartbeat
        self.caller = RpcCaller(received, self.queues, clock=self.watch)

    def _heartbeat(self):
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.sent.append(self.watch.now)

    def runs(self, until_s):
        """Send signs of life until that time."""
        self.caller.reassure(Until(self.watch, until_s))
        self.watch.now = until_s


class Until:
    """Is set at that time; waiting for it takes none."""

    def __init__(self, watch, until_s):
        self._watch, self._until_s = watch, until_s

    def wait(self, seconds):
        self._watch.now += seconds
        return self._watch.now >= self._until_s


# -- its turn


@cases(
    'received, is_late',
    ('in time', incoming(9, expires_ms='10000'), False),
    ('it has expired', incoming(11, expires_ms='10000'), True),
    ('no sign of life in time', incoming(11, timeout=10, expires_ms='99000'), True),
    ('a sign of life in time', incoming(9, timeout=10), False),
    ('a sign of life would come too late', incoming(59.5, timeout=60), True),
    ('it comes just in time', incoming(58, timeout=60), False),
    ('in time, for a short time', incoming(0.85, timeout=1), False),
    ('an answer', incoming(59.5, timeout=600, expires_ms='60000'), False),
    ('nobody knows how long', incoming(9999), False),
    ('nonsense', incoming(9999, timeout='x'), False),
    ('no time', incoming(9999, timeout=0, expires_ms='-1'), False),
    (
        'it waited at the broker',
        incoming(timeout=10, sent_s=NOW_S - CLOCKS_DIFFER_S - 11),
        True,
    ),
    (
        'clocks of several brokers may differ',
        incoming(timeout=10, sent_s=NOW_S - CLOCKS_DIFFER_S - 9),
        False,
    ),
    (
        'a broker must have another clock',
        incoming(timeout=10, expires_ms='60000', sent_s=NOW_S - 3600),
        False,
    ),
    ('another message layer', SimpleNamespace(message={}), False),
)
def test_late_request_is_refused_before_processing(received, is_late):
    made = caller(received)
    with pytest.raises(CallerGone) if is_late else contextlib.nullcontext():
        made.check_turn()


@cases(
    'behind_s, stamp_s, is_late',
    ('one stamp alone proves nothing', None, 3600, False),
    ('the clocks agree', 0.0, 100, True),
    ('a new request, by a clock behind', 89.0, 89, False),
    ('a new request, by one far behind', 1830.0, 1830, False),
    ('an old request, by a clock behind', 600.0, 700, True),
    ('a new request, by a clock ahead', -90.0, -90, False),
    ('an old request, by a clock ahead', -90.0, 10, True),
)
def test_no_clock_of_a_broker_refuses_what_is_new(behind_s, stamp_s, is_late):
    received = incoming(timeout=60, expires_ms='1800000', sent_s=NOW_S - stamp_s)
    made = caller(received, behind_s)
    with pytest.raises(CallerGone) if is_late else contextlib.nullcontext():
        made.check_turn()


def test_clocks_are_compared_once_more_before_a_request_is_refused():
    assert CLOCK_IS_NEW_S < 10  # seconds between two looks at the clock
    received = incoming(timeout=60, sent_s=NOW_S - 200)
    RpcCaller(received, Queues(), broker_clock=clock(0.0, 200.0)).check_turn()


@cases(
    'waits_s, timeout, signs',
    ('it waits for long already', 58, 60, 1),
    ('there is time', 29, 60, 0),
    ('it needs none', 9999, None, 0),
)
def test_request_that_waited_long_gets_a_heartbeat_at_once(waits_s, timeout, signs):
    received, sent = incoming(waits_s, timeout=timeout), []
    received.heartbeat = lambda: sent.append(1)
    caller(received).check_turn()
    assert len(sent) == signs


def test_a_sign_of_life_that_came_too_late_is_none():
    received = incoming(58, timeout=60)

    def heartbeat():
        received.stopwatch.elapsed = lambda: 61

    received.heartbeat = heartbeat
    with pytest.raises(CallerGone, match='after 61 s, and its caller waits 60 s'):
        caller(received).check_turn()


# -- the answer


def test_caller_is_gone_after_its_deadline():
    made = caller(incoming(4, expires_ms='1000'))
    with pytest.raises(CallerGone, match='it took 4 s, and its caller waits 1 s'):
        made.check()


def test_signs_of_life_keep_a_caller_waiting():
    served = Served()
    served.runs(600)
    served.caller.check()


@cases(
    'served, elapsed_s, signed, is_gone',
    ('it waits for the first sign', Served(), 59, False, False),
    ('it got none', Served(), 60, False, True),
    ('it needs none', Served(None), 9999, False, False),
    ('it waits for another', Served(), 60, True, False),
    ('it got no other', Served(), 61, True, True),
    ('it did not read it', Served(readers=Readers.ABSENT), 60, True, True),
    ('no answer', Served(None, expires_ms='9000'), 10, False, True),
)
def test_a_caller_without_a_sign_of_life_has_given_up(
    served, elapsed_s, signed, is_gone
):
    if signed:
        served.runs(2)
    served.watch.now = elapsed_s
    assert served.caller.has_timed_out == is_gone
    with pytest.raises(CallerGone) if is_gone else contextlib.nullcontext():
        served.caller.check()


def test_a_sign_of_life_after_a_caller_gave_up_keeps_it_gone():
    served = Served()
    served.watch.now = 61
    served.caller._tell()
    assert served.caller.has_timed_out


@cases(
    'served, elapsed_s, left_s',
    ('a new request', Served(), 0, 30),
    ('signs of life failed', Served(), 45, 15),
    ('it has given up', Served(), 70, 0),
    ('the answer comes first', Served(expires_ms='9000'), 4, 5),
    ('nobody knows', Served(None), 4, None),
)
def test_how_long_a_caller_still_waits_for_certain(served, elapsed_s, left_s):
    served.watch.now = elapsed_s
    assert served.caller.patience_left_s() == left_s


def test_a_caller_waits_from_its_last_sign_of_life():
    served = Served()
    served.runs(42)
    served.watch.now = 80
    assert served.sent == [1, 31]
    assert served.caller.patience_left_s() == 60 - (80 - 31)


def test_a_look_at_the_reply_queue_begins_with_the_turn_of_a_request():
    queues = Queues()
    RpcCaller(incoming(), queues).check_turn()
    assert queues.expected == ['reply']


@cases(
    'readers, has_room, why',
    ('it is there', Readers.PRESENT, False, None),
    ('nobody can tell', Readers.UNKNOWN, False, None),
    ('its answer can wait for it', Readers.ABSENT, True, None),
    ('too many wait', Readers.ABSENT, False, 'too many wait'),
    ('it is gone', Readers.GONE, True, 'does not read answers'),
)
def test_a_caller_that_is_gone_gets_no_claim(readers, has_room, why):
    made = RpcCaller(incoming(), Queues(readers), lambda: has_room)
    with pytest.raises(CallerGone, match=why) if why else contextlib.nullcontext():
        made.check()


def test_the_log_has_one_line_for_all_requests_of_a_caller_that_is_gone():
    made = RpcCaller(incoming(), Queues(Readers.GONE))
    with pytest.raises(CallerGone) as raised:
        made.check()
    assert raised.value.logged


@pytest.mark.parametrize(
    'reply_q', [pytest.param('', id='empty'), pytest.param(None, id='none')]
)
def test_a_message_without_a_reply_queue_is_served(reply_q):
    received, queues = incoming(), Queues(Readers.GONE)
    received.reply_q = reply_q
    made = RpcCaller(received, queues)
    made.check_turn()
    made.check()
    assert queues.expected == []


def test_a_message_that_tells_nothing_is_served():
    RpcCaller(SimpleNamespace(message={})).check()


def test_patience_is_in_seconds():
    assert Patience.of(incoming(timeout='7', expires_ms='1500')) == (1.5, 7.0)


# -- who is served


def test_caller_is_known_while_its_message_is_processed():
    made = RpcCaller(incoming())
    assert current() is None
    with calling(made):
        assert current() is made
    assert current() is None


def told(made):
    """Register with a caller; return what it calls."""
    done = []
    made.when_answered(lambda: done.append('answered'))
    made.if_undeliverable(lambda: done.append('undone'))
    return done


@cases(
    'outcome, expected',
    ('it is answered', lambda made: None, ['answered']),
    ('its answer waits', RpcCaller.keep_open, []),
    ('it was undone', RpcCaller.undeliverable, ['undone']),
    ('it was answered before', RpcCaller.answered, ['answered']),
)
def test_claims_stay_or_are_undone_once(outcome, expected):
    made = RpcCaller(incoming())
    done = told(made)
    assert made.has_claims
    with calling(made):
        outcome(made)
    assert done == expected
    made.answered()
    made.undeliverable()
    assert len(done) == 1
    assert not made.has_claims


def test_caller_is_answered_even_after_a_defect():
    made = RpcCaller(incoming())
    done = told(made)
    with pytest.raises(KeyError), calling(made):
        raise KeyError
    assert done == ['answered']


# -- signs of life


@cases(
    'sign_s, answered_s, sent',
    ('a long request', 60, 2, [1]),
    ('a short request', 60, 0.5, []),
    ('a caller that needs none', None, 2, []),
)
def test_a_caller_soon_learns_that_it_is_served(sign_s, answered_s, sent):
    served = Served(sign_s)
    served.runs(answered_s)
    assert served.sent == sent


@pytest.mark.parametrize(
    'problem',
    [oslo_messaging.MessageDeliveryFailure(), OSError(), AttributeError('heartbeat')],
)
def test_a_sign_of_life_that_fails_is_soon_sent_again(problem):
    served = Served()
    served.outcomes = [None, problem, problem]
    served.runs(70)
    assert served.sent == [1, 33, 63]
    served.caller.check()


def test_caller_that_has_given_up_gets_no_more_heartbeats():
    served = Served()
    served.outcomes = [OSError('cut')] * 99
    served.runs(600)
    assert len(served.outcomes) == 99 - 59


def test_a_sign_of_life_waits_for_a_reader():
    served = Served(readers=Readers.ABSENT)
    served.runs(10)
    assert served.sent == []


@cases(
    'headers, context, expected',
    ('neither', {'x': 1}, {'user': 'u'}, {}),
    ('headers', {'traceparent': 'h'}, {}, {'traceparent': 'h'}),
    (
        'context',
        {},
        {'tracestate': 's', 'trace_info': {}},
        {'tracestate', 'trace_info'},
    ),
    ('headers first', {'traceparent': 'h'}, {'traceparent': 'c'}, {'traceparent': 'h'}),
    ('no headers', None, {'traceparent': 'c'}, {'traceparent': 'c'}),
)
def test_parent_of_a_trace_is_read_from_headers_then_context(
    headers, context, expected
):
    received = incoming()
    received.ctxt, received.message._raw_message.headers = context, headers
    assert trace_parent() == {}
    with calling(RpcCaller(received)):
        found = trace_parent()
    assert (found.keys() if isinstance(expected, set) else found) == expected
