# SPDX-License-Identifier: Apache-2.0
"""Which of the picks of a host its row shows."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from novasched.cluster.assumed import (
    KNOWN_FOR_S,
    HostPicks,
    Pick,
    UsageRow,
    group_of,
)
from novasched.scheduler.fit.fitting import Fitting
from tests import factories
from tests.cases import cases

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
A, B = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab')
UNTIL_S = 60.0


def row(seconds=0, free_ram_mb=8000, vcpus_used=0, shapes=(None, None)):
    """The row of a host, so many seconds after noon."""
    stamp = None if seconds is None else NOON + datetime.timedelta(seconds=seconds)
    return UsageRow(stamp, (free_ram_mb, 102400, vcpus_used, 0, 0), shapes)


def nobody(host):
    """A host whose word is not believed."""


def saying(*uuids):
    return lambda host: dict.fromkeys(uuids)


class Host:
    """A host with 8000 MiB, on which instances of 1000 MiB and a CPU are picked."""

    def __init__(self):
        self.picks = HostPicks(0, row())
        self._free_ram_mb, self._vcpus_used = 8000, 0

    def pick(self, uuid=A, *, memory_mb=1000, vcpus=1, known=False, group=None):
        self._free_ram_mb -= memory_mb
        self._vcpus_used += vcpus
        request = factories.request(
            instance_uuid=uuid, memory_mb=memory_mb, vcpus=vcpus, instance_group=group
        )
        made = Pick(
            key=('cell1', 'uuid-h1'),
            host='h1',
            request=request,
            limits={},
            seen=row(),
            known=known,
            awaited=(self._free_ram_mb, self._vcpus_used),
            until_s=UNTIL_S,
            number=len(self.picks.picks) + 1,
        )
        self.picks.picks.append(made)
        return made

    def settle(self, now_s=1.0, reported=nobody, **usage):
        self.picks.row = row(**usage)
        return self.picks.settle(reported, now_s)

    @property
    def kept(self):
        return [pick.uuid for pick in self.picks.picks]

    @property
    def left(self):
        """The picks that are counted."""
        return [pick.uuid for pick in self.picks.picks if pick.shown_s is None]

    @property
    def free_ram_mb(self):
        return self.picks.values(Fitting()).get('free_ram_mb')


@pytest.fixture
def host():
    return Host()


@cases(
    'other, follows',
    ('the same row', row(), False),
    ('a newer stamp', row(1), True),
    ('an older stamp', row(-1, 7000), False),
    ('another usage within the second', row(0, 7000), True),
    ('another usage without a stamp', row(None, 7000), True),
    ('another shape', row(0, shapes=('x', None)), True),
)
def test_a_row_follows_another(other, follows):
    assert other.follows(row()) is follows


@cases(
    'usage, shown',
    ('nothing was taken', {'seconds': 1}, False),
    ('it is in', {'seconds': 1, 'free_ram_mb': 7000, 'vcpus_used': 1}, True),
    ('with others', {'seconds': 1, 'free_ram_mb': 6000, 'vcpus_used': 4}, True),
    (
        'a smaller one is in',
        {'seconds': 1, 'free_ram_mb': 7500, 'vcpus_used': 1},
        False,
    ),
    ('memory without CPUs', {'seconds': 1, 'free_ram_mb': 7000}, False),
    ('an older row', {'seconds': -1, 'free_ram_mb': 7000, 'vcpus_used': 1}, False),
)
def test_usage_shows_a_pick(host, usage, shown):
    host.pick()
    assert host.settle(**usage) is shown
    assert host.left == ([] if shown else [A])


def test_one_without_memory_and_cpus_is_in_the_next_row(host):
    host.pick(memory_mb=0, vcpus=0)
    assert not host.settle()
    assert host.settle(seconds=1)


def test_picks_are_shown_in_order(host):
    host.pick(A)
    host.pick(B)
    host.settle(seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert (host.left, host.free_ram_mb) == ([B], 6000)
    host.settle(seconds=2, free_ram_mb=6000, vcpus_used=2)
    assert (host.left, host.free_ram_mb) == ([], None)


@cases(
    'seconds, known, left',
    ('the row is newer', 1, False, []),
    ('the row is the same', 0, False, [A]),
    ('it was there before, as for a resize', 1, True, [A]),
)
def test_an_instance_that_the_host_names(host, seconds, known, left):
    host.pick(known=known)
    host.settle(reported=saying(A), seconds=seconds)
    assert host.left == left


def test_one_that_came_before_an_earlier_pick_does_not_show_that(host):
    host.pick(A)
    host.pick(B)
    host.settle(reported=saying(B), seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert host.left == [A]
    host.settle(reported=saying(B), seconds=2, free_ram_mb=6000, vcpus_used=2)
    assert host.left == []


def test_one_that_came_in_turn_says_nothing_of_the_next(host):
    host.pick(A)
    host.pick(B)
    host.settle(reported=saying(A), seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert (host.left, host.free_ram_mb) == ([B], 6000)


def test_once_a_pick_is_forgotten_the_next_does_not_wait_for_it(host):
    first = host.pick(A)
    host.pick(B)
    host.picks.remove(first)
    host.settle(seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert host.left == []


def test_the_earlier_ones_do_not_wait_for_a_pick_that_is_forgotten(host):
    host.pick(A)
    host.picks.remove(host.pick(B))
    host.settle(seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert host.left == []


def test_a_pick_that_is_never_shown_is_forgotten(host):
    host.pick()
    host.settle(UNTIL_S - 1, seconds=1)
    assert host.left == [A]
    assert not host.settle(UNTIL_S, seconds=1)
    assert host.kept == []


def test_where_the_host_is_gone_a_pick_waits(host):
    host.pick()
    host.picks.row = None
    assert not host.picks.settle(nobody, 1.0)
    assert (host.left, host.free_ram_mb) == ([A], None)


@cases(
    'later_s, reported, member, kept',
    ('a request may have looked before', 0, nobody, False, [A]),
    ('nobody needs it any more', KNOWN_FOR_S, saying(), False, []),
    ('a request may come late', 0, saying(A), True, [A]),
    ('the host names it', KNOWN_FOR_S, saying(A), True, []),
    ('the host does not name it', KNOWN_FOR_S, saying(), True, [A]),
    ('the database is asked', KNOWN_FOR_S, nobody, True, []),
)
def test_a_pick_is_known_for_longer_than_it_counts(
    host, later_s, reported, member, kept
):
    host.pick(group=factories.group() if member else None)
    shown = {'seconds': 1, 'free_ram_mb': 7000, 'vcpus_used': 1}
    assert host.settle(1.0, reported, **shown)
    host.settle(1.0 + later_s, reported, **shown)
    assert (host.kept, host.free_ram_mb) == (kept, None)


def test_a_member_that_is_named_is_not_counted_any_more(host):
    host.pick(group=factories.group())
    host.settle(reported=saying(), seconds=1)
    assert host.free_ram_mb == 7000
    host.settle(reported=saying(A), seconds=1)
    assert (host.kept, host.free_ram_mb) == ([A], None)


def test_what_a_host_has_left(host):
    host.pick(A)
    values = host.picks.values(Fitting())
    assert values == {
        'free_ram_mb': 7000,
        'free_disk_mb': 101376,
        'vcpus_used': 1,
        'num_instances': 1,
        'num_io_ops': 1,
    }
    assert host.picks.values(Fitting()) == values
    host.pick(B, memory_mb=500)
    assert host.free_ram_mb == 6500
    host.picks.row = row(1, 5000)
    assert host.free_ram_mb == 3500


def test_nodes_are_taken_one_after_the_other(host):
    topology = factories.numa_topology(
        factories.numa_cell(0, range(4)), factories.numa_cell(1, range(4, 8))
    )
    shown = factories.hosts(numa_topology=[topology]).state(0)
    host.picks.row = row(shapes=(shown.numa_topology, shown.pci_stats))
    cell = factories.guest_cell(cpus=range(4), policy='dedicated')
    for uuid in (A, B):
        pick = host.pick(uuid)
        pick.request = pick.request.replaced(
            numa_topology=factories.guest_topology(cell)
        )
        left = host.picks.values(Fitting())['numa_topology']
        assert sum(len(one.pinned_cpus) for one in left.cells) == 4 * pick.number
    assert not any(one.pinned_cpus for one in shown.numa_topology.cells)


def test_a_request_may_have_no_group():
    assert group_of(factories.request()) is None
    group = factories.group()
    assert group_of(factories.request(instance_group=group)) == group.uuid


def test_the_values_of_a_row():
    hosts = factories.hosts(free_ram_mb=[5, 6], vcpus_used=[7, 8])
    (found,) = UsageRow.all_at(hosts.snapshot, [1])
    assert found.numbers == (6, 102400, 8, 0, 0)
    assert not any(isinstance(number, np.generic) for number in found.numbers)
