# SPDX-License-Identifier: Apache-2.0
"""Answers that reach their caller, wait for it, or are undone: never both."""

import contextlib
import threading
from types import SimpleNamespace

import oslo_messaging
import pytest
from oslo_messaging._drivers.amqp import AMQPDestinationNotFound

from novasched import errors
from novasched.rpc import faults
from novasched.rpc.answers import HOLD_BACK_S, PARKED_AT_MOST, Answers, Incoming
from novasched.rpc.caller import RpcCaller, calling
from novasched.rpc.reply_queues import Readers
from tests.support.tables.cases import cases

GONE_FOR_S = 5.0
GONE = 'No caller waits for this request any more: its answer was not read'
RETURNED = oslo_messaging.MessageUndeliverable(None, None, None, None)


class Queues:
    """Knows the readers of all queues; ``look`` tells of them, as the monitor does."""

    gone_for_s = GONE_FOR_S

    def __init__(self):
        self.readers = Readers.PRESENT
        self.watched = 0
        self.on_look = None

    def known(self, name):
        return self.readers

    def watch(self, name):
        self.watched += 1

    def unwatch(self, name):
        self.watched -= 1

    def look(self, readers):
        self.readers = readers
        self.on_look('reply', readers)


class Connection:
    """A connection to the broker; it is made new when ``breaks``."""

    def __init__(self):
        self.channel = object()
        self.outcomes = []
        self.breaks = False
        self.sent = []

    def publish(self, reply, failure):
        if self.breaks:
            self.channel = object()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.sent.append(reply or str(failure[1]))


class Lane:
    def submit(self, call):
        call()


class Now:
    now = 0.0

    def monotonic(self):
        return self.now

    elapsed = monotonic


@pytest.fixture
def queues():
    return Queues()


@pytest.fixture
def connection():
    return Connection()


@pytest.fixture
def clock():
    return Now()


@pytest.fixture
def answers(queues, clock):
    return Answers(queues, clock=clock, executor=Lane())


class Call(SimpleNamespace):
    """A message of oslo.messaging that wants an answer."""

    message = {'method': 'x'}

    def _send_reply(self, connection, reply, failure):
        connection.publish(reply, failure)


@pytest.fixture
def serve(answers, connection, clock):
    """Serve a request, as the server does; return what becomes of its claims."""
    driver = SimpleNamespace(_get_connection=lambda: contextlib.nullcontext(connection))

    def run(
        answer='hosts',
        failure=None,
        claims=True,
        to=answers,
        sign_s=None,
        by=driver,
        became=None,
    ):
        listener = SimpleNamespace(driver=by)
        call = Call(listener=listener, reply_q='reply', orig_msg_id='1')
        call.client_timeout, call.stopwatch = sign_s, clock
        caller, became = RpcCaller(call), [] if became is None else became
        with calling(caller):
            if claims:
                caller.when_answered(lambda: became.append('stays'))
                caller.if_undeliverable(lambda: became.append('undone'))
            Incoming(call, caller, to).reply(answer, failure)
        return became

    return run


def test_an_answer_is_sent_at_once(serve, connection, queues):
    assert serve() == ['stays']
    assert connection.sent == ['hosts']
    assert queues.watched == 0


@cases(
    'looks, became, sent',
    ('it waits', [], [], []),
    ('it goes on waiting', [Readers.ABSENT], [], []),
    ('it waits for a broker, too', [Readers.UNKNOWN], [], []),
    ('its caller is back', [Readers.PRESENT], ['stays'], ['hosts']),
    (
        'its caller is gone, and back too late',
        [Readers.GONE, Readers.PRESENT],
        ['undone'],
        [GONE],
    ),
)
def test_answer_without_a_reader_waits(serve, connection, queues, looks, became, sent):
    queues.readers = Readers.ABSENT
    found = serve()
    for readers in looks:
        queues.look(readers)
    assert (found, connection.sent) == (became, sent)
    assert queues.watched == (not became)


@cases(
    'returned', ('no queue', RETURNED), ('no exchange', AMQPDestinationNotFound('gone'))
)
@cases(
    'readers, became',
    ('its caller reconnects', Readers.PRESENT, ['stays']),
    ('its caller is gone', Readers.GONE, ['undone']),
)
def test_an_answer_that_comes_back_waits(
    serve, connection, queues, returned, readers, became
):
    connection.outcomes = [returned]
    found = serve()
    assert found == []
    queues.look(readers)
    assert found == became


def test_a_queue_that_vanishes_again_is_waited_for_again(serve, connection, queues):
    connection.outcomes = [RETURNED, RETURNED, RETURNED]
    found = serve()
    queues.look(Readers.PRESENT)
    queues.look(Readers.PRESENT)
    assert (found, queues.watched) == ([], 1)
    queues.look(Readers.PRESENT)
    assert (found, queues.watched) == (['stays'], 0)


def test_an_answer_that_may_have_been_read_is_never_undone(serve, connection, queues):
    connection.outcomes, connection.breaks = [RETURNED], True
    found = serve()
    assert found == []
    queues.look(Readers.GONE)
    assert found == ['stays']
    assert connection.sent == []


