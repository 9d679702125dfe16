# SPDX-License-Identifier: Apache-2.0
"""Arguments of messages: read, or refused."""

import oslo_messaging
import pytest

from lab.tests.unit.fakes import context, flavor, selection
from novasched_lab.conductor.service import TaskEndpoint
from novasched_lab.rpc_api import build_request_of
from tests.support.tables.cases import cases


def primitive(thing):
    return thing.obj_to_primitive()


@pytest.fixture
def asked(neighbours):
    ((instance, request),) = neighbours.ask_for()
    return instance, request


def task(neighbours):
    return TaskEndpoint(neighbours.context)


def boot(neighbours, asked):
    instance, request = asked
    task(neighbours).schedule_and_build_instances(
        context(),
        build_requests=[primitive(build_request_of(instance))],
        request_specs=[primitive(request)],
        image={},
        admin_password='secret',
        tags=[],
    )


def test_new_instances_are_built(neighbours, asked):
    boot(neighbours, asked)
    ((_, host, told),) = neighbours.computes.told
    assert (host, told['admin_password']) == ('h1', 'secret')


def test_a_refused_instance_is_tried_again(neighbours, asked):
    boot(neighbours, asked)
    task(neighbours).build_instances(
        context(),
        instances=[primitive(asked[0])],
        request_spec=primitive(asked[1]),
        filter_properties={'retry': {'num_attempts': 1, 'hosts': []}},
        host_lists=[[primitive(selection('h2'))]],
    )
    assert [host for _, host, _ in neighbours.computes.told] == ['h1', 'h2']


def test_an_instance_is_moved(neighbours, asked):
    boot(neighbours, asked)
    uuid = asked[0].uuid
    neighbours.cell1.update(uuid, host='h1', vm_state='active', task_state=None)
    task(neighbours).migrate_server(
        context(),
        instance=primitive(asked[0]),
        flavor=primitive(flavor(vcpus=2)),
        scheduler_hint={'filter_properties': {}},
        host_list=None,
        live=False,
    )
    assert neighbours.computes.told[-1][0] == 'prep_resize'


@cases(
    'method, arguments',
    ('no build requests', 'schedule_and_build_instances', {}),
    (
        'none of them',
        'schedule_and_build_instances',
        {'build_requests': [], 'request_specs': []},
    ),
    ('no request', 'build_instances', {'instances': []}),
    (
        'another object for the request',
        'build_instances',
        {'instances': [], 'request_spec': primitive(flavor())},
    ),
    ('a live migration', 'migrate_server', {'live': True}),
    ('no instance', 'migrate_server', {'instance': None}),
)
def test_nonsense_is_answered(neighbours, method, arguments):
    with pytest.raises(oslo_messaging.ExpectedException):
        getattr(task(neighbours), method)(context(), **arguments)
