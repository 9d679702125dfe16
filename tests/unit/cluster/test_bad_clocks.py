# SPDX-License-Identifier: Apache-2.0
"""Rows stamped by clocks that differ, or committed late, are seen by the next request;
who stamps them is named once."""

import logging

import pytest

from tests.support.clouds.fakes import SECOND
from tests.support.databases.fake_databases import node, service
from tests.support.tables.cases import cases

LONGEST_S = 59


def used(cloud):
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    return dict(zip(hosts.host.tolist(), hosts.vcpus_used.tolist(), strict=True))


def lines(caplog, text):
    return [message for message in caplog.messages if text in message]


@pytest.fixture
def later(cloud):
    """A cloud that was asked a second ago."""
    cloud.clock.advance(100)
    for store in (cloud.a, cloud.b):
        for host, row in store.services.items():
            beat = row._replace(last_seen_up=cloud.clock.utcnow())
            store.services[host] = beat
    cloud.shown()
    cloud.clock.advance(1)
    for store in (cloud.a, cloud.b):
        store.calls.clear()
    return cloud


@pytest.mark.parametrize('behind_s', [-59, 0, 9, 11, 30, LONGEST_S, 3600])
def test_a_new_host_is_seen_whatever_clock_stamps_it(later, behind_s):
    stamp = later.clock.utcnow() - behind_s * SECOND
    later.a.put(node(9, created_at=stamp, updated_at=None))
    later.a.services['h9'] = service(
        'h9', created_at=stamp, last_seen_up=later.clock.utcnow()
    )
    assert 'h9' in later.shown()


@pytest.mark.parametrize('behind_s', [-59, 0, 9, 11, 30, LONGEST_S, 3600])
def test_a_change_is_seen_whatever_clock_stamps_it(later, behind_s):
    later.a.change(1, later.clock.utcnow() - behind_s * SECOND, vcpus_used=7)
    assert used(later) == {'h1': 7, 'h2': 1, 'h3': 1}


@pytest.mark.parametrize('behind_s', [0, 11, LONGEST_S])
def test_two_changes_of_one_second_are_both_seen(later, behind_s):
    stamp = later.clock.utcnow() - behind_s * SECOND
    for amount in (7, 8):
        later.a.change(1, stamp, vcpus_used=amount)
        assert used(later)['h1'] == amount


def test_a_transaction_that_commits_late_is_seen(later):
    stamp = later.clock.utcnow()
    for _ in range(12):
        later.clock.advance(1)
        later.shown()
    later.a.change(1, stamp, vcpus_used=7)
    assert used(later)['h1'] == 7


@cases(
    'remove',
    (
        'marked as deleted by a clock that is behind',
        lambda cloud: cloud.a.soft_delete(1, cloud.clock.utcnow() - 30 * SECOND),
    ),
    ('without a trace', lambda cloud: cloud.a.nodes.pop(1)),
    ('deleted is null', lambda cloud: cloud.a.change(1, None, deleted=None)),
)
def test_a_node_that_is_gone_is_gone_at_once(later, remove):
    remove(later)
    assert later.shown() == ['h2', 'h3']
    later.a.calls.clear()
    assert later.shown() == ['h2', 'h3']
    assert later.a.calls == ['news']


@pytest.mark.parametrize('behind_s', [30, LONGEST_S])
def test_a_service_that_was_replaced_is_known_whatever_clock_says_so(later, behind_s):
    stamp = later.clock.utcnow() - behind_s * SECOND
    later.a.delete_service('h1', stamp)
    assert later.shown() == ['h2', 'h3']
    later.a.services['h1'] = service(
        'h1', id=2**40, created_at=stamp, last_seen_up=later.clock.utcnow()
    )
    assert later.shown() == ['h1', 'h2', 'h3']


def test_services_that_are_known_are_not_read_again_because_they_are_young(later):
    stamp = later.clock.utcnow() - 20 * SECOND
    for host, row in later.a.services.items():
        later.a.services[host] = row._replace(created_at=stamp)
    later.a.services['h4'] = service(
        'h4', id=2**40, created_at=stamp, last_seen_up=None
    )
    later.shown()
    assert [row.host for row in later.a.told] == ['h4']
    later.shown()
    assert later.a.told == []


def test_rows_of_a_replica_that_lags_come_as_it_has_them(later):
    """A failover to a replica shows older rows, which then come as they were."""
    newest, stamp = later.a.nodes[1], later.clock.utcnow() - 3 * SECOND
    later.a.change(1, stamp, vcpus_used=7)
    assert used(later)['h1'] == 7
    caught_up = later.a.nodes[1]
    later.a.put(newest)
    assert used(later)['h1'] == 1
    for _ in range(40):
        later.clock.advance(1)
        later.view.refresh()
    later.a.put(caught_up)
    assert used(later)['h1'] == 7


def test_a_quiet_request_reads_no_row(later):
    later.shown()
    assert later.a.calls == ['news']


def test_a_row_behind_costs_the_marks_of_the_recent_rows_and_itself(later):
    later.a.change(1, later.clock.utcnow() - 30 * SECOND, vcpus_used=7)
    later.shown()
    asked = ['news', 'compute_node_checksums', 'compute_nodes_of']
    assert later.a.calls == asked
    later.a.calls.clear()
    later.shown()
    assert later.a.calls == ['news']


