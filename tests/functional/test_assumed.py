# SPDX-License-Identifier: Apache-2.0
"""Requests that follow each other before any compute has written its row."""

from __future__ import annotations

import threading

import pytest

from novasched import errors
from novasched.app import shadow
from novasched.app.sources import Kept
from novasched.db import tables
from novasched.runtime.clock import SystemClock
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.clouds.factories import pinned

PLAIN = [Host('h1', memory_mb=9000), Host('h2', memory_mb=8500), Host('h3')]
APART = ['ServerGroupAntiAffinityFilter']


def node(number=0):
    return factories.numa_cell(number, range(4 * number, 4 * number + 4))


def report(made, node, **usage):
    """Write the row of h1 as its compute does."""
    now = SystemClock().utcnow().replace(microsecond=0)
    table = tables.compute_nodes
    topology = factories.numa_topology(node)
    row = {'updated_at': now, 'numa_topology': topology, **usage}
    with made.databases['cell1'].cell.begin() as connection:
        connection.execute(table.update().where(table.c.host == 'h1').values(row))


@pytest.fixture
def make(cloud):
    """Make a cloud: `make(hosts, filters, **novasched)`."""

    def made(hosts, filters, **novasched):
        scheduling = {'enabled_filters': filters}
        return cloud(hosts, filter_scheduler=scheduling, novasched=novasched)

    return made


@pytest.fixture
def two_nodes(make):
    """Two hosts with a node each: `two_nodes(assume_picks=False)`."""

    def made(**novasched):
        topology = factories.numa_topology(node())
        hosts = [
            Host('h1', memory_mb=9000, numa_topology=topology),
            Host('h2', numa_topology=topology),
        ]
        return make(hosts, ['NUMATopologyFilter'], **novasched)

    return made


def test_two_requests_get_a_node_each(two_nodes):
    made = two_nodes()
    scheduler = made.compose()
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h1']]
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h2']]
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(), **pinned())
    assert len(made.held()) == 2


def test_pick_before_a_reload_is_not_given_again(two_nodes):
    made, kept = two_nodes(), Kept()
    assert made.ask(made.serve(kept=kept), new_uuids(), **pinned()) == [['h1']]
    assert made.ask(made.serve(kept=kept), new_uuids(), **pinned()) == [['h2']]


def test_pick_during_a_reload_is_not_given_again(two_nodes):
    made, kept = two_nodes(), Kept()
    before, successor = made.serve(kept=kept), made.serve(kept=kept)
    assert made.ask(before, new_uuids(), **pinned()) == [['h1']]
    assert made.ask(successor, new_uuids(), **pinned()) == [['h2']]


def test_pick_that_ends_during_a_reload_is_given_again(two_nodes):
    made, kept, uuids = two_nodes(), Kept(), new_uuids()
    before = made.serve(kept=kept)
    assert made.ask(before, uuids, **pinned()) == [['h1']]
    successor = made.compose(kept=kept)
    kept.picks.remove_instances(uuids)
    successor.start()
    made.stack.callback(successor.stop)
    assert made.ask(successor, new_uuids(), **pinned()) == [['h1']]


def test_a_reload_that_fails_leaves_all_to_the_next(two_nodes, monkeypatch):
    made, kept = two_nodes(), Kept()
    before = made.serve(kept=kept)
    failing = made.compose(kept=kept)
    with monkeypatch.context() as patched:
        patched.setattr(failing.server, 'start', lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failing.start()
    assert made.ask(before, new_uuids(), **pinned()) == [['h1']]
    assert made.ask(made.serve(kept=kept), new_uuids(), **pinned()) == [['h2']]


@pytest.mark.scenario('F10')
def test_redelivered_request_keeps_first_pick(two_nodes):
    made = two_nodes()
    scheduler, uuids = made.compose(), new_uuids()
    assert made.ask(scheduler, uuids, **pinned()) == [['h1']]
    with pytest.raises(errors.AlreadyClaimed):
        made.ask(scheduler, uuids, **pinned())
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h2']]


def test_redelivered_request_for_several_servers_keeps_first_picks(two_nodes):
    made = two_nodes()
    scheduler, uuids = made.compose(), new_uuids(2)
    assert sorted(made.ask(scheduler, uuids, **pinned())) == [['h1'], ['h2']]
    with pytest.raises(errors.RequestError):
        made.ask(scheduler, uuids, **pinned())
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(), **pinned())


