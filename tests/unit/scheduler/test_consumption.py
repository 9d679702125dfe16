# SPDX-License-Identifier: Apache-2.0
"""What an instance takes from its host."""

import pytest

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.affinity import ServerGroupAntiAffinityFilter
from novasched.scheduler.hosts import Lazy, consume
from tests.support.clouds import factories


def test_numbers_move_by_the_flavor_without_swap():
    hosts = factories.hosts(
        free_ram_mb=[0, 4],
        free_disk_mb=[0, 71680],
        vcpus_used=[0, 2],
        num_instances=[0, 3],
        num_io_ops=[0, 1],
    )
    request = factories.request(
        vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=5, swap=1024
    )
    after = consume(hosts, 1, request)
    assert after.free_ram_mb.tolist() == [0, -508]
    assert after.free_disk_mb.tolist() == [0, 56320]
    assert after.vcpus_used.tolist() == [0, 4]
    assert after.num_instances.tolist() == [0, 4]
    assert after.num_io_ops.tolist() == [0, 2]
    assert hosts.free_ram_mb.tolist() == [0, 4]


def test_without_a_group_the_instances_stay():
    hosts = factories.hosts(1)
    assert consume(hosts, 0, factories.request()).instances.tolist() == [{}]


def test_a_member_of_a_group_is_seen_by_the_next():
    first, second = 'member-1', 'member-2'
    group = factories.group(members=[first, second])
    hosts = factories.hosts(instances=[{'other': None}, {}])
    request = factories.request(instance_uuid=first, instance_group=group)
    after = consume(hosts, 1, request)
    member = after.instances[1][first]
    assert (member.uuid, member.host) == (first, 'h2')
    following = factories.request(instance_uuid=second, instance_group=group)
    passed = ServerGroupAntiAffinityFilter().apply(after, following)
    assert passed.host.tolist() == ['h1']
    assert hosts.instances.tolist() == [{'other': None}, {}]


def test_an_instance_that_is_there_already_stays_what_it_is():
    hosts = factories.hosts(instances=[{factories.INSTANCE: 'known'}])
    request = factories.request(instance_group=factories.group())
    assert consume(hosts, 0, request).instances[0] == {factories.INSTANCE: 'known'}


def test_members_are_seen_one_after_the_other():
    members = [f'm{number}' for number in range(5)]
    group = factories.group(members=members, max_server_per_host=2)
    hosts = factories.hosts(instances=[{'m0': None}, {}, {'other': None}])
    left = []
    for uuid, row in zip(members[1:], [0, 2, 2, 1], strict=True):
        request = factories.request(instance_uuid=uuid, instance_group=group)
        left.append(ServerGroupAntiAffinityFilter().apply(hosts, request).rows.tolist())
        hosts = consume(hosts, row, request)
    assert left == [[0, 1, 2], [1, 2], [1, 2], [1]]
    assert [list(instances) for instances in hosts.instances] == [
        ['m1', 'm0'],
        ['m4'],
        ['m3', 'm2', 'other'],
    ]


def test_a_plugin_may_set_the_instances_of_a_host_that_took_a_member():
    request = factories.request(instance_group=factories.group())
    hosts = consume(factories.hosts(2), 1, request)
    first, second = hosts.states()
    second.instances = {'plugin': None}
    assert hosts.keep([second, first]).instances.tolist() == [{'plugin': None}, {}]
    assert list(hosts.instances[1]) == [factories.INSTANCE]


@pytest.mark.parametrize('count', [1, 2000])
def test_consuming_reads_no_instances(count):
    read = []

    def instances():
        read.append(1)
        return factories.objects([{}])

    hosts = factories.hosts(1).with_columns(instances=Lazy(instances))
    group = factories.group(policy='affinity')
    for number in range(count):
        request = factories.request(instance_uuid=f'{number}', instance_group=group)
        hosts = consume(hosts, 0, request)
    assert not read
    assert len(hosts.instances[0]) == count
    assert read == [1]


def test_a_plugin_may_let_a_host_take_an_instance():
    hosts = factories.hosts(2, free_ram_mb=[9, 1000])
    host = hosts.state(1)
    request = factories.request(vcpus=2, memory_mb=600, root_gb=1, ephemeral_gb=1)
    host.consume_from_request(request)
    host.consume_from_request(request)
    assert (host.free_ram_mb, host.vcpus_used) == (-200, 4)
    assert (host.free_disk_mb, host.num_instances) == (102400 - 4096, 2)
    assert (host.num_io_ops, host.instances) == (2, {})
    assert hosts.free_ram_mb.tolist() == [9, 1000]
    assert hosts.keep([host]).free_ram_mb.tolist() == [-200]


def test_a_host_that_takes_a_member_of_a_group_has_it():
    hosts = factories.hosts(instances=[{'other': None}])
    host = hosts.state(0)
    host.consume_from_request(factories.request(instance_group=factories.group()))
    assert list(host.instances) == [factories.INSTANCE, 'other']
    assert host.instances[factories.INSTANCE].host == 'h1'
    assert list(hosts.instances[0]) == ['other']


def test_consumption_of_an_empty_request_raises():
    with pytest.raises(errors.UnsetField):
        factories.hosts(1).state(0).consume_from_request(RequestSpec())
