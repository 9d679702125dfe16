# SPDX-License-Identifier: Apache-2.0
"""The view as requests see it: which hosts, of which cells, how fresh."""

import threading

import pytest

from novasched import errors
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher
from tests.support.clouds.fakes import NOON, SECOND
from tests.support.databases.fake_databases import (
    aggregate,
    cell,
    image,
    instance,
    node,
    service,
)
from tests.support.tables.cases import cases
from tests.unit.cluster.conftest import SHORT_S

DEADLINE_S = 30


def used(cloud):
    """The CPUs used of h1, h2 and h3."""
    hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (1, 2, 3)})
    return hosts.vcpus_used.tolist()


def test_hosts_come_in_the_order_of_their_candidates(cloud):
    candidates = {node(id_).uuid: [id_] for id_ in (3, 9, 1)}
    cloud.view.refresh()
    hosts = cloud.view.hosts(candidates)
    assert hosts.host.tolist() == ['h3', 'h1']
    assert hosts.allocation_candidates.tolist() == [[3], [1]]


def test_no_candidates_are_no_hosts(cloud):
    assert cloud.shown({}) == []


def test_requests_do_not_share_candidates_and_limits(cloud):
    candidates = {node(1).uuid: ['one']}
    first = cloud.view.hosts(candidates).state(0)
    first.allocation_candidates.append('two')
    first.limits['vcpu'] = 5
    second = cloud.view.hosts(candidates).state(0)
    assert (second.allocation_candidates, second.limits) == (['one'], {})


def test_attributes_set_by_plugins_stay_in_one_request(cloud):
    hosts = cloud.view.hosts(None)
    host = hosts.state(0)
    host.mark = host.stats['mark'] = 'red'
    assert (hosts.state(0).mark, hosts.state(0).stats['mark']) == ('red', 'red')
    other = cloud.view.hosts(None).state(0)
    assert (vars(other), 'mark' in other.stats) == ({}, False)
    assert vars(hosts.state(1)) == {}


def test_without_a_change_the_snapshot_is_the_last(cloud):
    first = cloud.view.hosts(None).numa_topology
    cloud.view.refresh()
    second = cloud.view.hosts(None).numa_topology
    assert first.values is second.values


def test_a_node_without_a_service_is_not_shown(cloud, caplog):
    cloud.a.put(node(4, created_at=NOON))
    assert cloud.shown() == ['h1', 'h2', 'h3']
    assert 'No compute service record found for host h4' in caplog.text


def test_a_service_that_is_deleted_is_noticed_at_once(cloud):
    cloud.a.delete_service('h1', NOON)
    assert cloud.shown() == ['h2', 'h3']
    cloud.a.services['h1'] = service('h1', created_at=NOON)
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_service_that_is_removed_without_a_trace_is_noticed_later(cloud):
    del cloud.a.services['h1']
    cloud.view.read_services()
    assert cloud.shown() == ['h2', 'h3']


@cases(
    'leave',
    ('deleted behind it', lambda store: store.soft_delete(1, NOON)),
    ('no service', lambda store: store.delete_service('h1', NOON)),
    ('its old cell fails', lambda store: store.fail()),
)
def test_a_host_that_moved_to_another_cell_is_shown_once_and_there(cloud, leave):
    leave(cloud.a)
    cloud.b.put(node(7, uuid=node(1).uuid, host='h1', created_at=NOON))
    cloud.b.services['h1'] = service('h1', created_at=NOON)
    cloud.view.refresh()
    hosts = cloud.view.hosts({node(1).uuid: ['one']})
    assert (hosts.host.tolist(), hosts.cell_uuid.tolist()) == (['h1'], ['b'])


def state_of(cloud, host):
    cloud.view.refresh()
    hosts = {found.host: found for found in cloud.view.hosts(None).states()}
    return hosts[host].service_disabled, hosts[host].service_up


@cases(
    'fields, disabled, up',
    ('as before', {}, False, True),
    ('disabled', {'disabled': True}, True, True),
    ('forced down', {'forced_down': True}, False, False),
    ('silent', {'last_seen_up': NOON - 61 * SECOND}, False, False),
)
def test_a_service_is_seen_as_it_is_and_as_it_is_again(cloud, fields, disabled, up):
    cloud.a.services['h1'] = service('h1', **fields)
    assert state_of(cloud, 'h1') == (disabled, up)
    cloud.a.services['h1'] = service('h1')
    assert state_of(cloud, 'h1') == (False, True)


def test_services_are_listed_without_the_haste_of_a_request(cloud, gate):
    def hang(name):
        if name == 'compute_services':
            gate.wait(DEADLINE_S)

    cloud.hurry()
    cloud.a.on_call = hang
    opening = threading.Timer(2 * SHORT_S, gate.set)
    opening.start()
    cloud.view.read_services()
    opening.join(DEADLINE_S)
    assert cloud.view.cells.unavailable() == []


