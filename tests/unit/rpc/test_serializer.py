# SPDX-License-Identifier: Apache-2.0
"""Contexts and objects, to and from the wire."""

import copy
import json
import logging
import pathlib

import oslo_messaging
import pytest

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc import serializer
from novasched.rpc.serializer import RequestSerializer, decode, encode
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
WIRE = json.loads((SAMPLES / 'context.json').read_text())
CONTEXT = RequestContext.from_dict(WIRE)
LIMITS = {
    'nova_object.name': 'SchedulerLimits',
    'nova_object.namespace': 'nova',
    'nova_object.version': '1.0',
    'nova_object.data': {'vcpu': 4, 'memory_mb': None},
}


def limits(version='1.0', **data):
    return LIMITS | {
        'nova_object.version': version,
        'nova_object.data': LIMITS['nova_object.data'] | data,
    }


def request_args(sample):
    message = json.loads((SAMPLES / f'{sample}.request.json').read_text())['message']
    return message['args']


def newer_spec():
    return request_args('failures/newer-object-version')['spec_obj']


class Conductor:
    """Answers a back-port, or fails with an error."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, context, primitive, versions):
        self.asked.append((context, primitive, versions))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_contexts_survive_the_wire():
    wire = RequestSerializer().serialize_context(CONTEXT)
    assert wire == WIRE
    assert RequestSerializer().deserialize_context(wire).to_dict() == WIRE


def test_profiling_keys_are_taken_off_the_context():
    wire = WIRE | {'trace_info': {'hmac_key': 'x'}, 'msg_id': '1'}
    received = copy.deepcopy(wire)
    assert RequestSerializer().deserialize_context(received).to_dict() == WIRE
    assert received == wire


def test_an_empty_redacted_context_is_sent_as_it_is():
    assert RequestSerializer().serialize_context({}) == {}


def test_the_server_leaves_arguments_raw():
    assert RequestSerializer().deserialize_entity(CONTEXT, LIMITS) is LIMITS


@cases(
    'value, wire',
    ('nothing', None, None),
    ('text', 'text', 'text'),
    ('a tuple', (1, 'a'), [1, 'a']),
    ('a set', {7}, [7]),
    ('nested', {'a': ({1},)}, {'a': [[1]]}),
)
def test_plain_values_are_encoded(value, wire):
    assert RequestSerializer().serialize_entity(CONTEXT, value) == wire


def test_a_reply_is_encoded_as_sampled():
    reply = json.loads((SAMPLES / 'rpc/01-simple-boot.reply.json').read_text())
    result = reply['message']['result']
    selections = decode(result, CONTEXT)
    assert isinstance(selections[0][0], Selection)
    assert without_changes(encode(selections)) == without_changes(result)


def without_changes(value):
    if isinstance(value, list):
        return [without_changes(item) for item in value]
    if isinstance(value, dict):
        return {
            key: without_changes(item)
            for key, item in value.items()
            if key != 'nova_object.changes'
        }
    return value


def test_objects_are_decoded_inside_lists_and_dicts():
    made = decode({'a': [{'b': LIMITS}], 'c': 1}, CONTEXT)
    assert made['a'][0]['b'].vcpu == 4
    assert made['c'] == 1


@pytest.mark.parametrize(
    'sample',
    sorted(
        path.name.removesuffix('.request.json')
        for path in SAMPLES.glob('rpc/*.request.json')
    ),
)
def test_every_sampled_request_is_decoded(sample):
    args = request_args(f'rpc/{sample}')
    made = decode(args, CONTEXT, Conductor(AssertionError('not needed')))
    spec = made.get('spec_obj')
    assert spec is None or isinstance(spec, RequestSpec)


def test_a_newer_object_is_asked_for_in_our_versions():
    wire = json.loads(
        (
            SAMPLES / 'failures/newer-object-version.conductor-backport-call.json'
        ).read_text()
    )
    older = newer_spec() | {'nova_object.version': '1.15'}
    conductor = Conductor(older)
    assert decode(newer_spec(), CONTEXT, conductor).VERSION == '1.15'
    [(context, primitive, versions)] = conductor.asked
    assert context is CONTEXT
    assert primitive == wire['message']['args']['objinst']
    assert versions == wire['message']['args']['object_versions']


def test_a_newer_object_inside_is_asked_for_as_a_whole():
    spec = request_args('rpc/01-simple-boot')['spec_obj']
    newer = copy.deepcopy(spec)
    newer['nova_object.data']['flavor']['nova_object.version'] = '1.9'
    conductor = Conductor(spec)
    assert decode(newer, CONTEXT, conductor).flavor.VERSION == '1.2'
    assert [asked[1] for asked in conductor.asked] == [newer]


@cases(
    'answer',
    ('it is silent', oslo_messaging.MessagingTimeout('late')),
    ('it refuses', oslo_messaging.RemoteError('E', 'no')),
    ('it answers with another newer version', limits('1.8')),
)
def test_without_a_conductor_new_fields_are_ignored(answer, caplog):
    with caplog.at_level(logging.WARNING, logger=serializer.__name__):
        made = decode(limits('1.9', shiny=1), CONTEXT, Conductor(answer))
    assert (made.vcpu, 'shiny' in made) == (4, False)
    assert 'SchedulerLimits' in caplog.text
    assert {record.levelname for record in caplog.records} == {'WARNING'}


def test_a_program_without_conductor_ignores_new_fields():
    assert decode(limits('1.9'), CONTEXT).vcpu == 4


def test_another_major_version_is_an_invalid_request():
    conductor = Conductor(oslo_messaging.MessagingTimeout('late'))
    with pytest.raises(errors.InvalidRequest, match=r'2\.0'):
        decode(limits('2.0'), CONTEXT, conductor)


@cases(
    'primitive, error',
    (
        'an unknown name',
        LIMITS | {'nova_object.name': 'Widget'},
        errors.UnsupportedObject,
    ),
    (
        'an unknown namespace',
        LIMITS | {'nova_object.namespace': 'cinder'},
        errors.UnsupportedObject,
    ),
    ('a mistyped field', limits(vcpu='many'), errors.InvalidRequest),
    (
        'an envelope with a part missing',
        {'nova_object.name': 'SchedulerLimits'},
        errors.InvalidRequest,
    ),
)
def test_bad_objects_are_typed_errors(primitive, error):
    with pytest.raises(error):
        decode([primitive], CONTEXT)


@cases('wrap', ('lists', lambda inner: [inner]), ('dicts', lambda inner: {'a': inner}))
def test_deeply_nested_value_is_a_typed_error(wrap):
    value = 1
    for _ in range(10_000):
        value = wrap(value)
    with pytest.raises(errors.InvalidRequest, match='nested too deep'):
        decode(value, None)
