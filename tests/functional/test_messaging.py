# SPDX-License-Identifier: Apache-2.0
"""Requests, casts and errors over the wire, with messages in memory."""

import json
import logging
import pathlib
import time
from types import SimpleNamespace

import oslo_messaging
import pytest

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.rpc.serializer import encode
from novasched.rpc.server import SchedulerEndpoint
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[1] / 'samples'
WAIT_S = 20
BOOT = {'spec_obj': factories.request()}
NO_UUIDS = 'list of instance uuids'


class Wire:
    """Sends raw messages to the schedulers of a cloud."""

    def __init__(self, cloud):
        self._transport = cloud.transport
        self._context = RequestContext(overwrite=False).to_dict()

    def _client(self, version, **target):
        target = oslo_messaging.Target(topic='scheduler', version=version, **target)
        return oslo_messaging.get_rpc_client(self._transport, target, timeout=WAIT_S)

    def call(self, method='select_destinations', version='4.5', **arguments):
        return self._client(version).call(self._context, method, **encode(arguments))

    def cast(self, method, version='4.2', **arguments):
        """Cast to all."""
        client = self._client(version, fanout=True)
        client.cast(self._context, method, **encode(arguments))

    def base(self, method, version='1.1', **arguments):
        client = self._client(version, namespace='baseapi')
        return client.call(self._context, method, **arguments)


@pytest.fixture
def made(cloud):
    """A cloud of two hosts with a scheduler that serves."""
    made = cloud([Host('h1', memory_mb=9000), Host('h2')])
    made.scheduler = made.serve()
    return made


@pytest.fixture
def wire(made):
    return Wire(made)


def problems(caplog):
    return [
        record
        for record in caplog.records
        if record.levelno >= logging.INFO and record.name == 'novasched.rpc.server'
    ]


def until(check):
    """Wait until a check is true; fail when it takes too long."""
    end = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def raised_by(call):
    with pytest.raises(Exception) as raised:
        call()
    kind = type(raised.value)
    return kind.__module__, kind.__name__, str(raised.value)


class TestReplies:
    def test_objects(self, made, wire):
        uuids = new_uuids(2)
        answer = wire.call(
            spec_obj=made.request(),
            instance_uuids=uuids,
            return_objects=True,
            return_alternates=False,
        )
        names = [[one['nova_object.name'] for one in each] for each in answer]
        assert names == [['Selection'], ['Selection']]
        assert made.held().keys() == set(uuids)

    def test_a_caller_of_4_3_names_no_instances(self, made, wire):
        answer = wire.call(version='4.3', spec_obj=made.request(num_instances=2))
        assert [one['host'] for one in answer] == ['h1', 'h2']
        assert made.held() == {}

    @pytest.mark.parametrize(
        'sample', ['09-legacy-4.0-with-group', '09b-legacy-4.0-dicts']
    )
    def test_the_dicts_of_4_0(self, cloud, sample):
        made = cloud([Host(f'h{n}', disk_gb=1000) for n in range(4)])
        made.serve()
        path = SAMPLES / 'rpc' / f'{sample}.request.json'
        arguments = json.loads(path.read_text())['message']['args']
        answer = Wire(made).call(version='4.0', **arguments)
        assert [set(one) for one in answer] == [{'host', 'nodename', 'limits'}] * len(
            answer
        )
        assert made.held() == {}


