# SPDX-License-Identifier: Apache-2.0
"""Reasons for a guest that does not fit."""

from novasched.scheduler.fit.explain import Refusals, contended, explain, unplaced
from novasched.scheduler.fit.numa import CellRefusal
from novasched.scheduler.fit.topology import CellLimits, Networks
from novasched.scheduler.reasons import Code
from tests.support.clouds.topologies import FakeDevices, free, hosts, wants
from tests.support.tables.cases import cases

NEAR = CellLimits(16.0, 1.5, Networks(frozenset({'fast'})))


@cases('cells, guest, limits, devices, code, text',
    ('too few nodes', free(4), wants(1, 1), None, None, Code.NODES_MISSING,
     '1 of 2 NUMA cells'),
    ('too few CPUs', free(3, 8, 4), wants(9), None, None,
     Code.NOT_ENOUGH_DEDICATED_CPUS, '8 of 9 dedicated CPUs in each cell'),
    ('too few free CPUs, in the order of the host', free(4, 8, 3)[::2], wants(8), None,
     None, Code.NOT_ENOUGH_DEDICATED_CPUS,
     '4 of 8 dedicated CPUs free in cell 0, 3 in cell 2; no cell holds 8'),
    ('two want the same node', free(4, 1), wants(3, 3), None, None,
     Code.NODES_CONTENDED,
     'guest cell 0 fits in cell 0, guest cell 1 fits in cell 0; not all at once'),
    ('no devices', free(2, 2), wants(1), None, FakeDevices(), Code.PCI_DEVICES_MISSING,
     'no devices near [0] with cell 0'),
    ('devices elsewhere', free(2, 1, 3), wants(2), None, FakeDevices({1: 4, 2: 1}),
     Code.PCI_DEVICES_MISSING,
     'no devices near [2] with cell 2; '
      '4 in cell 1, where 1 of 2 dedicated CPUs free'),
    ('some devices on each node', free(2, 2), wants(1), None, FakeDevices({0: 1, 1: 1}),
     Code.PCI_DEVICES_MISSING, 'no devices near [0] with cell 0; 1 in cell 1'),
    ('devices elsewhere, and nodes to combine', free(2, 2, 2, 2), wants(1, 1), None,
     FakeDevices({1: 4, 9: 1}), Code.PCI_DEVICES_MISSING,
     'no devices near [0, 1] with cells 0 and 1; 1 in cell 9'),
    ('far from a network',
     hosts({'pinned_cpus': {0, 1, 2, 3}, 'network_metadata': NEAR.networks}, {}),
     wants(1), NEAR, FakeDevices(supported=[{1}]), Code.NETWORKS_ELSEWHERE,
     'physical network fast only away from cell 1'),
    ('it fits', free(2, 2), wants(1), None, None, Code.NUMA_DOES_NOT_FIT,
     'the NUMA nodes fit, but nova looks for them in a way that misses them'),
    ('it fits, networks and all', free(2, 2), wants(1), NEAR, None,
     Code.NUMA_DOES_NOT_FIT,
     'the NUMA nodes fit, but nova looks for them in a way that misses them'),
)  # fmt: skip
def test_why_it_does_not_fit(cells, guest, limits, devices, code, text):
    assert explain(cells, guest, limits, devices, False) == (code, text)


CPUS, PAGES = Code.NOT_ENOUGH_DEDICATED_CPUS, Code.NOT_ENOUGH_PAGES


def cpus(have, want=8):
    return CellRefusal.too_few(CPUS, have, want, 'dedicated CPUs free')


@cases('by_cell, code, text',
    ('the same is short everywhere: words once', [(0, cpus(4)), (1, cpus(3))], CPUS,
     '4 of 8 dedicated CPUs free in cell 0, 3 in cell 1; no cell holds 8'),
    ('different things are short', [(0, cpus(4)), (8, CellRefusal(PAGES, 'no pages'))],
     Code.NUMA_DOES_NOT_FIT,
     '4 of 8 dedicated CPUs free in cell 0, no pages in cell 8'),
    ('nothing to count',
     [(0, CellRefusal(PAGES, 'no pages')), (1, CellRefusal(PAGES, 'no pages'))], PAGES,
     'no pages in each cell'),
    ('nodes that say the same are told together',
     [(0, cpus(4)), (1, cpus(3)), (2, cpus(4))], CPUS,
     '4 of 8 dedicated CPUs free in cells 0 and 2, 3 in cell 1; no cell holds 8'),
    ('all nodes say the same', [(0, cpus(4)), (1, cpus(4))], CPUS,
     '4 of 8 dedicated CPUs free in each cell'),
    ('a host of one node', [(0, cpus(4))], CPUS,
     '4 of 8 dedicated CPUs free in cell 0; no cell holds 8'),
    ('different numbers are wanted', [(0, cpus(4)), (1, cpus(4, 5))], CPUS,
     '4 of 8 dedicated CPUs free in cell 0, 4 of 5 dedicated CPUs free in cell 1'),
)  # fmt: skip
def test_reason_says_what_each_host_cell_lacks(by_cell, code, text):
    assert unplaced(Refusals(0, by_cell), 1) == (code, text)


def test_one_of_several_guest_nodes_is_named():
    reason = unplaced(Refusals(1, [(0, CellRefusal(PAGES, 'no pages'))]), 2)
    assert reason.text == 'guest cell 1: no pages in cell 0'


def test_guest_nodes_that_want_the_same_place():
    reason = contended([[0], [0, 1], [0]])
    assert reason.code is Code.NODES_CONTENDED
    assert reason.text == (
        'guest cell 0 fits in cell 0, guest cell 1 fits in cells 0 and 1, '
        'guest cell 2 fits in cell 0; not all at once'
    )
