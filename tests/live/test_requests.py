# SPDX-License-Identifier: Apache-2.0
"""What a request may say about hosts, and what hosts say about themselves."""

import pytest

from tests.support.tables.cases import cases


@cases(
    'request_, host',
    ('a forced host', {'force_hosts': ['node-4']}, 'node-4'),
    ('a forced node', {'force_nodes': ['node-3.example.org']}, 'node-3'),
    ('forced past the filters', {'force_hosts': ['node-down']}, 'node-down'),
    ('an ignored host', {'ignore_hosts': ['node-1']}, 'node-2'),
    ('ignored in whatever case', {'ignore_hosts': ['NODE-1', 'node-2']}, 'node-3'),
    ('a requested host', {'destination': {'host': 'node-5'}}, 'node-5'),
    (
        'a requested host and node',
        {'destination': {'host': 'node-6', 'node': 'node-6.example.org'}},
        'node-6',
    ),
    ('an availability zone', {'zone': 'az2'}, 'node-3'),
    ('the zone of the other cell', {'zone': 'az3'}, 'node-5'),
    ('a zone of no aggregate limits nothing', {'zone': 'nosuch'}, 'node-1'),
    (
        'a trait that every host has',
        {'flavor': {'extra_specs': {'trait:HW_CPU_X86_AVX2': 'required'}}},
        'node-1',
    ),
)
def test_the_request_names_hosts(scheduler, cloud, placement, claims, request_, host):
    reply = scheduler.select(**request_)
    claims.expect(reply.uuid)
    assert reply.hosts == [host]
    assert reply.best[0]['availability_zone'] == cloud.hosts[host].zone
    assert list(placement.allocations(reply.uuid)) == [cloud.hosts[host].uuid]


@cases(
    'change',
    ('a disabled service', {'disabled': True}),
    ('a service forced down', {'forced_down': True}),
)
def test_a_change_of_a_service_counts_for_the_next_request(
    scheduler, cloud, claims, change
):
    cloud.update('cell1', 'services', change, host='node-1')
    try:
        reply = scheduler.select()
    finally:
        restored = dict.fromkeys(change, False)
        cloud.update('cell1', 'services', restored, host='node-1')
    again = scheduler.select()
    claims.expect(reply.uuid, again.uuid)
    assert reply.hosts == ['node-2']
    assert 'node-1' not in [each['service_host'] for each in reply.alternates]
    assert again.hosts == ['node-1']


@pytest.mark.scenario('F23')
def test_a_host_whose_heartbeats_have_ended_is_left_out(scheduler, cloud, claims):
    cloud.silence('node-1')
    try:
        reply = scheduler.select()
    finally:
        cloud.revive('node-1')
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-2']