def test_a_service_is_described_by_the_time_of_the_request(cloud):
    for _ in range(10):
        cloud.clock.advance(60)
        for host in ('h1', 'h2'):
            cloud.a.services[host] = service(host, last_seen_up=cloud.clock.utcnow())
    cloud.view.refresh()
    seen = cloud.view.hosts(None).state(0).service['last_seen_up']
    assert seen.replace(tzinfo=None) >= cloud.clock.utcnow() - 60 * SECOND


# Versions and aggregates.


def test_the_lowest_version_of_all_cells_counts(cloud):
    cloud.b.services['h3'] = service('h3', version=72)
    cloud.view.check()
    assert cloud.view.minimum_compute_version() == 72


@pytest.mark.parametrize('store', ['b', 'zero'])
def test_a_cell_that_does_not_answer_keeps_its_version(cloud, store):
    found = getattr(cloud, store)
    found.services['h9'] = service('h9', version=72)
    cloud.view.check()
    found.fail()
    cloud.view.check()
    assert cloud.view.minimum_compute_version() == 72
    found.mend()
    found.services['h9'] = service('h9', version=73)
    cloud.retry()
    cloud.view.check()
    assert cloud.view.minimum_compute_version() == 73


def test_the_version_of_a_cell_that_is_gone_does_not_count(cloud):
    cloud.b.services['h3'] = service('h3', version=72)
    cloud.view.check()
    cloud.api.found_cells = [cell('a')]
    cloud.view.check()
    assert cloud.view.minimum_compute_version() == 74


def test_a_host_that_is_renamed_is_in_the_aggregates_of_its_new_name(cloud):
    cloud.api.found_aggregates = [aggregate(1, 'new')]
    cloud.view.check()
    cloud.view.hosts(None)
    cloud.a.services['new'] = service('new')
    cloud.a.change(1, NOON, host='new')
    cloud.view.refresh()
    host = cloud.view.hosts({node(1).uuid: ['one']}).state(0)
    assert (host.host, [a.id for a in host.aggregates]) == ('new', [1])


# Instances.


def test_instances_are_read_when_they_are_first_looked_at(cloud):
    cloud.a.instances = [instance('x', 'h1'), instance('y', 'h2')]
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    assert 'instances_on' not in cloud.a.calls
    found = [set(of_host) for of_host in hosts.instances.tolist()]
    assert found == [{'x'}, {'y'}, set()]
    assert cloud.a.calls.count('instances_on') == 1


@pytest.mark.parametrize(
    ('column', 'of'), [('instances', 'instances'), ('instance_images', 'images')]
)
def test_a_request_that_cannot_learn_of_instances_fails(cloud, column, of):
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    cloud.b.fail()
    with pytest.raises(errors.StoreFailed, match=f'no list of its {of}'):
        getattr(hosts, column)


def test_hosts_of_one_name_in_two_cells_have_each_their_own_instances(cloud):
    cloud.b.add_host(1, uuid='twin', created_at=NOON)
    cloud.a.instances = [instance('x', 'h1')]
    cloud.b.instances = [instance('y', 'h1')]
    cloud.view.refresh()
    hosts = cloud.view.hosts({node(1).uuid: [], 'twin': []})
    assert [set(found) for found in hosts.instances.tolist()] == [{'x'}, {'y'}]


def test_a_full_read_forgets_the_instances_of_hosts_that_are_gone(cloud):
    for host in ('h1', 'h9'):
        cloud.view.instances.update(host, {u: instance(u, host) for u in 'xy'})
    cloud.view.reconcile()
    assert cloud.view.instances.reported('h1') is not None
    assert cloud.view.instances.reported('h9') is None


def test_instances_are_compared_without_the_haste_of_a_request(cloud, gate):
    for host in ('h1', 'h3'):
        for _ in range(2):
            cloud.view.instances.sync(host, [])
    _ = cloud.view.hosts(None).instances
    cloud.hurry()
    cloud.a.on_call = lambda name: gate.wait(DEADLINE_S)
    opening = threading.Timer(2 * SHORT_S, gate.set)
    opening.start()
    cloud.view.check_instances()
    opening.join(DEADLINE_S)
    assert cloud.view.instances.reported('h1') == {}


def test_a_cell_that_is_left_out_does_not_keep_others_from_being_compared(cloud):
    for host in ('h1', 'h3'):
        for _ in range(2):
            cloud.view.instances.sync(host, ['x', 'y'])
    cloud.lose(cloud.b)
    _ = cloud.view.hosts(None).instances
    cloud.view.check_instances()
    assert cloud.view.instances.reported('h1') is None
    assert set(cloud.view.instances.reported('h3')) == {'x', 'y'}


