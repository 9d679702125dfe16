# SPDX-License-Identifier: Apache-2.0
"""Scheduler, conductor and computes of ours, on real servers: the whole flow."""

import pytest

from tests.live.flow import HOSTS, fleet, running

STREAMS = {
    'rabbit_quorum_queue': 'true',
    'rabbit_transient_quorum_queue': 'true',
    'rabbit_stream_fanout': 'true',
    'rabbit_qos_prefetch_count': '10',
}


@pytest.fixture(scope='module')
def by_streams(tmp_path_factory, servers):
    """The same by queues of other kinds, on hosts of their own in the one placement."""
    directory = tmp_path_factory.mktemp('streams', numbered=False)
    hosts = [(f'stream-{number}', cell) for number, (_, cell) in enumerate(HOSTS)]
    names = [name for name, _ in hosts]
    with running(directory, servers, names, fleet(*hosts), queues=STREAMS) as made:
        yield made


@pytest.fixture(
    params=[
        pytest.param('flow_cloud', id='classic queues'),
        pytest.param(
            'by_streams',
            id='quorum queues and streams',
            marks=pytest.mark.exhaustive('test_queues.py has a request by them'),
        ),
    ]
)
def flow(request, placement, eventually):
    """All programs; nothing is left of the servers that a test has asked for."""
    made = request.getfixturevalue(request.param)
    yield made
    made.delete_all()
    eventually(lambda: placement.consumers() == set(), 'the release')


def holders(placement, uuid):
    """The names of the hosts where an instance holds something."""
    names = {
        each['uuid']: each['name']
        for each in placement.get('/resource_providers')['resource_providers']
    }
    return {names[provider] for provider in placement.allocations(uuid)}


@pytest.mark.scenario('F12', 'I4')
def test_a_boot_is_active_on_the_host_that_placement_has_it_on(
    flow, placement, new_uuid
):
    uuid = new_uuid()
    flow.boot([uuid])
    instance = flow.ended(uuid)
    assert instance.vm_state == 'active', flow.fault(uuid)
    assert holders(placement, uuid) == {instance.host}


@pytest.mark.scenario('F12', 'I2')
def test_a_boot_that_fits_nowhere_is_an_error_that_holds_nothing(flow, new_uuid):
    uuid = new_uuid()
    flow.boot([uuid], vcpus=4096)
    assert flow.ended(uuid).vm_state == 'error'
    assert flow.fault(uuid).message == 'No valid host was found. '


def test_a_refused_instance_ends_on_another_host(flow, placement, new_uuid):
    uuids = [new_uuid() for _ in range(4)]
    for uuid in uuids:
        # Instances of one request are no alternates for each other.
        flow.boot([uuid], flavor='picky')
    for uuid in uuids:
        instance = flow.ended(uuid)
        assert instance.host.endswith(('-2', '-3')), flow.fault(uuid)
        assert holders(placement, uuid) == {instance.host}


def test_an_instance_that_all_refuse_is_an_error_that_holds_nothing(flow, new_uuid):
    uuid = new_uuid()
    flow.boot([uuid], flavor='nowhere')
    assert flow.ended(uuid).vm_state == 'error'
    assert flow.fault(uuid).message.startswith('Exceeded maximum number of retries.')


@pytest.mark.scenario('F12', 'I2', 'I4')
def test_an_instance_moves_and_is_deleted(flow, placement, new_uuid, eventually):
    uuid = new_uuid()
    flow.boot([uuid])
    before = flow.ended(uuid)
    flow.conductor.migrate_server(flow.context, before)

    def moved():
        after = flow.instance(uuid)
        at_rest = after.host != before.host and after.task_state is None
        return after if at_rest and placement.consumers() == {uuid} else None

    after = eventually(moved, 'the move', 60)
    assert holders(placement, uuid) == {after.host}
    flow.delete_all()
    assert flow.instance(uuid) is None
    eventually(lambda: placement.consumers() == set(), 'the release')
