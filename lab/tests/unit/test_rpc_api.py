# SPDX-License-Identifier: Apache-2.0
"""What computes, conductors and schedulers are sent."""

import contextlib
import types

import oslo_messaging
import pytest
from kombu.exceptions import OperationalError
from oslo_config import cfg

from lab.tests.unit.fakes import context, flavor, selection
from novasched.rpc.serializer import decode
from novasched_lab import opts, rpc_api
from novasched_lab.cells import Brokers
from novasched_lab.rpc_api import sending
from tests.support.clouds import factories
from tests.support.suite.waiting import eventually
from tests.support.tables.cases import cases

ARGUMENTS = {
    'instance': None,
    'request_spec': factories.request(),
    'filter_properties': {'limits': {}},
    'node': 'n',
    'host_list': [selection('h2')],
}


class Recorder:
    """Keeps what it is told."""

    def __init__(self, target, *methods):
        self.target = target
        self.told = []
        for method in methods:
            setattr(self, method, types.MethodType(self._keeper(method), self))

    def _keeper(self, method):
        def keep(self, context, **arguments):
            self.told.append((method, arguments))
            return True

        return keep


def configuration():
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    return made


@pytest.fixture
def transport():
    made = oslo_messaging.get_rpc_transport(configuration(), url='fake://')
    yield made
    made.cleanup()


@contextlib.contextmanager
def serving(transport, topic, endpoint):
    server = rpc_api.server(transport, topic, 'h1', [endpoint])
    server.start()
    try:
        yield endpoint
    finally:
        server.stop()
        server.wait()


def test_computes(transport):
    methods = (
        'build_and_run_instance',
        'terminate_instance',
        'prep_resize',
        'confirm_resize',
    )
    recorder = Recorder(rpc_api.COMPUTE_TARGET, *methods)
    client, user = rpc_api.ComputeClient(transport), context()
    with serving(transport, rpc_api.COMPUTE, recorder):
        client.build_and_run_instance(
            user, 'h1', limits=None, admin_password='x', **ARGUMENTS
        )
        eventually(lambda: len(recorder.told) == 1)
        client.terminate_instance(user, 'h1', None)
        eventually(lambda: len(recorder.told) == 2)
        client.prep_resize(user, 'h1', flavor=flavor(), migration={}, **ARGUMENTS)
        eventually(lambda: len(recorder.told) == 3)
        client.confirm_resize(user, 'h1', None, {})
        eventually(lambda: len(recorder.told) == 4)
    assert [method for method, _ in recorder.told] == list(methods)
    built = recorder.told[0][1]
    assert built['host_list'][0]['nova_object.name'] == 'Selection'
    assert (built['admin_password'], built['accel_uuids']) == ('x', [])


def test_conductors(transport):
    methods = ('schedule_and_build_instances', 'build_instances', 'migrate_server')
    recorder = Recorder(rpc_api.TASK_TARGET, *methods)
    client, user = rpc_api.ConductorClient(transport), context()
    request = factories.request()
    with serving(transport, rpc_api.CONDUCTOR, recorder):
        client.schedule_and_build_instances(user, [], [request])
        eventually(lambda: len(recorder.told) == 1)
        client.build_instances(user, None, {'retry': {}}, request, [selection('h')])
        eventually(lambda: len(recorder.told) == 2)
        client.migrate_server(user, None, flavor())
        eventually(lambda: len(recorder.told) == 3)
    assert [method for method, _ in recorder.told] == list(methods)
    networks = decode(recorder.told[0][1]['requested_networks'], user)
    assert [each.network_id for each in networks] == ['none']
    assert len(recorder.told[1][1]['host_lists'][0]) == 1
    assert recorder.told[2][1]['host_list'] is None


@cases(
    'problem',
    ('the broker is gone', OperationalError('gone')),
    ('nobody listens', ConnectionRefusedError()),
    (
        'there is no such queue',
        oslo_messaging.MessageUndeliverable(None, None, None, None),
    ),
)
def test_delivery_failures_become_one_error(problem):
    with pytest.raises(oslo_messaging.MessageDeliveryFailure), sending():
        raise problem


def test_a_broker_is_opened_once():
    conf = configuration()
    own = oslo_messaging.get_rpc_transport(conf, url='fake://')
    conf.set_override('transport_url', 'fake://')
    brokers = Brokers(conf, own)
    assert brokers.transport(None) is brokers.transport('fake://') is own
    other = brokers.transport('fake://other')
    assert other is not own
    assert brokers.transport('fake://other') is other
    with pytest.raises(Exception, match='transport_url'):
        brokers.transport('nonsense://x')
    brokers.close()
