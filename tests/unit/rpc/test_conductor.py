# SPDX-License-Identifier: Apache-2.0
"""The call to the conductor, over the in-process transport."""

import json
import pathlib

import oslo_messaging
import pytest

from novasched.objects.context import RequestContext
from novasched.rpc.serializer import OPTS, RequestSerializer, conductor_backport
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
CALL = json.loads(
    (SAMPLES / 'failures/newer-object-version.conductor-backport-call.json').read_text()
)['message']
CONTEXT = RequestContext.from_dict(json.loads((SAMPLES / 'context.json').read_text()))


class Conductor:
    """Records what it is asked, and answers with the object itself."""

    target = oslo_messaging.Target(version='3.0')

    def __init__(self):
        self.asked = []

    def object_backport_versions(self, context, **args):
        self.asked.append((context, args))
        return args['objinst'] | {'nova_object.version': '1.15'}


@pytest.fixture
def conf(messaging_conf):
    for group, opts in OPTS.items():
        messaging_conf.register_opts(opts, group=group)
    return messaging_conf


@pytest.fixture
def transport(conf):
    transport = oslo_messaging.get_rpc_transport(conf, url='fake://')
    yield transport
    transport.cleanup()


@pytest.fixture
def conductor(transport):
    conductor = Conductor()
    server = oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic='conductor', server='ctl-1'),
        [conductor],
        serializer=RequestSerializer(),
    )
    server.start()
    yield conductor
    server.stop()


def test_the_call_is_the_one_that_was_sampled(conf, transport, conductor):
    backport = conductor_backport(conf, transport)
    args = CALL['args']
    answer = backport(CONTEXT, args['objinst'], args['object_versions'])
    assert answer == args['objinst'] | {'nova_object.version': '1.15'}
    [(context, received)] = conductor.asked
    assert received == args
    sampled = {
        key.removeprefix('_context_'): value
        for key, value in CALL.items()
        if key.startswith('_context_')
    }
    assert context.to_dict() == sampled


@cases(
    'cap, is_sent',
    ('a name', 'auto', True),
    ('the version itself', '3.0', True),
    ('an older version', '2.4', False),
)
def test_the_conductor_may_be_capped(conf, transport, conductor, cap, is_sent):
    conf.set_override('conductor', cap, group='upgrade_levels')
    backport = conductor_backport(conf, transport)
    try:
        backport(CONTEXT, {}, {})
    except oslo_messaging.MessagingException:
        assert not is_sent
    assert bool(conductor.asked) is is_sent


def test_a_silent_conductor_is_a_messaging_exception(conf, transport):
    backport = conductor_backport(conf, transport)
    conf.set_override('rpc_response_timeout', 0)
    with pytest.raises(oslo_messaging.MessagingException):
        backport(CONTEXT, {}, {})