@cases(
    'readers, outcomes, became',
    ('nobody reads it', Readers.ABSENT, [], ['undone']),
    ('the broker does not tell', Readers.UNKNOWN, [], ['stays']),
    ('it comes back', Readers.UNKNOWN, [RETURNED], ['undone']),
)
def test_no_answer_waits_for_ever(
    serve, connection, queues, clock, readers, outcomes, became
):
    queues.readers = Readers.ABSENT
    found = serve()
    clock.now += 2 * GONE_FOR_S - 1
    queues.look(readers)
    assert found == []
    clock.now += 1
    connection.outcomes = outcomes
    queues.look(readers)
    assert found == became


@cases(
    'readers, outcomes',
    ('nobody reads it', Readers.ABSENT, []),
    ('it comes back', Readers.PRESENT, [RETURNED]),
)
def test_beyond_a_number_of_answers_that_wait_one_is_undone_at_once(
    queues, connection, serve, readers, outcomes
):
    answers = Answers(queues, most=1, executor=Lane())
    queues.readers = Readers.ABSENT
    waiting = serve(to=answers)
    assert not answers.has_room()
    queues.readers, connection.outcomes = readers, outcomes
    assert serve(to=answers) == ['undone']
    assert waiting == []
    queues.look(Readers.PRESENT)
    assert waiting == ['stays']
    assert answers.has_room()


@cases(
    'elapsed_s, readers, became, sent',
    ('back in time', 8, Readers.PRESENT, ['stays'], ['hosts']),
    ('back too late', 9.5, Readers.PRESENT, ['undone'], [GONE]),
    ('still away', 9.5, Readers.ABSENT, ['undone'], [GONE]),
)
def test_an_answer_that_waits_for_longer_than_its_caller_is_undone(
    serve, connection, queues, clock, elapsed_s, readers, became, sent
):
    queues.gone_for_s = 60
    queues.readers = Readers.ABSENT
    found = serve(sign_s=10)
    clock.now = elapsed_s
    queues.look(readers)
    assert (found, connection.sent) == (became, sent)


def test_an_answer_that_comes_after_its_caller_gave_up_is_undone(
    serve, connection, clock
):
    clock.now = 11
    assert serve(sign_s=10) == ['undone']
    assert connection.sent == [GONE]


def test_an_answer_that_may_have_been_read_outlives_the_patience_of_its_caller(
    serve, connection, queues, clock
):
    connection.outcomes, connection.breaks = [RETURNED], True
    found = serve(sign_s=10)
    clock.now = 11
    queues.look(Readers.PRESENT)
    assert (found, connection.sent) == (['stays'], [])


def refusal(error):
    """What the server sends of an error, as sys.exc_info() gives it."""
    wire = faults.to_wire(error)
    wire.__cause__ = error
    return type(wire), wire, None


SECOND = errors.AlreadyClaimed('c', 'no move')


@cases(
    'error, held_back',
    ('a second copy', SECOND, True),
    ('another', errors.AllocationUpdateFailed('c', 'x'), False),
)
def test_the_answer_to_a_second_copy_comes_after_the_first(
    serve, connection, queues, clock, error, held_back
):
    serve(None, refusal(error), claims=False)
    assert len(connection.sent) == (not held_back)
    clock.now = HOLD_BACK_S - 0.1
    queues.look(Readers.PRESENT)
    assert len(connection.sent) == (not held_back)
    clock.now = HOLD_BACK_S
    queues.look(Readers.PRESENT)
    assert connection.sent == [str(error)]
    assert queues.watched == 0


@cases(
    'outcomes, sent, watched',
    ('it may wait in its queue', [], [str(SECOND)], 0),
    ('it comes back', [RETURNED], [], 1),
)
def test_the_answer_to_a_second_copy_goes_out_without_a_reader(
    serve, connection, queues, clock, outcomes, sent, watched
):
    serve(None, refusal(SECOND), claims=False)
    clock.now, connection.outcomes = HOLD_BACK_S, outcomes
    queues.look(Readers.ABSENT)
    assert (connection.sent, queues.watched) == (sent, watched)
    queues.look(Readers.GONE)
    assert (connection.sent, queues.watched) == (sent, 0)


def test_the_answer_to_a_second_copy_does_not_hold_up_a_server_that_stops(
    serve, connection, answers, queues, clock
):
    serve(None, refusal(SECOND), claims=False)
    answers.end_by(clock.now)
    queues.look(Readers.PRESENT)
    assert connection.sent == [str(SECOND)]


def test_answers_without_claims_take_half_of_the_room(queues, connection, serve, clock):
    answers = Answers(queues, most=4, clock=clock, executor=Lane())
    for _ in range(3):
        serve(None, refusal(SECOND), claims=False, to=answers)
    assert (queues.watched, connection.sent) == (2, [str(SECOND)])
    queues.readers = Readers.ABSENT
    for _ in range(2):
        assert answers.has_room()
        assert serve(to=answers) == []
    assert not answers.has_room()


