# SPDX-License-Identifier: Apache-2.0
import types

import oslo_messaging

from novasched_lab.compute.endpoint import HostDispatcher, host_of
from tests.support.tables.cases import cases


class Message(dict):
    """A message of RabbitMQ that came with a routing key."""

    def __init__(self, key, **parts):
        super().__init__(parts)
        self._raw_message = types.SimpleNamespace(delivery_info={'routing_key': key})


class Endpoint:
    target = oslo_messaging.Target(version='6.5')

    def name(self, context, host):
        return host


@cases(
    'message, host',
    ('through the queue of a host', Message('compute.h1'), 'h1'),
    ('with dots in it', Message('compute.h1.example'), 'h1.example'),
    ('through the queue of all', Message('compute'), None),
    ('to all', Message(''), None),
    ('of another topic', Message('scheduler.h1'), None),
    ('not of RabbitMQ', {}, None),
)
def test_host_of(message, host):
    assert host_of(message) == host


ASKED = {'method': 'name', 'version': '6.0'}


@cases(
    'message, host',
    ('that of the queue', Message('compute.h2', **ASKED), 'h2'),
    ('the only one that there is', {**ASKED, 'args': {}}, 'h1'),
)
def test_the_host_is_an_argument(message, host):
    incoming = types.SimpleNamespace(message=message, ctxt={}, client_timeout=None)
    assert HostDispatcher([Endpoint()], 'h1').dispatch(incoming) == host