def images(hosts):
    return hosts.instance_images.tolist()


def test_images_are_read_when_they_are_first_looked_at(cloud):
    cloud.a.images = [image('x', 'h1', os_distro='a'), image('y', 'h2', os_distro='a')]
    cloud.b.images = [image('z', 'h3', os_distro='b'), image('w', 'H3')]
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    assert 'images_on' not in cloud.a.calls
    like = {'os_distro': 'a'}
    assert images(hosts) == [{'x': like}, {'y': like}, {'z': {'os_distro': 'b'}}]
    assert images(hosts)[0]['x'] is images(hosts)[1]['y']
    assert cloud.a.calls.count('images_on') == 1
    assert 'instances_on' not in cloud.a.calls


def test_images_of_a_disabled_cell_are_read_when_it_is_asked_for(cloud):
    cloud.api.found_cells = [cell('a'), cell('b', disabled=True)]
    cloud.view.check()
    cloud.b.images = [image('z', 'h3', os_distro='b')]
    hosts = cloud.view.hosts(None, 'b')
    assert images(hosts) == [{'z': {'os_distro': 'b'}}]


# Nodes by name.


@cases(
    'host, name, of, found',
    ('by host', 'h1', None, None, ['n1']),
    ('by host, in another case', 'H1', None, None, ['n1']),
    ('by name, in another case', None, 'N3', None, []),
    ('by name', None, 'n3', None, ['n3']),
    ('by both, that do not fit', 'h1', 'n3', None, []),
    ('in another cell', 'h3', None, 'a', []),
    ('in its cell', 'h3', None, 'b', ['n3']),
    ('without a service', 'h8', None, None, ['n8']),
)
def test_nodes_are_found_by_name(cloud, host, name, of, found):
    cloud.a.put(node(8, created_at=NOON))
    cloud.view.refresh()
    nodes = cloud.view.nodes_named(host, name, of)
    assert [node_name for _, node_name, _ in nodes] == found


def test_a_node_that_never_reported_is_found_with_its_uuid(cloud):
    cloud.a.change(1, NOON, free_disk_gb=None)
    cloud.view.refresh()
    assert cloud.view.nodes_named('h1', None) == [('h1', 'n1', node(1).uuid)]


@cases(
    'mapped, uuid',
    ('mapped to the second', {'h1': 'b'}, 'twin'),
    ('mapped to the first', {'h1': 'a'}, node(1).uuid),
    ('not mapped: the first', {}, node(1).uuid),
)
def test_of_hosts_of_one_name_the_mapped_one_is_meant(cloud, mapped, uuid):
    cloud.b.add_host(1, uuid='twin', created_at=NOON)
    cloud.api.mapped = mapped
    cloud.view.refresh()
    for host in ('h1', 'H1'):
        assert [u for _, _, u in cloud.view.nodes_named(host, None)] == [uuid]


# Freshness.


def test_an_older_view_may_do(cloud):
    cloud.view.close()
    cloud.view = cloud.new_view(max_age_s=5)
    cloud.view.load()
    began_s = cloud.view.known()
    cloud.a.change(1, NOON, vcpus_used=5)
    cloud.clock.advance(5)
    assert cloud.view.known() == began_s
    assert cloud.view.hosts(None).vcpus_used.tolist() == [1, 1, 1]
    cloud.clock.advance(0.1)
    assert cloud.view.known() == cloud.clock.monotonic()
    assert cloud.view.hosts(None).vcpus_used.tolist() == [5, 1, 1]


def test_cells_are_looked_at_behind_the_scenes_while_requests_come(cloud):
    cloud.view.close()
    cloud.view = cloud.new_view(max_age_s=0.02, idle_s=0.01)
    ((_, keep_up),) = cloud.view.periodic_tasks()
    cloud.view.load()
    cloud.view.known()
    cloud.a.change(1, NOON, vcpus_used=5)
    cloud.clock.advance(0.015)
    keep_up()
    assert cloud.view.hosts(None).vcpus_used.tolist() == [5, 1, 1]
    cloud.clock.advance(10)
    cloud.a.calls.clear()
    keep_up()
    assert cloud.a.calls == []


def test_a_full_read_that_a_refresh_overtakes_does_not_turn_back_time(cloud, gate):
    answered = threading.Event()

    def hold(name):
        if name == 'compute_nodes':
            answered.set()
            assert gate.wait(DEADLINE_S)

    cloud.a.on_answer = hold
    reconcile = threading.Thread(target=cloud.view.reconcile)
    reconcile.start()
    assert answered.wait(DEADLINE_S)
    cloud.a.change(1, node(1).updated_at, vcpus_used=5)
    cloud.a.change(1, NOON, vcpus_used=5)
    cloud.view.refresh()
    gate.set()
    reconcile.join(DEADLINE_S)
    assert used(cloud) == [5, 1, 1]


