# SPDX-License-Identifier: Apache-2.0
"""Messages to calls of the manager: what is decoded, and what is answered."""

import contextlib
import logging
import threading
from types import SimpleNamespace

import oslo_messaging
import pytest

from novasched import errors
from novasched.objects.compute_node import Aggregate, AggregateList
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance, InstanceList
from novasched.objects.selection import Selection
from novasched.ports import CallerGone
from novasched.rpc.answers import Incoming as Wrapped
from novasched.rpc.caller import RpcCaller, calling, current
from novasched.rpc.serializer import encode
from novasched.rpc.server import BaseEndpoint, Dispatcher, SchedulerEndpoint
from tests.support.clouds import factories
from tests.support.tables.cases import cases

UUID = factories.INSTANCE


class FakeManager:
    """Keeps what it is called with; answers, or raises, what it was given."""

    def __init__(self):
        self.answer = []
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments[name == 'select_destinations' :]))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


class Incoming:
    """A message as the driver hands it over."""

    client_timeout = None

    def __init__(self, message, context=None):
        self.message = message
        self.ctxt = RequestContext(overwrite=False).to_dict()
        if context is not None:
            self.ctxt = context


@pytest.fixture
def manager():
    return FakeManager()


@pytest.fixture
def dispatch(manager):
    """Dispatch a message; return the answer, or (module, class, text) of its error."""
    dispatcher = Dispatcher([SchedulerEndpoint(manager, None), BaseEndpoint()])

    def run(method='select_destinations', version='4.5', context=None, **arguments):
        message = method
        if isinstance(method, str):
            message = {'method': method, 'version': version, 'args': encode(arguments)}
        try:
            return dispatcher.dispatch(Incoming(message, context))
        except oslo_messaging.ExpectedException as expected:
            kind, error, _ = expected.exc_info
            return kind.__module__, kind.__name__, str(error)

    return run


def test_arguments_are_decoded(manager, dispatch):
    dispatch(
        spec_obj=factories.request(),
        instance_uuids=[UUID],
        return_objects=True,
        return_alternates=True,
    )
    ((name, request, *others),) = manager.calls
    assert name == 'select_destinations'
    assert request.instance_uuid == UUID
    assert others == [[UUID], True, True, None]


def test_missing_arguments_have_novas_defaults(manager, dispatch):
    dispatch(spec_obj=factories.request())
    assert manager.calls[0][2:] == (None, False, False, None)


def test_dicts_describe_a_request(manager, dispatch):
    dispatch(version='4.0', request_spec={'num_instances': 3}, filter_properties={})
    assert manager.calls[0][1].num_instances == 3


def test_answers_are_encoded(manager, dispatch):
    manager.answer = [[Selection(service_host='h1')]]
    ((found,),) = dispatch(spec_obj=factories.request())
    assert found['nova_object.data'] == {'service_host': 'h1'}


@pytest.mark.parametrize(
    ('error', 'level'),
    [
        (errors.NoValidHost('none'), logging.INFO),
        (errors.AllocationUpdateFailed('u', 'changed'), logging.ERROR),
    ],
)
def test_errors_are_novas_and_one_line(manager, dispatch, caplog, error, level):
    caplog.set_level(logging.INFO)
    manager.answer = error
    found = dispatch(spec_obj=factories.request())
    assert found == ('nova.exception', type(error).__name__, str(error))
    (line,) = caplog.records
    assert (line.levelno, line.exc_info) == (level, None)
    assert line.getMessage() == f'select_destinations failed: {error}'


def test_the_error_of_a_plugin_keeps_its_traceback(manager, dispatch, caplog):
    manager.answer = errors.ExtensionFailed('SiteFilter', KeyError('rack'))
    found = dispatch(spec_obj=factories.request())
    assert found[1] == 'KeyError'
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert line.exc_info[1] is manager.answer
    assert line.getMessage().startswith('select_destinations failed: SiteFilter failed')


def test_an_unexpected_error_is_left_to_the_server(manager, dispatch):
    manager.answer = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        dispatch(spec_obj=factories.request())


@cases(
    'message',
    ('a list', []),
    ('nothing', {}),
    ('a number for a method', {'method': 7}),
    ('arguments without names', {'method': 'ping', 'args': []}),
    ('a number for a version', {'method': 'ping', 'version': 4}),
)
def test_a_message_that_is_no_call_is_one_line(dispatch, caplog, message):
    assert dispatch(message)[:2] == ('nova.exception', 'InvalidRequest')
    (line,) = caplog.records
    assert line.exc_info is None


@pytest.mark.parametrize(
    ('method', 'version', 'name'),
    [
        ('riddle', '4.5', 'NoSuchMethod'),
        ('_request', '4.5', 'NoSuchMethod'),
        ('target', '4.5', 'NoSuchMethod'),
        ('select_destinations', '4.6', 'UnsupportedVersion'),
        ('select_destinations', '3.0', 'UnsupportedVersion'),
    ],
)
def test_a_method_that_is_not_there_is_one_line(
    dispatch, caplog, method, version, name
):
    found = dispatch(method, version)
    assert found[:2] == ('oslo_messaging.rpc.dispatcher', name)
    (line,) = caplog.records
    assert line.exc_info is None


