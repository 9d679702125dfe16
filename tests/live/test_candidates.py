# SPDX-License-Identifier: Apache-2.0
"""Trees, shared storage and moves, with what placement holds before and after."""

import json

import pytest

from tests.live.peer import PeerError

NIC = 'CUSTOM_PCI_8086_1563'
GOLD = 'CUSTOM_GOLD'
OWNER = {
    'project_id': '6f70656e737461636b20444556204954',
    'user_id': 'c0ffee00c0ffee00c0ffee00c0ffee00',
}
SMALL = {'vcpus': 2, 'memory_mb': 2048, 'root_gb': 20}
LARGE = {'vcpus': 4, 'memory_mb': 4096, 'root_gb': 40}


def amounts(vcpus, memory_mb, root_gb):
    return {'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': root_gb}


def children_of(placement, cloud, consumer, host):
    """What a consumer holds besides what the node of a host has."""
    held = placement.allocations(consumer)
    held.pop(cloud.hosts[host].uuid, None)
    return held


class TestTrees:
    def test_a_group_takes_from_a_child_with_its_trait(
        self, scheduler, cloud, placement, tree
    ):
        tree.add('gpu-plain', 'node-3', VGPU=4)
        gold = tree.add('gpu-gold', 'node-4', [GOLD], VGPU=4)
        specs = {'resources_GPU:VGPU': '2', f'trait_GPU:{GOLD}': 'required'}
        reply = scheduler.select(flavor={'extra_specs': specs})
        assert reply.hosts == ['node-4']
        held = children_of(placement, cloud, reply.uuid, 'node-4')
        assert held == {gold: {'VGPU': 2}}
        request = json.loads(reply.best[0]['allocation_request'])
        assert request['mappings']['_GPU'] == [gold]

    def test_isolated_devices_come_from_two_children(
        self, scheduler, cloud, placement, tree
    ):
        devices = {tree.add(f'nic-{n}', 'node-2', **{NIC: 1}) for n in (1, 2)}
        specs = {f'resources_{n}:{NIC}': '1' for n in 'AB'}
        specs['group_policy'] = 'isolate'
        reply = scheduler.select(flavor={'extra_specs': specs})
        assert reply.hosts == ['node-2']
        held = children_of(placement, cloud, reply.uuid, 'node-2')
        assert held == {device: {NIC: 1} for device in devices}

    def test_one_more_than_there_are_children_leaves_nothing_claimed(
        self, scheduler, tree
    ):
        for n in range(2):
            tree.add(f'gpu-{n}', 'node-2', VGPU=1)
        with pytest.raises(PeerError) as raised:
            scheduler.select(count=3, flavor={'extra_specs': {'resources:VGPU': '1'}})
        assert raised.value.name == 'NoValidHost'


class TestSharedStorage:
    @pytest.fixture
    def pool(self, tree):
        """A thousand GiB, to share in a zone."""
        sharing = ['MISC_SHARES_VIA_AGGREGATE']
        return tree.add('pool', None, sharing, ['az1'], DISK_GB=100_000)

    def test_a_disk_that_no_host_has_comes_from_the_pool(
        self, scheduler, cloud, placement, pool
    ):
        reply = scheduler.select(flavor={'root_gb': 50_000})
        assert reply.hosts == ['node-1']
        assert placement.allocations(reply.uuid) == {
            cloud.hosts['node-1'].uuid: {'VCPU': 1, 'MEMORY_MB': 2048},
            pool: {'DISK_GB': 50_000},
        }

    def test_the_pool_is_used_up_by_the_instances_of_one_request(self, scheduler, pool):
        with pytest.raises(PeerError) as raised:
            scheduler.select(count=3, flavor={'root_gb': 50_000})
        assert raised.value.name == 'NoValidHost'
        reply = scheduler.select(count=2, flavor={'root_gb': 50_000})
        assert len(reply.hosts) == 2

    def test_an_evacuation_counts_the_shared_disk_once(
        self, scheduler, cloud, placement, pool
    ):
        flavor = {**SMALL, 'root_gb': 50_000}
        first = scheduler.select(flavor=flavor)
        (source,) = first.hosts
        moved = scheduler.select(
            uuids=first.uuids, flavor=flavor, ignore_hosts=[source]
        )
        (target,) = moved.hosts
        assert {source, target} == {'node-1', 'node-2'}
        computing = {'VCPU': 2, 'MEMORY_MB': 2048}
        assert placement.allocations(first.uuid) == {
            cloud.hosts[source].uuid: computing,
            cloud.hosts[target].uuid: computing,
            pool: {'DISK_GB': 50_000},
        }