def test_after_closing_there_is_nothing_to_see(cloud):
    cloud.view.close()
    assert cloud.shown() == []


def test_the_uuids_of_the_nodes_are_known_usable_or_not(cloud):
    cloud.a.put(node(8, created_at=NOON))
    cloud.view.refresh()
    known = cloud.view.node_uuids()
    assert (node(1).uuid in known, node(8).uuid in known) == (True, True)
    assert 'a child' not in known
    cloud.view.refresh()
    assert cloud.view.node_uuids() is known
    cloud.a.put(node(9, created_at=NOON))
    cloud.view.refresh()
    assert cloud.view.node_uuids() is not known


FAILED = {'stats': '{"failed_builds": "2"}'}


def failures(cloud):
    """The failed builds of h1, h2 and h3: all, and those that are not forgotten."""
    hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (1, 2, 3)})
    return hosts.failed_builds.tolist(), hosts.recent_failed_builds.tolist()


def test_failed_builds_are_forgotten_after_the_time(cloud):
    cloud.view = cloud.new_view(forget_failures_s=50.0)
    cloud.a.change(1, NOON, **FAILED)
    cloud.view.load()
    cloud.clock.advance(20)
    cloud.a.change(2, cloud.clock.now, **FAILED)
    cloud.view.refresh()
    assert failures(cloud) == ([2, 2, 0], [2, 2, 0])
    seen = cloud.view.hosts(None).snapshot
    cloud.clock.advance(30)
    assert failures(cloud) == ([2, 2, 0], [0, 2, 0])
    assert cloud.view.changed([node(1).uuid], seen) == set()
    restarted = cloud.new_view(forget_failures_s=50.0)
    restarted.load()
    cloud.view = restarted
    assert failures(cloud) == ([2, 2, 0], [2, 2, 0])


def test_failed_builds_stay_as_in_nova_without_the_option(cloud):
    cloud.a.change(1, NOON, **FAILED)
    cloud.view.refresh()
    cloud.clock.advance(10**6)
    assert failures(cloud) == ([2, 0, 0], [2, 0, 0])


def test_source_host_is_read_once_when_it_is_first_asked_for(cloud):
    cloud.a.sources = {'x': ['h2']}
    cloud.b.sources = {'y': ['h1']}  # a host of the other cell
    hosts = cloud.view.hosts(None, moved_uuid='x')
    assert 'source_hosts' not in cloud.a.calls
    assert [host.host for host in hosts.states() if host.is_source] == ['h2']
    assert hosts.is_source.tolist() == [False, True, False]
    assert cloud.a.calls.count('source_hosts') == 1
    assert not cloud.view.hosts(None, moved_uuid='y').is_source.any()


def test_boot_has_no_source_host_and_reads_none(cloud):
    assert not cloud.view.hosts(None).is_source.any()
    assert 'source_hosts' not in cloud.a.calls


def test_source_host_of_an_unavailable_cell_fails_the_request(cloud):
    hosts = cloud.view.hosts(None, moved_uuid='x')
    cloud.a.fail()
    with pytest.raises(errors.StoreFailed, match='no list of its moved instance'):
        _ = hosts.is_source


def test_public_flavors_are_read_periodically_if_they_are_needed(cloud):
    assert cloud.api.flavors_read == 0
    cloud.api.flavors = (FlavorSize(1, 512),)
    weigher = KeepRoomWeigher(10.0)
    cloud.view = cloud.new_view(needs_public_flavors=weigher.needs_public_flavors)
    cloud.view.load()
    cloud.shown()
    cloud.shown()
    assert cloud.api.flavors_read == 1
    assert cloud.view.hosts(None).state(0).public_flavors == (FlavorSize(1, 512),)
    seen = cloud.view.hosts(None).snapshot
    cloud.api.flavors = (FlavorSize(2, 1024), FlavorSize(1, 512))
    cloud.view.read_public_flavors()
    assert len(cloud.view.hosts(None).state(2).public_flavors) == 2
    assert cloud.view.changed([node(1).uuid], seen) == set()


def test_public_flavors_are_not_read_where_no_weigher_needs_them(cloud):
    cloud.view = cloud.new_view(
        needs_public_flavors=KeepRoomWeigher(0.0).needs_public_flavors
    )
    cloud.view.load()
    assert cloud.api.flavors_read == 0
    metadata = {'keep_room_weight_multiplier': '10'}
    cloud.view.aggregates.update([aggregate(1, 'h1', **metadata)])
    cloud.api.found_aggregates = cloud.view.aggregates.all()
    cloud.view.read_public_flavors()
    assert cloud.api.flavors_read == 1
