# SPDX-License-Identifier: Apache-2.0
"""What the API and the computes tell every scheduler, without an answer."""

import pytest

from tests.live.peer import PeerError

SSD = {'aggregate_instance_extra_specs:ssd': 'true'}


@pytest.fixture(scope='module')
def scheduler(module_daemon):
    """A daemon whose caches this module may change."""
    filters = (
        'ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,'
        'ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,'
        'AggregateInstanceExtraSpecsFilter'
    )
    # What the casts of this module tell is not what the databases say.
    return module_daemon(
        filter_scheduler={'enabled_filters': filters},
        novasched={'check_interval': 3600},
    )


@pytest.fixture
def place(scheduler):
    """Ask where an instance would go without a claim; None when nowhere."""

    def ask(**request):
        try:
            (found,) = scheduler.select(level='4.3', **request).answer
        except PeerError as error:
            return {'NoValidHost': None}[error.name]
        return found['host']

    return ask


def test_a_new_name_of_a_zone_reaches_the_selection(
    module_daemon, cloud, placement, claims, eventually
):
    """Where no filter reads aggregates: else they are what the database says."""
    scheduler = module_daemon(
        filter_scheduler={'enabled_filters': 'ComputeFilter'},
        novasched={'check_interval': 3600},
    )

    def zone():
        reply = scheduler.select(force_hosts=['node-6'])
        placement.release(reply.uuid)
        return reply.best[0]['availability_zone']

    assert zone() == 'az3'
    aggregate = cloud.aggregate('az3')
    renamed = {**aggregate, 'metadata': {'availability_zone': 'renamed'}}
    scheduler.client.run('update_aggregates', aggregates=[renamed])
    eventually(lambda: zone() == 'renamed', 'the new zone')
    scheduler.client.run('update_aggregates', aggregates=[aggregate])
    eventually(lambda: zone() == 'az3', 'the old zone')


def test_aggregates_that_come_change_and_go_decide_for_a_filter(
    scheduler, place, eventually
):
    fast = {
        'id': 77,
        'uuid': 'd1d26813-105a-4302-ba36-ea3d1b2cfe3e',
        'name': 'fast',
        'hosts': ['node-4'],
        'metadata': {'ssd': 'true'},
    }
    request = {'flavor': {'extra_specs': SSD}}
    assert place(**request) is None
    scheduler.client.run('update_aggregates', aggregates=[fast])
    eventually(lambda: place(**request) == 'node-4', 'the new aggregate')
    moved = {**fast, 'hosts': ['node-2']}
    scheduler.client.run('update_aggregates', aggregates=[moved])
    eventually(lambda: place(**request) == 'node-2', 'the other host')
    scheduler.client.run('delete_aggregate', aggregate=moved)
    eventually(lambda: place(**request) is None, 'the end of the aggregate')


def test_instances_that_come_and_go_decide_for_anti_affinity(
    scheduler, place, eventually, new_uuid
):
    member, other = new_uuid(), new_uuid()
    request = {'group': {'policy': 'anti-affinity', 'members': [member]}}
    run = scheduler.client.run
    assert place(**request) == 'node-1'
    # Two at once are taken as all that the host has.
    run('update_instance_info', host='node-1', uuids=[member, other])
    eventually(lambda: place(**request) == 'node-2', 'the instance')
    run('delete_instance_info', host='node-1', uuid=member)
    eventually(lambda: place(**request) == 'node-1', 'its end')
    run('update_instance_info', host='node-1', uuids=[member])
    eventually(lambda: place(**request) == 'node-2', 'its return')
    # Not what the scheduler knows: it reads the database, where there is none.
    run('sync_instance_info', host='node-1', uuids=[other, new_uuid()])
    eventually(lambda: place(**request) == 'node-1', 'the re-read')


def test_casts_about_unknown_things_harm_no_request(scheduler, place, new_uuid):
    run = scheduler.client.run
    run('update_instance_info', host='nosuch', uuids=[new_uuid()])
    run('update_instance_info', host='nosuch', uuids=[])
    run('delete_instance_info', host='nosuch', uuid=new_uuid())
    run('sync_instance_info', host='nosuch', uuids=[new_uuid()])
    unknown = {
        'id': 4711,
        'uuid': 'b7f0a7a4-2d5d-4b0f-8a55-7d6b7d0f3c77',
        'name': 'nosuch',
        'hosts': [],
        'metadata': {},
    }
    run('delete_aggregate', aggregate=unknown)
    assert place() == 'node-1'
