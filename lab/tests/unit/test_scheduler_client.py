# SPDX-License-Identifier: Apache-2.0
"""What our client sends."""

import contextlib

import oslo_messaging
import pytest
from oslo_config import cfg

from novasched.objects.context import RequestContext
from novasched.objects.request_spec import SchedulerLimits
from novasched.objects.selection import Selection
from novasched.process import opts
from novasched.rpc.serializer import RequestSerializer, encode
from novasched.rpc.server import BaseEndpoint
from novasched.rpc.transport import transport_from_conf
from novasched_lab.scheduler_client import TARGET, ClientSerializer, SchedulerClient
from tests.support.clouds import factories


class Endpoint:
    """Keeps what it is called with."""

    target = oslo_messaging.Target(version='4.5')

    def __init__(self):
        self.arguments = None

    def select_destinations(self, context, **arguments):
        self.arguments = arguments
        return [[Selection(service_host='h1')]]


@pytest.fixture(
    params=[
        pytest.param(TARGET, id='of a cloud'),
        pytest.param(
            oslo_messaging.Target(exchange='own', topic='demo'), id='of its own'
        ),
    ]
)
def target(request):
    return request.param


@pytest.fixture
def served(target):
    """A client and the endpoint that it reaches."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('transport_url', 'fake://')
    with contextlib.ExitStack() as stack:
        transport = transport_from_conf(conf)
        stack.callback(transport.cleanup)
        endpoint = Endpoint()
        server = oslo_messaging.get_rpc_server(
            transport,
            target(server='me'),
            [endpoint, BaseEndpoint()],
            serializer=RequestSerializer(),
        )
        server.start()
        stack.callback(server.stop)
        given = () if target is TARGET else (target,)
        yield SchedulerClient(conf, transport, *given), endpoint


def test_a_request_goes_as_a_conductor_sends_it(served):
    client, endpoint = served
    context = RequestContext(overwrite=False)
    request = factories.request()
    ((found,),) = client.select_destinations(context, request, ('a',), False)
    assert found.service_host == 'h1'
    sent = endpoint.arguments
    assert sent.pop('spec_obj')['nova_object.name'] == 'RequestSpec'
    assert sent == {
        'instance_uuids': ['a'],
        'return_objects': True,
        'return_alternates': False,
    }


def test_a_ping_comes_back(served):
    client, _ = served
    answer = client.ping(RequestContext(overwrite=False), {'a': 1}, 20)
    assert answer == {'service': 'scheduler', 'arg': {'a': 1}}


def test_results_are_decoded():
    limits = SchedulerLimits(vcpu=4)
    [[made]] = ClientSerializer().deserialize_entity(
        RequestContext(overwrite=False), [[encode(limits)]]
    )
    assert (type(made), made.vcpu) == (SchedulerLimits, 4)
