# SPDX-License-Identifier: Apache-2.0
"""Words for why a guest does not fit."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.explanation import Refusals, contended, listed, unplaced
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.reasons import Code

CPUS, PAGES = Code.NOT_ENOUGH_DEDICATED_CPUS, Code.NOT_ENOUGH_PAGES


def cpus(have, want=8):
    return Refused.too_few(CPUS, have, want, 'dedicated CPUs free')


@pytest.mark.parametrize(('by_cell', 'code', 'text'), [
    pytest.param(
        [(0, cpus(4)), (1, cpus(3))],
        CPUS,
        '4 of 8 dedicated CPUs free in cell 0, 3 in cell 1; no cell holds 8',
        id='the same is short everywhere: words once',
    ),
    pytest.param(
        [(0, cpus(4)), (8, Refused(PAGES, 'no pages'))],
        Code.NUMA_DOES_NOT_FIT,
        '4 of 8 dedicated CPUs free in cell 0, no pages in cell 8',
        id='different things are short',
    ),
    pytest.param(
        [(0, Refused(PAGES, 'no pages')), (1, Refused(PAGES, 'no pages'))],
        PAGES,
        'no pages in each cell',
        id='nothing to count',
    ),
    pytest.param(
        [(0, cpus(4)), (1, cpus(3)), (2, cpus(4))],
        CPUS,
        '4 of 8 dedicated CPUs free in cells 0 and 2, 3 in cell 1; no cell holds 8',
        id='nodes that say the same are told together',
    ),
    pytest.param(
        [(0, cpus(4)), (1, cpus(4))],
        CPUS,
        '4 of 8 dedicated CPUs free in each cell',
        id='all nodes say the same',
    ),
    pytest.param(
        [(0, cpus(4))],
        CPUS,
        '4 of 8 dedicated CPUs free in cell 0; no cell holds 8',
        id='a host of one node',
    ),
    pytest.param(
        [(0, cpus(4)), (1, cpus(4, 5))],
        CPUS,
        '4 of 8 dedicated CPUs free in cell 0, 4 of 5 dedicated CPUs free in cell 1',
        id='different numbers are wanted',
    ),
])  # fmt: skip
def test_what_each_host_node_lacks(by_cell, code, text):
    assert unplaced(Refusals(0, by_cell), 1) == (code, text)


def test_one_of_several_guest_nodes_is_named():
    reason = unplaced(Refusals(1, [(0, Refused(PAGES, 'no pages'))]), 2)
    assert reason.text == 'guest cell 1: no pages in cell 0'


def test_guest_nodes_that_want_the_same_place():
    reason = contended([[0], [0, 1], [0]])
    assert reason.code is Code.NODES_CONTENDED
    assert reason.text == (
        'guest cell 0 fits in cell 0, guest cell 1 fits in cells 0 and 1, '
        'guest cell 2 fits in cell 0; not all at once'
    )


def test_numbers_are_listed_in_words():
    assert listed('cell', [0, 8, 16]) == 'cells 0, 8 and 16'