class TestMoves:
    @pytest.fixture
    def small(self, scheduler, claims):
        """An instance of the small flavor, on node-1."""
        reply = scheduler.select(flavor=SMALL)
        claims.expect(reply.uuid)
        assert reply.hosts == ['node-1']
        return reply.uuid

    @pytest.fixture
    def swapped(self, placement, cloud, claims, small, new_uuid):
        """The migration that has what the instance had, as a conductor moves it."""
        held = placement.get(f'/allocations/{small}')
        migration = new_uuid()
        claims.expect(migration)
        empty = {'allocations': {}, **OWNER}
        empty['consumer_generation'] = held['consumer_generation']
        source = {
            'allocations': {
                provider: {'resources': each['resources']}
                for provider, each in held['allocations'].items()
            },
            'consumer_generation': None,
            **OWNER,
        }
        body = {small: empty, migration: source}
        placement.request('POST', '/allocations', body, '1.28')
        return migration

    def test_a_resize_holds_old_and_new(
        self, scheduler, cloud, placement, small, swapped
    ):
        reply = scheduler.select(uuids=[small], flavor=LARGE, ignore_hosts=['node-1'])
        assert reply.hosts == ['node-2']
        one, two = (cloud.hosts[name].uuid for name in ('node-1', 'node-2'))
        assert placement.allocations(swapped) == {one: amounts(**SMALL)}
        assert placement.allocations(small) == {two: amounts(**LARGE)}

    def test_a_resize_on_the_same_host_holds_both_there(
        self, scheduler, cloud, placement, small, swapped
    ):
        reply = scheduler.select(uuids=[small], flavor=LARGE)
        assert reply.hosts == ['node-1']
        one = cloud.hosts['node-1'].uuid
        assert placement.allocations(swapped) == {one: amounts(**SMALL)}
        assert placement.allocations(small) == {one: amounts(**LARGE)}
        usages = placement.get(f'/resource_providers/{one}/usages')['usages']
        assert usages == amounts(6, 6144, 60)

    def test_a_resize_without_host_leaves_the_migration_alone(
        self, scheduler, cloud, placement, claims, small, swapped
    ):
        claims.forget(small)
        with pytest.raises(PeerError):
            scheduler.select(uuids=[small], flavor={**LARGE, 'vcpus': 1000})
        one = cloud.hosts['node-1'].uuid
        assert placement.allocations(swapped) == {one: amounts(**SMALL)}
        assert placement.allocations(small) == {}

    def test_an_evacuation_holds_source_and_target(
        self, scheduler, cloud, placement, small
    ):
        before = placement.get(f'/allocations/{small}')['consumer_generation']
        reply = scheduler.select(uuids=[small], flavor=SMALL, ignore_hosts=['node-1'])
        assert reply.hosts == ['node-2']
        assert placement.allocations(small) == {
            cloud.hosts[name].uuid: amounts(**SMALL) for name in ('node-1', 'node-2')
        }
        held = placement.get(f'/allocations/{small}')
        assert held['consumer_generation'] == before + 1

    def test_a_claim_where_the_instance_already_is_keeps_the_amounts(
        self, scheduler, cloud, placement, small
    ):
        scheduler.select(uuids=[small], flavor=LARGE, ignore_hosts=['node-2'])
        held = placement.allocations(small)
        assert held == {cloud.hosts['node-1'].uuid: amounts(**SMALL)}

    def test_several_of_which_one_holds_something_are_claimed_one_by_one(
        self, scheduler, cloud, placement, claims, small, new_uuid
    ):
        other = new_uuid()
        claims.expect(other)
        reply = scheduler.select(
            uuids=[other, small], flavor=SMALL, ignore_hosts=['node-1']
        )
        targets = [cloud.hosts[host].uuid for host in reply.hosts]
        source = cloud.hosts['node-1'].uuid
        assert placement.allocations(other) == {targets[0]: amounts(**SMALL)}
        assert set(placement.allocations(small)) == {source, targets[1]}


def test_an_alternate_can_be_claimed_as_a_conductor_does_it(
    scheduler, cloud, placement, tree, claims, new_uuid
):
    tree.add('gpu-2', 'node-2', VGPU=1)
    tree.add('gpu-3', 'node-3', VGPU=1)
    specs = {'resources_GPU:VGPU': '1'}
    reply = scheduler.select(flavor={'extra_specs': specs})
    (alternate,) = reply.alternates
    assert alternate['service_host'] == 'node-3'
    request = json.loads(alternate['allocation_request'])
    body = {**request, **OWNER, 'consumer_generation': None}
    version = alternate['allocation_request_version']
    consumer = new_uuid()
    placement.put(f'/allocations/{consumer}', body, version)
    assert len(placement.allocations(consumer)) == 2
