# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import types

import oslo_messaging
import pytest

from novasched_lab.compute.endpoint import HostDispatcher, host_of


class Message(dict):
    """A message of RabbitMQ that came with a routing key."""

    def __init__(self, key, **parts):
        super().__init__(parts)
        self._raw_message = types.SimpleNamespace(delivery_info={'routing_key': key})


class Endpoint:
    target = oslo_messaging.Target(version='6.5')

    def name(self, context, host):
        return host


@pytest.mark.parametrize(
    ('message', 'host'),
    [
        pytest.param(Message('compute.h1'), 'h1', id='through the queue of a host'),
        pytest.param(Message('compute.h1.example'), 'h1.example', id='with dots in it'),
        pytest.param(Message('compute'), None, id='through the queue of all'),
        pytest.param(Message(''), None, id='to all'),
        pytest.param(Message('scheduler.h1'), None, id='of another topic'),
        pytest.param({}, None, id='not of RabbitMQ'),
    ],
)
def test_host_of(message, host):
    assert host_of(message) == host


ASKED = {'method': 'name', 'version': '6.0'}


@pytest.mark.parametrize(
    ('message', 'host'),
    [
        pytest.param(Message('compute.h2', **ASKED), 'h2', id='that of the queue'),
        pytest.param({**ASKED, 'args': {}}, 'h1', id='the only one that there is'),
    ],
)
def test_the_host_is_an_argument(message, host):
    incoming = types.SimpleNamespace(message=message, ctxt={}, client_timeout=None)
    assert HostDispatcher([Endpoint()], 'h1').dispatch(incoming) == host