def test_an_answer_waits_for_a_thread_that_cannot_be_started(
    queues, connection, serve, clock
):
    class Exhausted(Lane):
        problems = [RuntimeError("can't start new thread")]

        def submit(self, call):
            if self.problems:
                raise self.problems.pop()
            super().submit(call)

    answers = Answers(queues, clock=clock, executor=Exhausted())
    queues.readers = Readers.ABSENT
    found = serve(to=answers)
    queues.look(Readers.PRESENT)
    assert found == []
    queues.look(Readers.PRESENT)
    assert found == ['stays']


def test_an_answer_without_claims_may_wait_in_its_queue(serve, connection, queues):
    queues.readers = Readers.ABSENT
    error = ValueError('no host')
    serve(None, (ValueError, error, None), claims=False)
    assert connection.sent == ['no host']
    assert queues.watched == 0


@cases(
    'readers, sent',
    ('its caller is back', Readers.PRESENT, ['hosts']),
    ('its caller is gone', Readers.GONE, []),
)
def test_an_answer_without_claims_is_not_lost_with_its_queue(
    serve, connection, queues, readers, sent
):
    connection.outcomes = [RETURNED]
    serve(claims=False)
    queues.look(readers)
    assert (connection.sent, queues.watched) == (sent, 0)


def test_claim_stays_if_the_fate_of_its_answer_is_unknown(
    serve, connection, queues, caplog
):
    queues.readers = Readers.ABSENT
    found = serve()
    connection.outcomes = [oslo_messaging.MessageDeliveryFailure('cut')]
    queues.look(Readers.PRESENT)
    assert (found, queues.watched) == (['stays'], 0)
    assert caplog.messages == ['An answer could be neither delivered nor undone']


def test_claim_is_undone_if_there_is_no_connection_for_its_answer(serve):
    became = []
    with contextlib.suppress(AttributeError):  # as once the driver is closed
        serve(by=None, became=became)
    assert became == ['undone']


def test_claim_is_undone_if_its_request_ends_by_an_error(serve, connection):
    problem = errors.NoValidHost('defect')
    assert serve(None, (type(problem), problem, None)) == ['undone']
    assert connection.sent == ['No valid host was found. defect']


def test_a_claim_stays_when_its_answer_fails_in_the_thread_of_its_request(
    answers, connection
):
    connection.outcomes = [oslo_messaging.MessageDeliveryFailure('cut')]
    driver = SimpleNamespace(_get_connection=lambda: contextlib.nullcontext(connection))
    listener = SimpleNamespace(driver=driver)
    call = Call(listener=listener, reply_q='reply', orig_msg_id='1')
    caller, became = RpcCaller(call), []
    caller.when_answered(lambda: became.append('stays'))
    with contextlib.suppress(oslo_messaging.MessagingException), calling(caller):
        Incoming(call, caller, answers).reply()
    assert became == ['stays']


def test_a_cast_is_not_answered(answers, connection):
    call = Call(listener=None, reply_q=None, orig_msg_id=None)
    Incoming(call, RpcCaller(call), answers).reply('nothing')
    assert connection.sent == []


def test_a_message_of_another_layer_answers_by_itself(answers):
    sent = []
    call = SimpleNamespace(message={}, reply=lambda *answer: sent.append(answer))
    Incoming(call, RpcCaller(call), answers).reply('hosts')
    assert sent == [('hosts', None)]


def test_all_else_of_a_message_is_as_it_was(answers):
    call = Call(listener=None, reply_q='reply', orig_msg_id='1', ctxt={'a': 1})
    assert Incoming(call, RpcCaller(call), answers).ctxt == {'a': 1}


# -- the end


def test_a_server_that_stops_waits_for_its_answers(serve, answers, queues):
    queues.readers = Readers.ABSENT
    found = serve()
    drained = threading.Thread(target=answers.drain, daemon=True)
    drained.start()
    drained.join(0.05)
    assert drained.is_alive()
    queues.look(Readers.PRESENT)
    drained.join(10)
    assert not drained.is_alive()
    assert found == ['stays']


def test_a_server_that_stops_undoes_what_is_not_read_in_time(
    serve, answers, queues, clock
):
    queues.readers = Readers.ABSENT
    found = serve()
    answers.end_by(2.0)
    queues.look(Readers.ABSENT)
    assert found == []
    clock.now = 2.0
    queues.look(Readers.ABSENT)
    assert found == ['undone']
    answers.drain()


def test_answers_wait_for_their_callers_outside_the_thread_of_a_monitor(
    queues, connection, serve
):
    seen = []

    class Slow:
        def submit(self, call):
            seen.append(call)

    answers = Answers(queues, executor=Slow())
    queues.readers = Readers.ABSENT
    found = serve(to=answers)
    queues.look(Readers.GONE)
    assert found == []
    assert len(seen) == 1
    seen[0]()
    assert found == ['undone']


def test_there_is_room_for_the_answers_of_a_storm():
    assert PARKED_AT_MOST >= 4 * 64  # four times the threads of a server
