# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of hosts and guests are values."""

import dataclasses

import pytest

from novasched.scheduler.fit.topology import Pages, listed
from tests.support.clouds import topologies
from tests.support.tables.cases import cases

THREADS = ((0, 4), (1, 5), (2, 6), (3, 7))


def test_cpus_that_may_be_pinned():
    cell = topologies.host_cell(cores=THREADS, pinned_cpus={0, 1, 5})
    assert cell.free_cpus == {2, 3, 4, 6, 7}
    assert cell.free_cores == ({4}, set(), {2, 6}, {3, 7})
    assert cell.threads_per_core == 2


@pytest.mark.parametrize('pcpuset', [None, frozenset()])
def test_a_node_without_dedicated_cpus(pcpuset):
    cell = topologies.host_cell(pcpuset=pcpuset, pinned_cpus={0})
    assert cell.free_cpus == frozenset()


def test_a_node_that_reports_little():
    cell = topologies.host_cell(siblings=(), mempages=())
    assert cell.threads_per_core == 0
    assert cell.free_cores == ()
    assert cell.smallest_pages is None


def test_memory_may_be_oversubscribed():
    assert topologies.host_cell(memory=100, memory_usage=150).free_memory == -50
    assert Pages(4, total=10, used=8, reserved=3).free == -1


def test_the_smallest_pages_whatever_their_order():
    pages = (Pages(2048, 5), Pages(4, 7), Pages(1048576, 1))
    assert topologies.host_cell(mempages=pages).smallest_pages == Pages(4, 7)


@cases(
    'policy, pins, shares',
    ('no policy: all are shared', None, False, True),
    ('shared', 'shared', False, True),
    ('dedicated', 'dedicated', True, False),
    ('some of both', 'mixed', True, True),
)
def test_whose_the_cpus_are(policy, pins, shares):
    cell = topologies.guest_cell(shared={0}, dedicated={1}, cpu_policy=policy)
    assert (cell.pins, cell.shares) == (pins, shares)


def test_guests_are_values():
    one, other = (topologies.guest(topologies.guest_cell(shared={0})) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != dataclasses.replace(one, isolates_emulator=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.cells = ()


def test_numbers_are_listed_in_words():
    assert listed('cell', [0, 8, 16]) == 'cells 0, 8 and 16'
