# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a host the nodes of a guest get."""

from __future__ import annotations

import math

import pytest

from novasched.scheduler.fit.guests import LARGE, GuestCell
from novasched.scheduler.fit.search import Attempt, fit, fit_each
from novasched.scheduler.fit.topology import Limits, Networks, Pages
from tests import topologies
from tests.topologies import FakeDevices, free, hosts, wants

NEAR = Limits(16.0, 1.5, Networks(frozenset({'fast'})))


def placed(cells, guest, limits=None, devices=None, pack=False):
    """Return the host node of each guest node, or None."""
    attempt = fit(cells, guest, limits, devices, pack)
    if not attempt.fits:
        assert attempt.guest is guest
        return None
    return [cell.id for cell in attempt.guest.cells]


@pytest.mark.parametrize(('cells', 'guest', 'where'), [
    pytest.param(free(2), wants(2), [0], id='the only node'),
    pytest.param(free(2, 3), wants(2), [1], id='the node with most room'),
    pytest.param(free(2, 3), wants(4), None, id='no node has room'),
    pytest.param(free(2, 3), wants(3, 2), [1, 0], id='the other way round'),
    pytest.param(free(3, 3, 3), wants(1, 1), [0, 1], id='the first of equal ones'),
    pytest.param(
        free(3, 2, 1), wants(1, 2, 3), [2, 1, 0], id='the first that can be completed'
    ),
    pytest.param(
        free(9, 1, 5), wants(1, 4, 4), [1, 0, 2], id='three, and the small one is last'
    ),
    pytest.param(free(4, 1), wants(3, 3), None, id='two want the same node'),
    pytest.param(free(4), wants(1, 1), None, id='more nodes than the host has'),
    pytest.param(free(4), wants(), None, id='a guest without nodes'),
    pytest.param([], wants(1), None, id='a host without nodes'),
])  # fmt: skip
def test_where_a_guest_goes(cells, guest, where):
    assert placed(cells, guest) == where


def test_packed_onto_the_fullest_node():
    assert placed(free(2, 3), wants(2), pack=True) == [0]


def test_the_guest_is_fitted():
    cells = hosts({'mempages': (Pages(4, 9), Pages(2048, 512))})
    node = topologies.guest_cell(dedicated={0}, pagesize=LARGE)
    attempt = fit(cells, topologies.guest(node), None, None, False)
    fitted = topologies.guest_cell(dedicated={0}, pagesize=2048, pinning=((0, 0),))
    assert attempt == Attempt(True, topologies.guest(fitted))


def test_the_emulator_is_beside_the_first_guest_node():
    attempt = fit(free(3, 3), wants(2, 2, isolates_emulator=True), None, None, False)
    assert [cell.reserved for cell in attempt.guest.cells] == [{2}, None]


def test_a_page_size_that_did_not_work_out_is_forgotten():
    only_huge = {'mempages': (Pages(4, 9), Pages(1048576, 4)), 'cpuset': {0}}
    only_large = {'mempages': (Pages(4, 9), Pages(2048, 512)), 'cpu_usage': 1}
    node = topologies.guest_cell(shared={0, 1}, pagesize=LARGE)
    assert placed(hosts(only_huge, only_large), topologies.guest(node)) == [1]


@pytest.mark.parametrize(('supported', 'where'), [
    pytest.param([{0, 1}], [0, 1], id='at once'),
    pytest.param([{1, 3}, {2, 3}], [1, 3], id='the first choice that is supported'),
    pytest.param([{3}], None, id='no choice is supported'),
])  # fmt: skip
def test_devices_must_agree(supported, where):
    devices = FakeDevices(supported=supported)
    assert placed(free(2, 2, 2, 2), wants(1, 1), devices=devices) == where


def test_the_order_of_choices_holds_with_devices():
    devices = FakeDevices(supported=[{0, 3}, {1, 2}, {2, 3}])
    cells = free(1, 2, 2, 2)
    assert placed(cells, wants(2, 1), devices=devices) == [1, 2]
    assert placed(cells, wants(1, 2), devices=devices) == [1, 2]
    assert placed(cells[:1] + cells[2:], wants(1, 2), devices=devices) == [2, 3]


def test_devices_are_not_asked_by_a_guest_that_wants_none():
    devices = FakeDevices(wanted=False)
    assert placed(free(2, 2), wants(1), devices=devices) == [0]
    assert devices.asked == []


def test_devices_are_asked_once_for_nodes_of_one_kind():
    devices = FakeDevices()
    devices.sight = lambda cell_id: None
    assert placed(free(*[2] * 16), wants(*[1] * 8), devices=devices) is None
    assert len(devices.asked) == 1


@pytest.mark.parametrize(('supported', 'most'), [
    pytest.param([set(range(7)) | {15}], 9, id='one of the first choices'),
    pytest.param([set(range(8, 16))], math.comb(16, 8) + 1, id='the last choice'),
    pytest.param([], math.comb(16, 8), id='none'),
])  # fmt: skip
def test_sets_of_nodes_are_asked_once_and_no_longer_than_needed(supported, most):
    devices = FakeDevices(supported=supported)
    where = placed(free(*[2] * 16), wants(*[1] * 8), devices=devices)
    assert where == (sorted(supported[0]) if supported else None)
    assert len(devices.asked) == len(set(devices.asked)) <= most


def test_the_first_choices_leave_each_guest_node_its_place():
    devices = FakeDevices(supported=[{0, 1, 2, 4}])
    where = placed(free(9, *[1] * 8), wants(1, 1, 1, 9), devices=devices)
    assert where == [1, 2, 4, 0]


class CountingCell(GuestCell):
    """Counts how often it is tested."""

    tested = 0

    @property
    def shares(self):
        CountingCell.tested += 1
        return False


def test_pairs_are_tested_once_for_all_candidates():
    none, one = FakeDevices(), FakeDevices(supported=[{1}])
    guest = topologies.guest(CountingCell(0, frozenset(), frozenset({0}), 64))
    counted = []
    for each in ([none], [one, none, FakeDevices(supported=[{0}])]):
        before = CountingCell.tested
        attempts = fit_each(hosts({}, {}), guest, None, each, False)
        counted.append(CountingCell.tested - before)
    assert counted[0] == counted[1] > 0
    found = [attempt.fits and attempt.guest.cells[0].id for attempt in attempts]
    assert found == [1, False, 0]
    assert fit_each(hosts({}), guest, None, [], False) == []


def test_nodes_near_the_networks_are_chosen():
    cells = hosts({}, {'network_metadata': Networks(frozenset({'fast'}))}, {})
    guest = topologies.guest(topologies.guest_cell(shared={0}))
    assert placed(cells, guest, Limits(16.0, 1.5)) == [0]
    assert placed(cells, guest, NEAR) == [1]


def test_a_guest_of_many_nodes_is_refused_without_trying_all_ways():
    devices = FakeDevices()
    devices.sight = lambda cell_id: cell_id % 3
    cells = free(*range(1, 17))
    assert placed(cells, wants(*range(9, 17)), devices=devices) is None
    assert len(devices.asked) < 50
