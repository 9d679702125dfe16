# SPDX-License-Identifier: Apache-2.0
"""Several instances in one request, with and without a server group."""

import json

import pytest

from tests.live.peer import PeerError

NOT_ENOUGH = 'No valid host was found. There are not enough hosts available.'
UP = ('node-1', 'node-2', 'node-3', 'node-4', 'node-5', 'node-6')


def test_anti_affinity_takes_a_host_of_its_own_for_each_and_claims_all(
    scheduler, cloud, placement, claims, new_uuid
):
    uuids = [new_uuid() for _ in range(6)]
    reply = scheduler.select(
        uuids=uuids, group={'policy': 'anti-affinity', 'members': uuids}
    )
    claims.expect(*uuids)
    assert sorted(reply.hosts) == list(UP)
    for consumer, selections in zip(uuids, reply.answer, strict=True):
        (best,) = selections
        request = json.loads(best['allocation_request'])
        assert list(placement.allocations(consumer)) == list(request['allocations'])


def test_more_members_than_hosts_leaves_nothing_claimed(scheduler, claims, new_uuid):
    uuids = [new_uuid() for _ in range(7)]
    with pytest.raises(PeerError) as raised:
        scheduler.select(
            uuids=uuids, group={'policy': 'anti-affinity', 'members': uuids}
        )
    assert raised.value.name == 'NoValidHost'
    assert raised.value.text == NOT_ENOUGH


def test_anti_affinity_stays_away_from_hosts_of_members(
    scheduler, cloud, claims, new_uuid
):
    member = new_uuid()
    cloud.add_instance('node-1', member)
    try:
        reply = scheduler.select(
            group={'policy': 'anti-affinity', 'members': [member], 'hosts': ['node-1']}
        )
    finally:
        cloud.remove_instance('node-1', member)
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-2']


def test_affinity_puts_all_on_one_host(scheduler, placement, cloud, claims, new_uuid):
    uuids = [new_uuid() for _ in range(3)]
    reply = scheduler.select(
        uuids=uuids, group={'policy': 'affinity', 'members': uuids}
    )
    claims.expect(*uuids)
    assert reply.hosts == ['node-1'] * 3
    path = f'/resource_providers/{cloud.hosts["node-1"].uuid}/usages'
    assert placement.get(path)['usages']['VCPU'] == 3


def test_affinity_follows_the_hosts_of_the_group(scheduler, claims, new_uuid):
    reply = scheduler.select(
        group={'policy': 'affinity', 'members': [new_uuid()], 'hosts': ['node-4']}
    )
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-4']
    assert reply.alternates == []


def test_without_a_group_the_answer_keeps_the_order_of_the_uuids(
    scheduler, placement, claims
):
    reply = scheduler.select(count=3)
    claims.expect(*reply.uuids)
    assert len(reply.answer) == 3
    for consumer, best in zip(reply.uuids, reply.best, strict=True):
        assert list(placement.allocations(consumer)) == [best['compute_node_uuid']]


def test_no_alternate_is_a_host_chosen_for_another_instance(
    scheduler, claims, new_uuid
):
    uuids = [new_uuid() for _ in range(2)]
    reply = scheduler.select(
        uuids=uuids, group={'policy': 'anti-affinity', 'members': uuids}
    )
    claims.expect(*uuids)
    assert reply.hosts == ['node-1', 'node-2']
    for selections in reply.answer:
        assert [each['service_host'] for each in selections[1:]] == ['node-3', 'node-4']


def test_a_request_that_cannot_hold_all_instances_leaves_nothing_claimed(scheduler):
    # Six hosts with 32, 28, ... 12 vCPUs hold five of twenty vCPUs at most once.
    with pytest.raises(PeerError) as raised:
        scheduler.select(count=5, flavor={'vcpus': 20})
    assert raised.value.name == 'NoValidHost'
    assert raised.value.text == NOT_ENOUGH
