# SPDX-License-Identifier: Apache-2.0
"""Every captured message goes through our endpoints, and every answer is ours.

A manager gives the answer of the sample, as objects or as an error; what the
endpoints make of it must be the captured reply.
"""

import json
import pathlib

import oslo_messaging
import pytest

from novasched import errors
from novasched.objects import base
from novasched.objects.request_spec import RequestSpec
from novasched.rpc import server
from novasched.rpc.serializer import RequestSerializer, encode

SAMPLES = pathlib.Path(__file__).parents[1] / 'samples'
FOLDERS = ('rpc', 'casts', 'failures', 'baseapi')
REQUESTS = sorted(
    path.relative_to(SAMPLES).as_posix()
    for folder in FOLDERS
    for path in (SAMPLES / folder).glob('*.json')
    if not path.name.endswith(('reply.json', 'call.json', 'heartbeat.json'))
)
# What the reference answers there is a defect that we do not share, and what is
# no request: what oslo.messaging sends by itself, and what we send to a conductor.
OTHERS = {
    'rpc/09-legacy-4.0-with-group.reply.json': 'we read the group',
    'failures/newer-object-version.reply.json': 'we read what we know',
    'rpc/10-call-monitor.heartbeat.json': 'tests/live/test_life.py',
    'failures/newer-object-version.conductor-backport-call.json': 'test_conductor.py',
}
NO_REPLY = ('rpc/10-call-monitor.request.json',)


def read(name):
    return json.loads((SAMPLES / name).read_text())['message']


class Incoming:
    """A message as oslo.messaging hands it to a dispatcher."""

    client_timeout = None

    def __init__(self, message):
        prefix = '_context_'
        self.ctxt = {
            key.removeprefix(prefix): value
            for key, value in message.items()
            if key.startswith(prefix)
        }
        self.message = message


class Manager:
    """Writes down what it is told, and gives the answer that it was made with."""

    def __init__(self, answer=None):
        self.answer = answer
        self.told = []

    def select_destinations(
        self, context, request, uuids, as_objects, alternates, caller=None
    ):
        self.told.append((request, uuids, as_objects, alternates))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __getattr__(self, name):
        return lambda *told: self.told.append((name, *told))


def sent_by(manager, message):
    """Return the result, or what the caller is told of the error."""
    dispatcher = server.Dispatcher(
        [server.SchedulerEndpoint(manager, None), server.BaseEndpoint()],
        RequestSerializer(),
    )
    try:
        return dispatcher.dispatch(Incoming(message)), None
    except oslo_messaging.ExpectedException as expected:
        error = expected.exc_info[1]
        return None, {
            'class': type(error).__name__,
            'module': type(error).__module__,
            'message': str(error),
            'args': list(error.args),
            'kwargs': getattr(error, 'kwargs', {}),
        }


def as_objects(result):
    return [
        [base.parse(one) for one in each] if isinstance(each, list) else each
        for each in result
    ]


def without_changes(value):
    if isinstance(value, dict):
        return {
            key: without_changes(item)
            for key, item in value.items()
            if key != base.CHANGES
        }
    if isinstance(value, list):
        return [without_changes(item) for item in value]
    return value


def answer_of(reply):
    """Return what a manager does to get this reply."""
    if reply['failure'] is None:
        return as_objects(reply['result']) if isinstance(reply['result'], list) else ''
    failure = json.loads(reply['failure'])
    return errors.NoValidHost(failure['kwargs'].get('reason', ''))


@pytest.mark.parametrize('name', REQUESTS)
def test_the_endpoints_understand_every_request(name):
    message = read(name)
    reply_name = name.replace('.request.json', '.reply.json')
    exact = reply_name != name and reply_name not in OTHERS and name not in NO_REPLY
    reply = read(reply_name) if exact else {'failure': None, 'result': []}
    manager = Manager(answer_of(reply))
    result, failure = sent_by(manager, message)
    if reply['failure']:
        expected = json.loads(reply['failure'])
        del expected['tb']
        assert failure == expected
    else:
        assert failure is None
        if exact:
            assert without_changes(encode(result)) == without_changes(reply['result'])


@pytest.mark.parametrize('name', [name for name in REQUESTS if name.startswith('rpc/')])
def test_captured_message_reaches_the_manager_with_its_arguments(name):
    arguments = read(name)['args']
    manager = Manager([])
    sent_by(manager, read(name))
    ((request, uuids, objects, alternates),) = manager.told
    assert isinstance(request, RequestSpec)
    assert uuids == arguments.get('instance_uuids')
    assert objects == arguments.get('return_objects', False)
    assert alternates == arguments.get('return_alternates', False)


def test_casts_reach_the_manager():
    told = {}
    for path in (SAMPLES / 'casts').glob('*.json'):
        manager = Manager()
        assert sent_by(manager, read(f'casts/{path.name}')) == (None, None)
        ((method, *arguments),) = manager.told
        told.setdefault(method, []).extend(arguments)
    assert told['delete_instance_info'] == [
        read('casts/delete_instance_info.json')['args'][key]
        for key in ('host_name', 'instance_uuid')
    ]
    assert (
        told['sync_instance_info'][1]
        == (read('casts/sync_instance_info.json')['args']['instance_uuids'])
    )
    sent = read('casts/update_instance_info.json')['args']['instance_info']
    uuids = [each[base.DATA]['uuid'] for each in sent[base.DATA]['objects']]
    assert list(told['update_instance_info'][1]) == uuids
    assert all(each.metadata for each in told['update_aggregates'][0])
    sent = read('casts/delete_aggregate.json')['args']['aggregate']
    assert told['delete_aggregate'] == [sent[base.DATA]['id']]


def test_no_sample_is_forgotten():
    replies = {name.replace('.request.json', '.reply.json') for name in REQUESTS}
    there = {
        path.relative_to(SAMPLES).as_posix()
        for folder in FOLDERS
        for path in (SAMPLES / folder).glob('*.json')
    }
    assert there - set(REQUESTS) - replies - set(OTHERS) == set()