@pytest.mark.parametrize('context', [{'read_deleted': 'perhaps'}, {'timestamp': 'now'}])
def test_invalid_context_is_one_log_line(dispatch, caplog, context):
    found = dispatch(context=context, spec_obj=factories.request())
    assert found[:2] == ('nova.exception', 'InvalidRequest')
    assert 'its context' in found[2]
    assert len(caplog.records) == 1


class TestCasts:
    def aggregate(self):
        return Aggregate(id=3, uuid=UUID, name='agg', hosts=['h1'], metadata={'a': 'b'})

    @cases(
        'form',
        ('a list', lambda one: [one]),
        ('an AggregateList', lambda one: AggregateList(objects=[one])),
        ('just one', lambda one: one),
    )
    def test_aggregates_come_in_three_forms(self, manager, dispatch, form):
        aggregates = form(self.aggregate())
        dispatch('update_aggregates', '4.1', aggregates=aggregates)
        ((_, (found,)),) = manager.calls
        assert (found.id, found.name, found.hosts) == (3, 'agg', frozenset({'h1'}))
        assert found.metadata == {'a': 'b'}

    def test_an_aggregate_is_forgotten_by_its_id(self, manager, dispatch):
        dispatch('delete_aggregate', '4.1', aggregate=self.aggregate())
        assert manager.calls == [('delete_aggregate', 3)]

    def test_instances(self, manager, dispatch):
        told = InstanceList(objects=[Instance(uuid=UUID)])
        dispatch('update_instance_info', host_name='h1', instance_info=told)
        dispatch('delete_instance_info', host_name='h1', instance_uuid=UUID)
        dispatch('sync_instance_info', host_name='h1', instance_uuids=[UUID])
        (_, host, instances), *others = manager.calls
        assert (host, list(instances)) == ('h1', [UUID])
        assert others == [
            ('delete_instance_info', 'h1', UUID),
            ('sync_instance_info', 'h1', [UUID]),
        ]


class FakeRequests:
    """Writes down what it is told of requests."""

    def __init__(self):
        self.told = []

    def arrived(self, waited_s):
        self.told.append(waited_s)

    def placed(self, servers):
        self.told.append(f'{servers} servers')

    @contextlib.contextmanager
    def attempt(self):
        try:
            yield
            self.told.append('done')
        except errors.NoValidHost:
            self.told.append('no host')
            raise


@cases(
    'answer, method, expected',
    (
        'a request for two servers',
        [[], []],
        'select_destinations',
        [0.5, '2 servers', 'done'],
    ),
    (
        'a request that fails',
        errors.NoValidHost('none'),
        'select_destinations',
        [0.5, 'no host'],
    ),
    ('another call', None, 'delete_aggregate', [0.5]),
)
def test_requests_are_watched_from_their_arrival(manager, answer, method, expected):
    requests = FakeRequests()
    manager.answer = answer
    endpoints = [SchedulerEndpoint(manager, None, requests)]
    dispatcher = Dispatcher(endpoints, requests)
    arguments = {'spec_obj': factories.request()}
    if method == 'delete_aggregate':
        arguments = {'aggregate': Aggregate(id=1)}
    incoming = Incoming({'method': method, 'version': '4.5', 'args': encode(arguments)})
    incoming.stopwatch = SimpleNamespace(elapsed=lambda: 0.5)
    with contextlib.suppress(oslo_messaging.ExpectedException):
        dispatcher.dispatch(incoming)
    assert requests.told == expected


def test_a_request_that_comes_too_late_is_refused_with_a_warning(
    manager, dispatch, caplog
):
    late = SimpleNamespace(
        message={}, client_timeout=1, stopwatch=SimpleNamespace(elapsed=lambda: 2.0)
    )
    with calling(RpcCaller(late)):
        kind = dispatch(spec_obj=factories.request())
    assert kind[:2] == ('nova.exception', 'NovaException')
    assert manager.calls == []
    (line,) = caplog.records
    assert line.levelname == 'WARNING'
    assert 'No caller waits for this request any more' in line.getMessage()


@cases(
    'logged, level',
    ('a caller that gave up', False, 'WARNING'),
    ('one that the log has named as gone', True, 'DEBUG'),
)
def test_a_caller_that_is_gone_is_one_line_of_log(
    manager, dispatch, caplog, logged, level
):
    caplog.set_level('DEBUG', 'novasched')
    manager.answer = CallerGone('gone', logged=logged)
    dispatch(spec_obj=factories.request())
    (line,) = caplog.records
    assert line.levelname == level


def test_the_manager_learns_who_waits(manager, dispatch):
    with calling(RpcCaller(SimpleNamespace(message={}))):
        dispatch(spec_obj=factories.request())
        assert manager.calls[0][-1] is current()


class Twice(threading.Event):
    """Is set when it is waited for the second time."""

    def __init__(self):
        super().__init__()
        self.waited = []

    def wait(self, seconds):
        self.waited.append(round(seconds))
        return len(self.waited) > 1


@cases(
    'wrap, waited',
    (
        'the first sign of life does not wait for the second',
        lambda one: Wrapped(one, RpcCaller(one), None),
        [1, 30],
    ),
    ('a message of another server', lambda one: one, [30, 30]),
)
def test_a_caller_gets_signs_of_life(wrap, waited):
    sent, event = [], Twice()
    received = Incoming({'method': 'x'})
    received.client_timeout = 60
    received.heartbeat = lambda: sent.append(1)
    Dispatcher([BaseEndpoint()])._watchdog(event, wrap(received))
    assert (event.waited, sent) == (waited, [1])