def test_request_after_a_failed_build_is_not_in_its_own_way(two_nodes):
    """The conductor has removed what the server held, and asks for it again."""
    made = two_nodes()
    scheduler, uuids = made.compose(), new_uuids()
    for _ in range(2):
        assert made.ask(scheduler, uuids, **pinned()) == [['h1']]
        made.adapter.delete(f'/allocations/{uuids[0]}')
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h2']]


def test_as_in_nova_two_requests_get_one_node(two_nodes):
    made = two_nodes(assume_picks=False)
    scheduler = made.compose()
    for _ in range(2):
        assert made.ask(scheduler, new_uuids(), **pinned()) == [['h1']]


def test_a_row_that_shows_the_pick_is_believed(two_nodes):
    made = two_nodes(host_state_max_age=0)
    scheduler = made.compose()
    made.ask(scheduler, new_uuids(), **pinned())
    used = factories.numa_cell(
        0, range(4), pinned=range(4), cpu_usage=4, memory_usage=1024
    )
    report(made, node=used, free_ram_mb=9000 - 512, vcpus_used=4)
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h2']]
    (h1,) = [h for h in made.decisions[-1].hosts.states() if h.host == 'h1']
    assert (h1.free_ram_mb, h1.vcpus_used) == (9000 - 512, 4)
    report(made, node=node(), free_ram_mb=9000, vcpus_used=0)
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h1']]


def test_pick_of_a_rolled_back_request_is_forgotten(two_nodes):
    made = two_nodes()
    scheduler = made.compose()
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(3), **pinned())
    assert made.held() == {}
    assert made.ask(scheduler, new_uuids(), **pinned()) == [['h1']]


def test_members_that_come_one_by_one_are_kept_apart(make):
    made = make(PLAIN, [])
    scheduler = made.compose()
    found = []
    for uuid in new_uuids(3):
        group = factories.group('soft-anti-affinity', members=[uuid])
        found += made.ask(scheduler, [uuid], instance_group=group)
    assert sorted(found) == [['h1'], ['h2'], ['h3']]


def test_shadow_sees_no_member_on_a_host_that_it_picked(make):
    """Nova may have picked another host."""
    made = make(PLAIN, [])
    made.conf.set_override('transport_url', 'rabbit://127.0.0.1:1/')  # it taps nothing
    compared = made.compose(shadow.compose)
    members, found = new_uuids(3), []
    for uuid in members:
        group = factories.group('soft-anti-affinity', members=members)
        found += made.ask(compared, [uuid], instance_group=group)
    assert found == [['h1']] * 3


@pytest.mark.parametrize('assume_picks', [True, False])
def test_resources_that_placement_counts_are_not_assumed(make, assume_picks):
    made = make(PLAIN, [], assume_picks=assume_picks)
    scheduler = made.compose()
    for uuid in new_uuids(3):
        assert made.ask(scheduler, [uuid]) == [['h1']]


def test_instances_limited_by_a_filter_are_assumed(cloud):
    limits = {'enabled_filters': ['NumInstancesFilter'], 'max_instances_per_host': 1}
    made = cloud(PLAIN, filter_scheduler=limits)
    scheduler = made.compose()
    found = [made.ask(scheduler, [uuid])[0] for uuid in new_uuids(3)]
    assert found == [['h1'], ['h2'], ['h3']]
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids())


def test_requests_at_once_never_get_one_host(make):
    topology = factories.numa_topology(node())
    hosts = [Host(f'h{number}', numa_topology=topology) for number in range(4)]
    made = make(hosts, ['NUMATopologyFilter'])
    scheduler = made.compose()
    uuids = new_uuids(6)
    together = threading.Barrier(len(uuids))
    answers = []

    def ask(uuid):
        together.wait(20)
        try:
            answers.append(made.ask(scheduler, [uuid], **pinned())[0][0])
        except errors.NoValidHost:
            answers.append(None)

    threads = [threading.Thread(target=ask, args=(uuid,)) for uuid in uuids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    won = [host for host in answers if host]
    assert len(answers) == 6
    assert sorted(won) == [host.name for host in hosts]
    assert len(made.held()) == 4


def test_members_of_a_group_have_alternates_of_their_own(make):
    hosts = [Host(f'h{number}', memory_mb=9000 - number) for number in range(6)]
    made = make(hosts, APART, own_alternates=True)
    uuids = new_uuids(2)
    group = factories.group(members=uuids)
    found = made.ask(
        made.compose(), uuids, return_alternates=True, instance_group=group
    )
    assert found == [['h0', 'h2', 'h4'], ['h1', 'h3', 'h5']]