class TestErrors:
    def test_no_host_is_novas_no_valid_host(self, made, wire, caplog):
        request = made.request(vcpus=99)
        with caplog.at_level(logging.INFO):
            found = raised_by(
                lambda: wire.call(spec_obj=request, instance_uuids=new_uuids())
            )
        assert found == ('nova.exception', 'NoValidHost', 'No valid host was found. ')
        (line,) = problems(caplog)
        assert line.levelno == logging.INFO

    @cases(
        ('arguments', 'text'),
        ('nothing', {}, 'no spec_obj'),
        ('a text', {'request_spec': 'a text'}, 'a str'),
        ('null', {'spec_obj': None}, 'not a RequestSpec'),
        ('another class', {'spec_obj': factories.group()}, 'not a RequestSpec'),
        ('an unknown argument', {**BOOT, 'colour': 'red'}, 'unknown argument colour'),
        ('a text for a list', {**BOOT, 'instance_uuids': 'abc'}, NO_UUIDS),
        ('a number for an instance', {**BOOT, 'instance_uuids': [1]}, NO_UUIDS),
    )
    def test_bad_arguments_are_one_line(self, caplog, arguments, text):
        endpoint = SchedulerEndpoint(SimpleNamespace(select_destinations=None), None)
        context = RequestContext(overwrite=False)
        with pytest.raises(oslo_messaging.ExpectedException) as raised:
            endpoint.select_destinations(context, **encode(arguments))
        assert isinstance(raised.value.exc_info[1].__cause__, errors.InvalidRequest)
        (line,) = problems(caplog)
        assert text in line.getMessage()
        assert line.exc_info is None

    def test_bad_arguments_are_typed_and_harm_no_other_request(self, made, wire):
        kind = raised_by(wire.call)
        assert kind[:2] == ('nova.exception', 'InvalidRequest')
        assert 'no spec_obj' in kind[2]
        assert wire.call(spec_obj=made.request(), instance_uuids=new_uuids())

    def test_a_newer_minor_version_of_the_interface_is_refused(self, made, wire):
        kind = raised_by(lambda: wire.call(version='4.6', spec_obj=made.request()))
        assert kind[:2] == ('oslo_messaging.rpc.dispatcher', 'UnsupportedVersion')

    @pytest.mark.parametrize('method', ['stop', '_request', 'reload'])
    def test_nothing_else_can_be_called(self, made, wire, method):
        kind = raised_by(lambda: wire.call(method))
        assert kind[:2] == ('oslo_messaging.rpc.dispatcher', 'NoSuchMethod')


class TestCasts:
    @pytest.mark.parametrize(
        ('method', 'arguments'),
        [
            ('update_aggregates', {'aggregates': [17]}),
            ('delete_aggregate', {}),
            ('update_instance_info', {'host_name': 'h1', 'instance_info': None}),
            ('delete_instance_info', {'host_name': 1, 'instance_uuid': 'u'}),
            ('sync_instance_info', {'host_name': 'h1', 'instance_uuids': {}}),
        ],
    )
    def test_a_bad_one_is_one_line(self, made, wire, caplog, method, arguments):
        wire.cast(method, **arguments)
        until(lambda: problems(caplog))
        assert wire.call(spec_obj=made.request(), instance_uuids=new_uuids())
        (line,) = problems(caplog)
        assert line.getMessage().startswith(f'{method} failed: The request is invalid')
        assert (line.levelno, line.exc_info) == (logging.ERROR, None)

    def test_aggregates_are_taken_in(self, made, wire):
        path = SAMPLES / 'casts' / 'update_aggregates.created.json'
        arguments = json.loads(path.read_text())['message']['args']
        wire.cast('update_aggregates', **arguments)
        aggregates = made.scheduler.view.aggregates
        until(lambda: aggregates.all())
        (sent,) = arguments['aggregates']
        (taken,) = aggregates.all()
        assert taken.uuid == sent['nova_object.data']['uuid']


class TestBase:
    def test_ping(self, wire):
        assert wire.base('ping', arg='hello') == {
            'service': 'scheduler',
            'arg': 'hello',
        }

    def test_there_is_no_backdoor(self, wire):
        assert wire.base('get_backdoor_port') is None

    def test_our_client_pings(self, made):
        context = RequestContext(overwrite=False)
        assert made.client.ping(context, 7, WAIT_S) == {
            'service': 'scheduler',
            'arg': 7,
        }
