# SPDX-License-Identifier: Apache-2.0
import oslo_messaging
import pytest

from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.rpc.serializer import encode
from novasched_lab.compute.endpoint import ComputeEndpoint
from tests.support.clouds import factories
from tests.support.tables.cases import cases

UUID = '10000000-0000-4000-8000-000000000001'
INSTANCE = encode(Instance(uuid=UUID))
REQUEST = encode(factories.request())
FLAVOR = encode(factories.request().flavor)


class Work:
    """A host that takes down what it is to do."""

    def __init__(self):
        self.done = []

    def build(self, context, what):
        self.done.append(('h1', what))

    take = terminate = build

    def confirm(self, context, uuid, migration):
        self.done.append(('h1', uuid, migration))


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def endpoint(work):
    return ComputeEndpoint({'h1': work})


@pytest.fixture
def context():
    return RequestContext(overwrite=False)


def test_a_build_has_its_own_uuid(endpoint, work, context):
    endpoint.build_and_run_instance(
        context, host='h1', instance=INSTANCE, request_spec=REQUEST, accel_uuids=[]
    )
    ((host, build),) = work.done
    assert (host, build.uuid, build.request.instance_uuid) == ('h1', UUID, UUID)
    assert (build.properties, build.host_list, build.limits) == ({}, [], None)


def test_a_move(endpoint, work, context):
    endpoint.prep_resize(
        context,
        host='h1',
        instance=INSTANCE,
        flavor=FLAVOR,
        request_spec=REQUEST,
        migration={'uuid': 'm', 'status': 'pre-migrating'},
    )
    ((_, move),) = work.done
    assert (move.uuid, move.migration_uuid) == (UUID, 'm')


def test_letting_go(endpoint, work, context):
    migration = {'uuid': 'm'}
    endpoint.confirm_resize(context, host='h1', instance=INSTANCE, migration=migration)
    assert work.done == [('h1', UUID, 'm')]


@cases(
    'method, arguments',
    (
        'a host of another process',
        'terminate_instance',
        {'host': 'h2', 'instance': INSTANCE},
    ),
    ('no instance', 'terminate_instance', {'host': 'h1', 'instance': None}),
    (
        'a request that is none',
        'build_and_run_instance',
        {'host': 'h1', 'instance': INSTANCE, 'request_spec': FLAVOR},
    ),
    (
        'no flavor',
        'prep_resize',
        {
            'host': 'h1',
            'instance': INSTANCE,
            'flavor': None,
            'request_spec': REQUEST,
            'migration': {'uuid': 'm'},
        },
    ),
    (
        'a migration without a uuid',
        'confirm_resize',
        {'host': 'h1', 'instance': INSTANCE, 'migration': {}},
    ),
)
def test_nonsense_is_refused(endpoint, work, context, method, arguments):
    with pytest.raises(oslo_messaging.ExpectedException):
        getattr(endpoint, method)(context, **arguments)
    assert work.done == []
