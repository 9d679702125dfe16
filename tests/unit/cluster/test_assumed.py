# SPDX-License-Identifier: Apache-2.0
"""What requests picked, as later ones see it."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace

import numpy as np
import pytest

from novasched.cluster import assumed
from novasched.cluster.assumed import LOOK_EVERY_S, AssumedInstances
from novasched.cluster.host_picks import KNOWN_FOR_S, SHAPES
from novasched.objects.base import NotLoaded
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.host_limit import IoOpsFilter
from novasched.scheduler.fit.parse import HostPools
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')
NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)


class Cloud:
    """Hosts h1 to h3, and what is assumed of them."""

    def __init__(self, **columns):
        self.hosts = factories.hosts(3, updated=[NOON] * 3, **columns)
        self.clock = FakeClock()
        self.sent = []
        self.assumed = AssumedInstances(
            clock=self.clock, on_pick=lambda *change: self.sent.append(change)
        )

    def see(self):
        return self.assumed.see(lambda: self.hosts)

    def pick(self, place, uuid=A, after=None, mine=(), **values):
        sight = self.see()
        request = factories.request(instance_uuid=uuid, **values)
        host = sight.hosts.state(place)
        return self.assumed.add(host, sight.base, request, after, mine)

    def report(self, place, **values):
        """Write a new row of a host, in new columns of all."""
        stamp = self.hosts.state(place).updated + datetime.timedelta(seconds=1)
        self.hosts = self.hosts.replace(place, updated=stamp, **values)

    @property
    def free_ram_mb(self):
        return self.see().hosts.free_ram_mb.tolist()


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def conf():
    return make_conf()


@cases(
    'filters, values, counts',
    ('what placement counts', [], {}, False),
    ('devices', [], {'pci_requests': factories.devices()}, True),
    (
        'a NUMA cell',
        [],
        {'numa_topology': factories.guest_topology(factories.guest_cell())},
        True,
    ),
    ('what a filter limits', [IoOpsFilter(1)], {}, True),
    ('a soft policy', [], {'instance_group': factories.group('soft-affinity')}, True),
    ('a hard policy', [], {'instance_group': factories.group()}, False),
)
def test_only_demands_that_placement_does_not_count_are_assumed(
    conf, filters, values, counts
):
    made = AssumedInstances.from_conf(conf, Profile(filters, ()))
    assert made.counts(factories.request(**values)) is counts
    columns = ['num_io_ops'] if filters else []
    assert list(made.counted) == [*SHAPES, *columns]


def test_it_can_be_turned_off(conf):
    conf.set_override('assume_picks', False, 'novasched')
    assert AssumedInstances.from_conf(conf, Profile((), ())) is None


def test_nothing_picked_is_nothing_changed(cloud):
    assert cloud.see().hosts is cloud.hosts


def test_a_pick_is_seen(cloud):
    cloud.pick(1, memory_mb=1000, vcpus=2)
    seen = cloud.see()
    assert seen.hosts.free_ram_mb.tolist() == [8192, 7192, 8192]
    assert seen.hosts.vcpus_used.tolist() == [0, 2, 0]
    assert seen.hosts.num_instances.tolist() == [0, 1, 0]
    assert seen.hosts.num_io_ops.tolist() == [0, 1, 0]
    assert seen.base.column('free_ram_mb').tolist() == [8192] * 3
    assert cloud.hosts.free_ram_mb.tolist() == [8192] * 3


def test_columns_are_computed_once_until_a_pick_or_a_row_changes(cloud):
    cloud.pick(1)
    first, second = (cloud.see().hosts.snapshot.column('free_ram_mb') for _ in '12')
    assert first is second
    cloud.pick(1, B)
    assert cloud.free_ram_mb == [8192, 8192 - 1024, 8192]
    cloud.report(0, free_ram_mb=1)
    assert cloud.free_ram_mb == [1, 8192 - 1024, 8192]


def test_a_row_that_shows_it_ends_it(cloud):
    cloud.pick(1, memory_mb=1000)
    cloud.report(1, free_ram_mb=7000, vcpus_used=1)
    assert cloud.free_ram_mb == [8192, 7000, 8192]
    cloud.clock.advance(KNOWN_FOR_S)
    assert cloud.free_ram_mb == [8192, 7000, 8192]
    assert len(cloud.assumed) == 0


def test_a_pick_that_no_row_shows_ends_in_time(cloud):
    cloud.pick(1, memory_mb=1000)
    cloud.clock.advance(assumed.FOR_S - LOOK_EVERY_S)
    assert cloud.free_ram_mb == [8192, 7192, 8192]
    assert cloud.assumed.oldest_s() == assumed.FOR_S - LOOK_EVERY_S
    cloud.clock.advance(LOOK_EVERY_S)
    assert cloud.free_ram_mb == [8192] * 3
    assert (len(cloud.assumed), cloud.assumed.oldest_s()) == (0, 0)


def test_hosts_may_move_come_and_go(cloud):
    cloud.pick(1, memory_mb=1000)
    former, cloud.hosts = cloud.hosts, factories.hosts(1)
    assert cloud.free_ram_mb == [8192]
    cloud.hosts = factories.hosts(host=['h3', 'h2'], updated=[NOON] * 2)
    assert cloud.free_ram_mb == [8192, 7192]
    cloud.hosts = factories.hosts(
        host=['h3', 'h2'], updated=[NOON] * 2, cell_uuid=['cell1', 'cell2']
    )
    assert cloud.free_ram_mb == [8192, 8192]
    cloud.hosts = former
    assert cloud.free_ram_mb == [8192, 7192, 8192]


def test_devices_are_taken(cloud):
    cloud = Cloud(pci_stats=[factories.pools(1)] * 3)
    cloud.pick(1, pci_requests=factories.devices())
    found = cloud.see().hosts.pci_stats.tolist()
    free = [sum(pool.count for pool in each.free) for each in found]
    assert free == [1, 0, 1]
    assert isinstance(found[1], HostPools)


def test_members_of_a_group_are_seen(cloud):
    group = factories.group()
    cloud.pick(1, A, instance_group=group)
    cloud.pick(0, B, instance_group=group)
    cloud.pick(0, C)
    request = factories.request(instance_group=group)
    assert [pick.uuid for pick in cloud.assumed.in_group(request)] == [A, B]
    assert cloud.assumed.in_group(factories.request()) == []
    seen = [sorted(host.instances) for host in cloud.see().hosts.states()]
    assert seen == [[B], [A], []]


def test_request_cannot_pick_a_host_that_another_picked_since_its_read(cloud):
    sight = cloud.see()
    mine = [A]
    cloud.pick(1, A)
    assert cloud.pick(1, B, after=sight.number, mine=mine) is not None
    assert cloud.pick(1, C, after=sight.number, mine=mine) is None
    assert cloud.pick(0, C, after=sight.number, mine=mine) is not None
    picks = cloud.assumed.picks_after(('cell1', 'uuid-h2'), sight.number)
    assert [each.pick.uuid for each in picks] == [A, B]
    assert cloud.assumed.picks_after(('cell1', 'uuid-h3'), 0) == []


def test_pick_shown_by_a_row_still_conflicts_with_an_earlier_read(cloud):
    before = cloud.see().number
    cloud.pick(1, A, memory_mb=1000)
    cloud.report(1, free_ram_mb=7192, vcpus_used=1)
    assert cloud.free_ram_mb == [8192, 7192, 8192]
    assert cloud.pick(1, B, after=before) is None


def test_picks_are_taken_back(cloud):
    first, second = cloud.pick(1, A), cloud.pick(1, B)
    cloud.assumed.remove([first, first])
    assert cloud.free_ram_mb == [8192, 8192 - 512, 8192]
    cloud.assumed.remove([second])
    cloud.assumed.remove([second])
    assert cloud.free_ram_mb == [8192] * 3


def test_an_instance_that_is_asked_for_again_is_nowhere_yet(cloud):
    cloud.pick(1, A)
    cloud.pick(2, B)
    cloud.assumed.remove_instances([A, C])
    assert cloud.free_ram_mb == [8192, 8192, 8192 - 512]
    cloud.assumed.remove_instances([A])
    assert len(cloud.assumed) == 1


def test_hosts_are_taken_again_if_a_row_was_noticed_meanwhile(cloud):
    cloud.pick(1, memory_mb=1000)
    old = cloud.hosts
    cloud.report(1, free_ram_mb=7192, vcpus_used=1)
    taken = []

    def take():
        taken.append(1)
        if len(taken) > 1:
            return cloud.hosts
        cloud.see()  # another request is faster
        return old

    assert cloud.assumed.see(take).hosts.free_ram_mb.tolist() == [8192, 7192, 8192]
    assert len(taken) == 2


def test_hosts_are_not_taken_for_ever(cloud):
    taken = []

    def take():
        taken.append(1)
        cloud.pick(1, B, memory_mb=1000)
        cloud.report(1, free_ram_mb=-9000 * len(taken), vcpus_used=9 * len(taken))
        cloud.see()
        return cloud.hosts

    cloud.assumed.see(take)
    assert len(taken) == assumed.MOST_LOOKS


def test_the_tables_of_a_request_are_its_own(cloud):
    cloud.pick(1)
    one, other = cloud.see().hosts, cloud.see().hosts
    changed = one.replace(0, free_ram_mb=1)
    assert np.array_equal(other.free_ram_mb, [8192, 8192 - 512, 8192])
    assert changed.free_ram_mb.tolist()[0] == 1


class TestSecondRequest:
    """An instance is asked for while a pick for it stands."""

    def test_its_own_pick_does_not_count(self, cloud):
        cloud.pick(1, A, memory_mb=1000, instance_group=factories.group())
        cloud.pick(2, B, memory_mb=1000)
        seen = cloud.assumed.see(lambda: cloud.hosts, [A])
        assert seen.hosts.free_ram_mb.tolist() == [8192, 8192, 7192]
        assert [sorted(host.instances) for host in seen.hosts.states()] == [[]] * 3
        assert [one.pick.uuid for one in seen.picks] == [B]
        assert cloud.free_ram_mb == [8192, 7192, 7192]

    def test_refused_request_changes_no_pick(self, cloud):
        cloud.pick(1, memory_mb=1000)
        sent = [*cloud.sent]
        cloud.assumed.remove([cloud.pick(2, memory_mb=1000)])
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        assert cloud.sent == sent

    def test_granted_pick_replaces_the_one_before(self, cloud):
        first = cloud.pick(1, memory_mb=1000)
        second = cloud.pick(2, memory_mb=1000)
        assert cloud.free_ram_mb == [8192, 7192, 7192]
        cloud.assumed.granted([A], [second])
        assert cloud.free_ram_mb == [8192, 8192, 7192]
        assert cloud.sent == [(A, first, ''), (A, None, ''), (A, second, '')]
        cloud.assumed.remove([second])
        assert cloud.sent[3:] == [(A, None, '')]
        assert len(cloud.assumed) == 0

    def test_pick_that_is_pushed_out_is_not_granted(self, cloud):
        cloud.pick(1)
        second = cloud.pick(2)
        cloud.clock.advance(assumed.FOR_S)
        assert cloud.free_ram_mb == [8192] * 3
        cloud.assumed.granted([A], [second])
        assert (len(cloud.assumed), len(cloud.sent)) == (0, 1)

    def test_successor_takes_over_no_pick_that_is_not_granted(self, cloud):
        cloud.pick(1, memory_mb=1000)
        second, successor = cloud.pick(2, memory_mb=1000), AssumedInstances()
        successor.inherit(cloud.assumed, 'other')
        assert len(successor) == 1
        cloud.assumed.granted([A], [second])
        seen = successor.see(lambda: cloud.hosts).hosts
        assert seen.free_ram_mb.tolist() == [8192, 8192, 7192]


class TestOthers:
    """Another scheduler picks, which sees the same rows."""

    @pytest.fixture
    def other(self):
        return Cloud()

    def deliver(self, cloud, other):
        """Take in what the other has sent."""
        for uuid, pick, origin in other.sent:
            if pick is None:  # its own pick is over, or one that it has heard of
                cloud.assumed.end_remote(uuid, '' if origin else 'other')
            else:
                cloud.assumed.apply_remote(replace(pick.pick, origin='other'))
        other.sent.clear()

    def test_their_picks_and_undos_are_seen(self, cloud, other):
        pick = other.pick(1, memory_mb=1000)
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        other.assumed.remove([pick])
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [8192] * 3
        assert cloud.sent == []

    def test_a_successor_has_those_that_no_row_shows(self, cloud, other):
        """After a reload, by the time that they have left, and their ends."""
        shown = other.pick(2, B, memory_mb=1000)
        pick = other.pick(1, memory_mb=1000)
        other.report(2, free_ram_mb=7192, vcpus_used=1)
        other.see()
        cloud.assumed.clock = other.clock
        cloud.assumed.inherit(other.assumed, 'other')
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        other.assumed.remove([shown, pick])
        assert cloud.free_ram_mb == [8192] * 3
        assert cloud.sent == []

    def test_a_successor_has_what_the_one_before_goes_on_to_pick(self, cloud, other):
        cloud.assumed.inherit(other.assumed, '')
        pick = other.pick(1, memory_mb=1000)
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        other.assumed.remove([pick])
        assert cloud.free_ram_mb == [8192] * 3
        assert (len(other.sent), cloud.sent) == (2, [])

    def test_growth_before_the_inheritance_explains_no_inherited_pick(
        self, cloud, other
    ):
        """Of two that take the same on a host, the row has shown one."""
        other.pick(1, A, memory_mb=1000)
        other.pick(1, B, memory_mb=1000)
        other.report(1, free_ram_mb=7192, vcpus_used=1)
        assert other.free_ram_mb == [8192, 6192, 8192]
        cloud.hosts = other.hosts
        cloud.assumed.inherit(other.assumed, 'other')
        assert cloud.free_ram_mb == [8192, 6192, 8192]
        cloud.report(1, free_ram_mb=6192, vcpus_used=2)
        assert cloud.free_ram_mb == [8192, 6192, 8192]

    def test_inherited_pick_keeps_its_remaining_time(self, cloud, other):
        other.pick(1, memory_mb=1000)
        other.clock.advance(assumed.FOR_S - 1)
        cloud.assumed.clock = other.clock
        cloud.assumed.inherit(other.assumed, 'other')
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        other.clock.advance(2)
        assert cloud.free_ram_mb == [8192] * 3

    def test_request_cannot_pick_a_host_that_another_scheduler_picked_since(
        self, cloud, other
    ):
        before = cloud.see().number
        other.pick(1, A)
        self.deliver(cloud, other)
        assert cloud.pick(1, B, after=before) is None

    def test_an_instance_that_is_asked_for_again_elsewhere_is_not_where_it_was(
        self, cloud, other
    ):
        other.pick(1)
        self.deliver(cloud, other)
        cloud.assumed.remove_instances([A])
        assert (len(cloud.assumed), len(cloud.sent)) == (0, 1)
        self.deliver(other, cloud)
        assert len(other.assumed) == 0

    def test_late_end_does_not_end_a_pick_of_another_scheduler(self, cloud, other):
        """The other one gives up, and the same instance is asked for here meanwhile."""
        pick = other.pick(1)
        self.deliver(cloud, other)
        other.assumed.remove([pick])
        cloud.pick(0, memory_mb=1000)
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [7192, 8192, 8192]

    def test_pick_of_another_scheduler_replaces_the_own_once_it_is_granted(
        self, cloud, other
    ):
        cloud.pick(0, memory_mb=1000)
        self.deliver(other, cloud)
        pick = other.pick(1, memory_mb=1000)
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [7192, 7192, 8192]
        other.assumed.granted([A], [pick])
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [8192, 7192, 8192]
        assert other.free_ram_mb == [8192, 7192, 8192]

    def test_refused_pick_of_another_scheduler_keeps_the_own(self, cloud, other):
        cloud.pick(0, memory_mb=1000)
        self.deliver(other, cloud)
        pick = other.pick(1, memory_mb=1000)
        self.deliver(cloud, other)
        other.assumed.remove([pick])
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [7192, 8192, 8192]
        assert other.free_ram_mb == [7192, 8192, 8192]

    def test_one_that_comes_after_the_row_that_shows_it_is_not_counted(
        self, cloud, other
    ):
        other.pick(1, memory_mb=1000)
        cloud.report(1, free_ram_mb=7192, vcpus_used=1)
        self.deliver(cloud, other)
        assert cloud.free_ram_mb == [8192, 7192, 8192]

    def test_an_undo_of_what_is_not_known_is_nothing(self, cloud):
        cloud.assumed.end_remote(A, 'other')
        assert len(cloud.assumed) == 0

    def test_they_take_so_much_memory_at_most(self, cloud, other):
        pick = other.pick(1).pick
        for number in range(assumed.MOST_PICKS + 2):
            request = pick.request.replaced(instance_uuid=str(number))
            cloud.assumed.apply_remote(replace(pick, request=request))
        assert len(cloud.assumed) == assumed.MOST_PICKS

    def test_picks_of_unknown_hosts_push_out_no_pick_of_a_known_host(
        self, cloud, other
    ):
        pick = other.pick(1, memory_mb=1000).pick
        cloud.assumed.apply_remote(replace(pick, origin='other'))
        cloud.pick(2, B, memory_mb=1000)
        assert cloud.free_ram_mb == [8192, 7192, 7192]
        cloud.pick(0, C, memory_mb=1000)  # no look shows its row yet
        for number in range(assumed.MOST_PICKS + 2):
            request = pick.request.replaced(instance_uuid=str(number))
            foreign = replace(pick, key=('cell1', str(number)), request=request)
            cloud.assumed.apply_remote(replace(foreign, origin='other'))
        assert len(cloud.assumed) == assumed.MOST_PICKS
        assert cloud.free_ram_mb == [7192, 7192, 7192]

    def test_pick_that_cannot_be_booked_is_dropped_and_named_once(
        self, cloud, other, caplog
    ):
        good = replace(other.pick(1, B, memory_mb=1000).pick, origin='other')
        request = RequestSpec(instance_uuid=A)
        for _ in range(2):
            cloud.assumed.apply_remote(good)
            cloud.assumed.apply_remote(replace(good, request=request))
            assert cloud.free_ram_mb == [8192, 7192, 8192]
            assert len(cloud.assumed) == 1
        (line,) = caplog.messages
        assert A in line

    def test_conflicting_pick_that_cannot_be_booked_is_dropped(self, cloud, other):
        good = replace(other.pick(1, B, memory_mb=1000).pick, origin='other')
        request = RequestSpec(instance_uuid=A)
        for pick in (replace(good, request=request), good):
            cloud.assumed.apply_remote(pick)
        picks = cloud.assumed.picks_after(good.key, 0)
        less = cloud.assumed.less(cloud.hosts, 1, picks)
        assert less.free_ram_mb.tolist() == [8192, 7192, 8192]
        assert len(cloud.assumed) == 1

    def test_own_pick_that_cannot_be_booked_is_a_defect(self, cloud):
        pick = cloud.pick(1)
        request = RequestSpec(instance_uuid=A)
        pick.pick = replace(pick.pick, request=request)
        with pytest.raises(NotLoaded):
            cloud.assumed.less(cloud.hosts, 1, [pick])

    def test_a_message_that_does_not_come_back_is_waited_for_once(self, cloud):
        mine = cloud.pick(1)
        cloud.assumed.wait_for_echo([mine])
        cloud.assumed.acknowledge({})
        began_s = time.monotonic()
        cloud.assumed.wait_for_echo([mine])
        assert time.monotonic() - began_s >= assumed.ECHO_S
        assert not cloud.assumed._echoes_arrive
        cloud.assumed.acknowledge({A: mine.number})
        cloud.assumed.wait_for_echo([mine])
        assert (mine.order, cloud.assumed._echoes_arrive) == (1, True)