def test_too_many_new_rows_to_list_are_read_by_their_marks(later):
    later.a.longest_list = 1
    for id_ in (1, 2):
        later.a.change(id_, later.clock.utcnow(), vcpus_used=7)
    assert used(later) == {'h1': 7, 'h2': 7, 'h3': 1}


# What is named.


def test_hosts_stamped_by_a_clock_that_is_behind_are_named_once(later, caplog):
    caplog.set_level(logging.WARNING)
    for second in range(3):
        stamp = later.clock.utcnow() - 30 * SECOND
        for id_ in (1, 2):
            later.a.change(id_, stamp, vcpus_used=second + 2)
        later.shown()
        later.clock.advance(2)
    (line,) = lines(caplog, 'The time stamps of')
    assert line.startswith(
        'The time stamps of 2 compute nodes of cell a are up to 29 s behind our clock: '
        'h1, h2. '
    )


def test_they_are_named_again_once_they_were_right(later, caplog):
    for behind_s in (30, 0, 30):
        later.clock.advance(61)
        later.shown()
        stamp = later.clock.utcnow() - behind_s * SECOND
        later.a.change(1, stamp, vcpus_used=2 + behind_s // 10)
        later.clock.advance(1)
        later.shown()
    assert len(lines(caplog, 'behind our clock')) == 2


@cases('behind_s, where, down',
    ('behind', 30, '29 s behind our clock:', False),
    ('far', 300, '299 s behind our clock, more than service_down_time:', True),
    ('ahead', -30, '30 s ahead of our clock:', False),
    ('far ahead', -300, '300 s ahead of our clock, more than service_down_time:', True),
)  # fmt: skip
def test_how_much_a_clock_differs_is_named(later, caplog, behind_s, where, down):
    later.a.change(1, later.clock.utcnow() - behind_s * SECOND, vcpus_used=7)
    later.shown()
    later.shown()
    (line,) = caplog.messages
    assert f'up to {where} h1' in line
    assert ('service_down_time' in line) == down


def test_a_change_without_a_stamp_is_named_by_the_full_read_that_shows_it(
    later, caplog
):
    later.a.put(later.a.nodes[1]._replace(stats='{"num_instances": "9"}'))
    later.shown()
    assert caplog.messages == []
    later.view.reconcile()
    (line,) = caplog.messages
    assert line.startswith('1 compute nodes (such as ')


def test_of_a_cell_that_is_gone_nothing_is_remembered(later, caplog):
    for _ in range(2):
        later.a.change(
            1,
            later.clock.utcnow() - 30 * SECOND,
            vcpus_used=later.a.nodes[1].vcpus_used + 1,
        )
        later.shown()
        later.clock.advance(1)
        found, later.api.found_cells = later.api.found_cells, []
        later.view.check()
        later.api.found_cells = found
        later.view.check()
        later.shown()
    assert len(lines(caplog, 'behind our clock')) == 2


# Heartbeats.


@pytest.fixture
def three(cloud):
    """A cloud with a third host in its first cell."""
    cloud.a.add_host(4)
    cloud.view.reconcile()
    return cloud


def beat(cloud, behind, seconds=60):
    """Let time pass, then all computes beat, and some of them by clocks behind."""
    cloud.clock.advance(seconds)
    for store in (cloud.a, cloud.b):
        store.clock = cloud.clock
        for host, row in store.services.items():
            seen = cloud.clock.utcnow() - behind.get(host, 0) * SECOND
            store.services[host] = row._replace(last_seen_up=seen)
    cloud.view.read_services()


@pytest.mark.scenario('F24')
def test_heartbeats_that_lag_behind_the_others_are_named_once(three, caplog):
    for _ in range(3):
        beat(three, {'h2': 40})
    (line,) = caplog.messages
    assert line.startswith('Heartbeats of 1 computes of cell a are up to 40 s older')
    assert ': h2. ' in line
    assert 'count as down' not in line
    for behind_s in (0, 90, 90):
        beat(three, {'h2': behind_s})
    assert 'count as down' in caplog.messages[-1]


@cases(
    'behind_s',
    ('a compute that has ended', range(60, 360, 60)),
    ('heartbeats that differ by little', [29] * 3),
)
def test_ended_compute_and_small_differences_are_no_clock_skew(three, caplog, behind_s):
    for seconds in behind_s:
        beat(three, {'h2': seconds})
    assert caplog.messages == []


def test_all_hosts_down_at_once_are_never_so_silently(cloud, caplog):
    """All clocks jump back and forth by two minutes."""
    cloud.a.add_host(4)
    for id_ in (5, 6):
        cloud.b.add_host(id_)
    hosts = [f'h{id_}' for id_ in range(1, 7)]
    for jump_s in (0, 120, 0, -120, 0, 120):
        caplog.clear()
        beat(cloud, dict.fromkeys(hosts, jump_s), 61)
        cloud.view.refresh()
        up = cloud.view.hosts(None).service_up
        told = lines(caplog, 'fallen silent') + lines(caplog, 'from the future')
        assert up.all()
        assert bool(told) == bool(jump_s)
