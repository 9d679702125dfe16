# SPDX-License-Identifier: Apache-2.0
"""What is free on a node of a host."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.topology import Pages
from tests import topologies

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
