# SPDX-License-Identifier: Apache-2.0
"""Candidates by their root, made when asked for."""

import pytest

from novasched.providers.by_root import CandidatesByRoot
from novasched.providers.candidates import search
from novasched.providers.contents import build
from novasched.resources.query import Group, Query
from tests.unit.providers.test_contents import contents

DEVICES = Query((Group('1', {'VCPU': 1}),))


@pytest.fixture
def table():
    """A root with three children that have a CPU each, and one with one child."""
    stocks = [(row, 0, 1) for row in (2, 3, 4, 6)]
    return build(contents(0, 1, 1, 1, 0, 5, inventories=stocks))


def uuids(candidates):
    return [list(each['allocations']) for each in candidates]


def test_candidates_of_a_root(table):
    found = CandidatesByRoot([search(DEVICES, table)], None)
    assert list(found) == ['p1', 'p5']
    assert uuids(found['p1']) == [['p2'], ['p3'], ['p4']]
    assert uuids(found.flat()) == [['p2'], ['p6'], ['p3'], ['p4']]
    assert not found.shares
    assert not found.cut
    with pytest.raises(KeyError):
        found['p2']


@pytest.mark.parametrize(('most', 'cut'), [(2, True), (3, False)])
def test_a_bound(table, most, cut):
    found = CandidatesByRoot([search(DEVICES, table)], most)
    assert len(found['p1']) == most
    assert found.cut == cut


def test_candidate_found_only_by_the_fallback_is_offered(table):
    """The query itself is served by no provider at all."""
    none = Query((Group('1', {'VCPU': 99}),))
    found = CandidatesByRoot([search(none, table), search(DEVICES, table)], None)
    assert uuids(found['p5']) == [['p6']]


def test_roots_of_several_searches_come_once(table):
    only = Query((Group('1', {'VCPU': 1}, in_tree='p5'),))
    found = CandidatesByRoot([search(only, table), search(DEVICES, table)], None)
    assert list(found) == ['p5', 'p1']
    assert len(found) == 2
    assert uuids(found['p5']) == [['p6'], ['p6']]
