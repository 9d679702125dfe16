# SPDX-License-Identifier: Apache-2.0
"""How a server stops, also with a message layer that has changed inside."""

from __future__ import annotations

import types

import oslo_messaging
import pytest

from novasched.rpc.caller import RpcCaller, current
from novasched.rpc.stopping import Inside, Server


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


def test_what_is_needed_is_found(caplog):
    assert Inside.of(running()) == ('lock', {'c': 1}, 'poll', 'serve')
    assert caplog.records == []


def test_a_server_that_never_started_has_nothing_to_stop(caplog):
    assert Inside.of(running(_started=False, listener=None)) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    'parts',
    [
        pytest.param({'listener': types.SimpleNamespace()}, id='no listener inside'),
        pytest.param(
            {
                'listener': types.SimpleNamespace(
                    _poll_style_listener=types.SimpleNamespace(poll='poll')
                )
            },
            id='no connection',
        ),
    ],
)
def test_what_has_moved_is_one_warning(caplog, parts):
    assert Inside.of(running(**parts)) is None
    (line,) = caplog.records
    assert line.levelname == 'WARNING'
    assert 'this oslo.messaging is not as expected' in line.getMessage()


def test_who_waits_is_known_while_a_server_works(messaging_conf):
    transport = oslo_messaging.get_rpc_transport(messaging_conf, 'fake://')
    seen = []

    class Incoming:
        msg_id = 'id'
        message = {'method': 'ping'}
        ctxt = {}

        def acknowledge(self):
            seen.append(current())

        def reply(self, *answer):
            seen.append(current())

    target = oslo_messaging.Target(topic='t', server='s')
    dispatcher = types.SimpleNamespace(dispatch=lambda incoming: None)
    Server(transport, target, dispatcher)._process_incoming([Incoming()])
    transport.cleanup()
    assert all(isinstance(caller, RpcCaller) for caller in seen)
    assert len(seen) == 2
    assert current() is None
