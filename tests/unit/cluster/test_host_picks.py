# SPDX-License-Identifier: Apache-2.0
"""Which of the picks of a host its row shows."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from novasched.cluster.host_picks import (
    KNOWN_FOR_S,
    AssumedPick,
    HostPicks,
    Pick,
    UsageRow,
    group_of,
    usage_delta,
)
from novasched.scheduler.fit.fitting import Fitting
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
A, B = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab')
UNTIL_S = 60.0
ALONE = factories.hosts(
    numa_topology=[
        factories.numa_topology(
            factories.numa_cell(0, range(4)), factories.numa_cell(1, range(4, 8))
        )
    ],
    pci_stats=[factories.pools(2)],
).state(0)
PINNED = factories.pinned()


def row(seconds=0, free_ram_mb=8000, vcpus_used=0, shapes=None):
    """The row of a host, so many seconds after noon."""
    stamp = None if seconds is None else NOON + datetime.timedelta(seconds=seconds)
    shapes = shapes or (ALONE.numa_topology, ALONE.pci_stats)
    return UsageRow(stamp, (free_ram_mb, 102400, vcpus_used, 0, 0), shapes)


class Host:
    """A host with 8000 MiB, on which instances of 1000 MiB and a CPU are picked."""

    def __init__(self):
        self.picks = HostPicks(0, row().version.used, row())

    def pick(self, uuid=A, *, group=None, memory_mb=1000, **values):
        request = factories.request(instance_uuid=uuid, memory_mb=memory_mb, **values)
        plain = Pick(
            ('cell1', 'uuid-h1'), 'h1', request, {}, row().version, group=group
        )
        growth = usage_delta(row(), plain, Fitting())
        made = AssumedPick(
            replace(plain, usage_delta=growth), len(self.picks.picks) + 1, UNTIL_S
        )
        self.picks.picks.append(made)
        return made

    def reconcile(self, now_s=1.0, **usage):
        self.picks.row = row(**usage)
        return self.picks.reconcile(now_s)

    @property
    def kept(self):
        return [each.pick.uuid for each in self.picks.picks]

    @property
    def left(self):
        """The picks that are counted."""
        return [each.pick.uuid for each in self.picks.due]

    @property
    def free_ram_mb(self):
        return self.picks.values(Fitting()).get('free_ram_mb')


@pytest.fixture
def host():
    return Host()


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
    ('in that second', {'seconds': 0, 'free_ram_mb': 7000, 'vcpus_used': 1}, True),
    ('without a stamp', {'seconds': None, 'free_ram_mb': 7000, 'vcpus_used': 1}, True),
)
def test_usage_shows_a_pick(host, usage, shown):
    host.pick()
    assert host.reconcile(**usage) is shown
    assert host.left == ([] if shown else [A])


def test_one_without_memory_and_cpus_is_in_the_next_row(host):
    host.pick(memory_mb=0, vcpus=0)
    assert not host.reconcile()
    assert host.reconcile(seconds=1)


def test_each_growth_shows_one_pick(host):
    host.pick(A)
    host.pick(B)
    host.reconcile(seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert (host.left, host.free_ram_mb) == ([B], 6000)
    host.reconcile(seconds=2, free_ram_mb=7000, vcpus_used=1)
    assert host.left == [B]
    host.reconcile(seconds=3, free_ram_mb=6000, vcpus_used=2)
    assert (host.left, host.free_ram_mb) == ([], None)


def test_the_pick_that_takes_just_that_is_shown(host):
    host.pick(A)
    host.pick(B, memory_mb=2000)
    host.reconcile(seconds=1, free_ram_mb=6000, vcpus_used=1)
    assert host.left == [A]


def test_freed_usage_does_not_hide_a_later_pick(host):
    host.pick()
    host.reconcile(seconds=1, free_ram_mb=9000)
    host.reconcile(seconds=2, free_ram_mb=8000, vcpus_used=1)
    assert host.left == []


@cases(
    'values, usage, shown',
    (
        'a server without cells is another',
        PINNED,
        {'free_ram_mb': 7000, 'vcpus_used': 4},
        False,
    ),
    (
        'its cell is in use',
        PINNED,
        {
            'shapes': (
                factories.hosts(
                    numa_topology=[
                        factories.numa_topology(
                            factories.numa_cell(
                                0, range(4), cpu_usage=4, memory_usage=1024
                            )
                        )
                    ]
                )
                .state(0)
                .numa_topology,
                None,
            )
        },
        True,
    ),
    (
        'a device is in use',
        {'pci_requests': factories.devices()},
        {
            'shapes': (
                None,
                factories.hosts(pci_stats=[factories.pools(1)]).state(0).pci_stats,
            )
        },
        True,
    ),
)
def test_cells_and_devices_show_those_who_take_them(host, values, usage, shown):
    host.pick(**values)
    assert host.reconcile(seconds=1, **usage) is shown


def test_growth_of_a_removed_pick_shows_another(host):
    first = host.pick(A)
    host.pick(B)
    host.reconcile(seconds=1, free_ram_mb=7000, vcpus_used=1)
    host.picks.remove(first)
    host.reconcile(seconds=1, free_ram_mb=7000, vcpus_used=1)
    assert host.left == []


def test_a_pick_that_is_never_shown_is_forgotten(host):
    host.pick()
    host.reconcile(UNTIL_S - 1, seconds=1)
    assert host.left == [A]
    assert not host.reconcile(UNTIL_S, seconds=1)
    assert host.kept == []


def test_where_the_host_is_gone_a_pick_waits(host):
    host.pick()
    host.picks.row = None
    assert not host.picks.reconcile(1.0)
    assert (host.left, host.free_ram_mb) == ([A], None)


@cases(
    'now_s, group, kept',
    ('a request may have looked before', 1.0, None, [A]),
    ('nobody needs it any more', 1.0 + KNOWN_FOR_S, None, []),
    ('no row shows members', 1.0 + KNOWN_FOR_S, 'a group', [A]),
    ('members are known for a while', UNTIL_S, 'a group', []),
)
def test_a_pick_is_known_for_longer_than_it_counts(host, now_s, group, kept):
    host.pick(group=group)
    shown = {'seconds': 1, 'free_ram_mb': 7000, 'vcpus_used': 1}
    assert host.reconcile(1.0, **shown)
    host.reconcile(now_s, **shown)
    assert (host.kept, host.free_ram_mb) == (kept, None)


def test_values_are_the_row_less_all_due_picks(host):
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
    for uuid in (A, B):
        pick = host.pick(uuid, **PINNED)
        left = host.picks.values(Fitting())['numa_topology']
        assert sum(len(one.pinned_cpus) for one in left.cells) == 4 * pick.number
    assert not any(one.pinned_cpus for one in ALONE.numa_topology.cells)


def test_a_request_may_have_no_group():
    assert group_of(factories.request()) is None
    group = factories.group()
    assert group_of(factories.request(instance_group=group)) == group.uuid


def test_the_values_of_a_row():
    hosts = factories.hosts(free_ram_mb=[5, 6], vcpus_used=[7, 8])
    (found,) = UsageRow.all_at(hosts.snapshot, [1])
    assert found.numbers == (6, 102400, 8, 0, 0)
    assert not any(isinstance(number, np.generic) for number in found.numbers)
