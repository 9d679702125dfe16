# SPDX-License-Identifier: Apache-2.0
"""An ordinary boot: the host, the claim and the alternates."""

import json

from tests.support.tables.cases import cases


def test_a_boot_goes_to_the_best_host_and_is_claimed_there(
    scheduler, cloud, placement, claims
):
    reply = scheduler.select(flavor={'vcpus': 2, 'memory_mb': 4096, 'root_gb': 30})
    claims.expect(reply.uuid)
    (best,) = reply.best
    node = cloud.hosts['node-1']
    wanted = {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 30}
    assert best == {
        'version': '1.1',
        'compute_node_uuid': node.uuid,
        'service_host': node.name,
        'nodename': node.node,
        'cell_uuid': cloud.cell_uuid('cell1'),
        'availability_zone': 'az1',
        'allocation_request': best['allocation_request'],
        'allocation_request_version': '1.36',
        'limits': {},
    }
    assert json.loads(best['allocation_request']) == {
        'allocations': {node.uuid: {'resources': wanted}},
        'mappings': {'': [node.uuid]},
    }
    assert placement.allocations(reply.uuid) == {node.uuid: wanted}
    held = placement.get(f'/allocations/{reply.uuid}')
    assert held['project_id'] == '6f70656e737461636b20444556204954'
    assert held['user_id'] == 'c0ffee00c0ffee00c0ffee00c0ffee00'
    assert held['consumer_generation'] == 1


def test_alternates_are_the_next_best_of_the_cell_and_one_less_than_max_attempts(
    scheduler, cloud, placement, claims
):
    reply = scheduler.select()
    claims.expect(reply.uuid)
    names = [alternate['service_host'] for alternate in reply.alternates]
    assert names == ['node-2', 'node-3']
    for alternate in reply.alternates:
        node = cloud.hosts[alternate['service_host']]
        request = json.loads(alternate['allocation_request'])
        assert list(request['allocations']) == [node.uuid]
        assert alternate['allocation_request_version'] == '1.36'
        assert alternate['cell_uuid'] == cloud.cell_uuid('cell1')
        usages = placement.get(f'/resource_providers/{node.uuid}/usages')['usages']
        assert not any(usages.values())


def test_a_server_that_moves_holds_both_hosts_after_the_claim(
    scheduler, cloud, placement, claims, new_uuid
):
    consumer = new_uuid()
    source, target = cloud.hosts['node-2'], cloud.hosts['node-1']
    placement.put(
        f'/allocations/{consumer}',
        {
            'allocations': {source.uuid: {'resources': {'VCPU': 3}}},
            'project_id': 'demo',
            'user_id': 'alice',
            'consumer_generation': None,
        },
    )
    reply = scheduler.select(uuids=[consumer], ignore_hosts=[source.name])
    claims.expect(consumer)
    assert reply.hosts == [target.name]
    assert placement.allocations(consumer) == {
        source.uuid: {'VCPU': 3},
        target.uuid: {'VCPU': 1, 'MEMORY_MB': 2048, 'DISK_GB': 20},
    }
    held = placement.get(f'/allocations/{consumer}')
    assert held['consumer_generation'] == 2


def test_a_move_to_the_provider_held_already_keeps_the_old_amounts(
    scheduler, cloud, placement, claims, new_uuid
):
    consumer = new_uuid()
    node = cloud.hosts['node-1']
    placement.put(
        f'/allocations/{consumer}',
        {
            'allocations': {node.uuid: {'resources': {'VCPU': 3}}},
            'project_id': 'demo',
            'user_id': 'alice',
            'consumer_generation': None,
        },
    )
    reply = scheduler.select(uuids=[consumer], ignore_hosts=['node-2'])
    claims.expect(consumer)
    assert reply.hosts == [node.name]
    assert placement.allocations(consumer) == {node.uuid: {'VCPU': 3}}


@cases(
    'server',
    ('tables of our own on MariaDB', 'mariadb'),
    more=[('tables of our own on PostgreSQL', 'postgres')],
)
def test_a_boot_in_a_cloud_of_our_own(
    server, clouds_of_our_own, daemon, placement, claims
):
    own = clouds_of_our_own(server)
    reply = daemon(on=own).select()
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-1']
    assert [each['service_host'] for each in reply.alternates] == ['node-2', 'node-3']
    assert list(placement.allocations(reply.uuid)) == [own.hosts['node-1'].uuid]
    assert reply.best[0]['cell_uuid'] == own.cell_uuid('cell1')
