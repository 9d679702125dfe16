# SPDX-License-Identifier: Apache-2.0
"""How a server stops, also with a message layer that has changed inside."""

import contextlib
import threading
import types

import oslo_messaging
import pytest

from novasched.rpc.caller import RpcCaller, current
from novasched.rpc.oslo_internals import RunningServer
from novasched.rpc.server import StoppableServer, problem_of
from tests.support.tables.cases import cases


def running(**parts):
    """A running server of oslo.messaging, as far as it is looked into."""
    connection = types.SimpleNamespace(_connection_lock='lock', _consumers={'c': 1})
    listener = types.SimpleNamespace(conn=connection, poll='poll')
    whole = {
        '_started': True,
        'listener': types.SimpleNamespace(_poll_style_listener=listener),
        '_on_incoming': 'serve',
    }
    return types.SimpleNamespace(**{**whole, **parts})


def test_internals_of_a_running_server_are_found(caplog):
    assert RunningServer.of(running()) == ('lock', {'c': 1}, 'poll', 'serve')
    assert caplog.records == []


def test_a_server_that_never_started_has_nothing_to_stop(caplog):
    assert RunningServer.of(running(_started=False, listener=None)) is None
    assert caplog.records == []


@cases(
    'parts',
    ('no listener inside', {'listener': types.SimpleNamespace()}),
    (
        'no connection',
        {
            'listener': types.SimpleNamespace(
                _poll_style_listener=types.SimpleNamespace(poll='poll')
            )
        },
    ),
)
def test_moved_internals_are_one_warning(caplog, parts):
    assert RunningServer.of(running(**parts)) is None
    (line,) = caplog.records
    assert line.levelname == 'WARNING'
    assert 'this oslo.messaging is not as expected' in line.getMessage()


@pytest.fixture
def served(messaging_conf):
    """Make a server over messages in memory; its dispatcher calls what is given."""
    transport = oslo_messaging.get_rpc_transport(messaging_conf, 'fake://')
    target = oslo_messaging.Target(topic='t', server='s')

    def make(dispatch=lambda incoming: None):
        return StoppableServer(
            transport, target, types.SimpleNamespace(dispatch=dispatch)
        )

    yield make
    transport.cleanup()


class Message:
    """A message of another layer than RabbitMQ."""

    msg_id = 'id'
    message = {'method': 'ping'}
    ctxt = {}

    def __init__(self, seen):
        self._seen = seen

    def acknowledge(self):
        self._seen.append(current())

    def reply(self, *answer):
        self._seen.append(current())


def test_caller_is_known_while_a_server_works(served):
    seen = []
    served()._process_incoming([Message(seen)])
    assert all(isinstance(caller, RpcCaller) for caller in seen)
    assert len(seen) == 2
    assert current() is None


class Call(Message):
    """A message of RabbitMQ whose reply queue is gone."""

    reply_q = 'reply'
    orig_msg_id = 'id'
    listener = types.SimpleNamespace(
        driver=types.SimpleNamespace(
            _get_connection=lambda: contextlib.nullcontext(
                types.SimpleNamespace(channel=1)
            )
        )
    )

    def _send_reply(self, connection, *answer):
        self._seen.append('sent')
        raise oslo_messaging.MessageUndeliverable(None, None, None, None)


def test_a_server_that_stops_ends_what_its_callers_do_not_read(served):
    seen = []

    def dispatch(incoming):
        current().if_undeliverable(lambda: seen.append('undone'))

    server = served(dispatch)
    server.start()
    server._process_incoming([Call(seen)])
    assert seen[1:] == ['sent']
    server.drain_s = 0
    server.stop()
    server.wait()
    assert 'undone' in seen


def test_a_server_that_has_stopped_leaves_no_thread_behind(served):
    before = set(threading.enumerate())
    server = served(lambda incoming: current().if_undeliverable(lambda: None))
    server.start()
    server.clock.is_known()
    server._process_incoming([Call([])])
    server.drain_s = 0
    server.stop()
    server.wait()
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(10)
    assert not [thread.name for thread in left if thread.is_alive()]


# -- its connection


def listening(**connection):
    driver = types.SimpleNamespace(connection=types.SimpleNamespace(**connection))
    conn = types.SimpleNamespace(connection=driver)
    poll = types.SimpleNamespace(conn=conn)
    return types.SimpleNamespace(
        listener=types.SimpleNamespace(_poll_style_listener=poll)
    )


@cases(
    'asked, expected',
    ('connected', listening(connected=True), None),
    ('lost', listening(connected=False), 'the connection to the broker is lost'),
    ('stopped', types.SimpleNamespace(listener=None), 'the server does not listen'),
)
def test_a_lost_connection_is_a_problem(asked, expected):
    assert problem_of(asked) == expected
