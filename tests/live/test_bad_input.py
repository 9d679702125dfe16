# SPDX-License-Identifier: Apache-2.0
"""Messages that no client of nova sends: a typed error, and life goes on."""

import json
import re

import pytest

from tests.live import wire as wire_
from tests.live.daemon import OURS

CONSUMER = '0d1f6a80-9c3e-4a57-9d6e-0b7c3f6f1c11'
COMPLAINT = re.compile(r' (WARNING|ERROR|CRITICAL) ')


@pytest.fixture
def complaints(scheduler):
    """Give what the daemon has complained about since the test began."""
    start = len(scheduler.log)

    def read():
        new = scheduler.log[start:]
        assert 'Traceback' not in new
        return [line for line in new.splitlines() if COMPLAINT.search(line)]

    return read


@pytest.fixture
def next_request_is_served(scheduler, claims):
    """Check at the end of the test that an ordinary boot works."""
    yield
    reply = scheduler.select()
    assert reply.hosts == ['node-1']
    claims.expect(reply.uuid)


BODIES = [
    pytest.param('not JSON at all', id='a body that is not JSON'),
    pytest.param('[]', id='a body that is a list'),
    pytest.param('{}', id='a body that is an empty object'),
    pytest.param(
        json.dumps({'oslo.version': '2.0', 'oslo.message': 'not JSON'}),
        id='an inner message that is not JSON',
    ),
    pytest.param(
        json.dumps({'oslo.version': '9.0', 'oslo.message': '{}'}),
        id='an unknown version of the envelope',
    ),
    pytest.param(wire_.envelope([]), id='an inner message that is a list'),
    pytest.param(wire_.envelope({}), id='an inner message without a method'),
]


@pytest.mark.parametrize('body', BODIES)
@pytest.mark.scenario('F26', 'I7')
def test_malformed_message_harms_no_later_request(
    wire, complaints, eventually, next_request_is_served, body
):
    wire.publish(body)
    if OURS:  # the next test must not meet its line
        eventually(complaints, 'a complaint')


# Ours names what is wrong in an InvalidRequest where the peer lets Python's own
# exceptions out.
ANY = ('InvalidRequest', 'TypeError', 'ValueError', 'AttributeError')
UNSET = ('InvalidRequest', 'ObjectActionError')
VALUE = ('InvalidRequest', 'ValueError')
FIELDS = [
    pytest.param('spec.flavor', wire_.MISSING, UNSET, id='no flavor'),
    pytest.param('spec.flavor', None, VALUE, id='a null flavor'),
    pytest.param('spec.flavor', 'small', ANY, id='a text for a flavor'),
    pytest.param('spec.num_instances', 'x', VALUE, id='a text for a number'),
    pytest.param('spec_obj', {'a': 1}, ANY, id='a spec that is no object'),
    pytest.param('spec_obj', None, ANY, id='a null spec'),
    pytest.param('instance_uuids', 7, ANY, id='a number for the uuids'),
    pytest.param('nosuch', 1, ANY, id='an unknown argument'),
]


@pytest.mark.parametrize(('path', 'value', 'classes'), FIELDS)
@pytest.mark.scenario('F26', 'I8')
def test_a_field_of_the_wrong_kind_is_a_typed_error(
    wire, next_request_is_served, path, value, classes
):
    args = wire_.changed(wire_.boot_args([CONSUMER]), path, value)
    result, failure = wire.call(wire_.message(args=args))
    assert result is None
    assert failure['class'] in classes, failure
    assert failure['module'] in ('builtins', 'nova.exception')
    assert failure['message']


@pytest.mark.scenario('F26', 'I8')
def test_an_unknown_object_is_a_typed_error(wire, next_request_is_served):
    args = wire_.boot_args([CONSUMER])
    args['spec_obj']['nova_object.name'] = 'NoSuchObject'
    _, failure = wire.call(wire_.message(args=args))
    assert failure['class'] == 'UnsupportedObjectError'


def test_a_newer_object_without_a_conductor_to_ask(
    wire, claims, next_request_is_served
):
    args = wire_.boot_args([CONSUMER])
    args['spec_obj']['nova_object.version'] = '1.99'
    result, failure = wire.call(wire_.message(args=args))
    if OURS:
        # We read what we know of it; the peer gives up.
        claims.expect(CONSUMER)
        assert failure is None
        assert result[0][0]['nova_object.data']['service_host'] == 'node-1'
    else:
        assert failure['class'] == 'MessagingTimeout'
        assert failure['module'] == 'oslo_messaging.exceptions'


@pytest.mark.ours
@pytest.mark.parametrize('body', BODIES)
def test_a_message_that_is_no_request_is_one_line_of_log(
    scheduler, wire, complaints, eventually, body
):
    wire.publish(body)
    eventually(complaints, 'a complaint')
    scheduler.client.run('ping', arg=1, timeout=20)
    assert len(complaints()) == 1


@pytest.mark.ours
@pytest.mark.parametrize(('path', 'value', 'classes'), FIELDS)
def test_a_field_of_the_wrong_kind_is_one_line_of_log(
    wire, complaints, path, value, classes
):
    args = wire_.changed(wire_.boot_args([CONSUMER]), path, value)
    wire.call(wire_.message(args=args))
    assert len(complaints()) == 1
