# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a host the nodes of a guest get, and why none."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.guests import LARGE
from novasched.scheduler.fit.search import Attempt, explain, fit
from novasched.scheduler.fit.topology import Limits, Networks, Pages
from novasched.scheduler.reasons import Code
from tests import topologies
from tests.topologies import FakeDevices

NEAR = Limits(16.0, 1.5, Networks(frozenset({'fast'})))


def hosts(*cells):
    return [topologies.host_cell(id=n, **cell) for n, cell in enumerate(cells)]


def free(*counts):
    """Return host nodes with so many CPUs free, in that order."""
    cores = tuple((cpu,) for cpu in range(max(counts)))
    return hosts(
        *({'cores': cores, 'pinned_cpus': set(range(n, max(counts)))} for n in counts)
    )


def wants(*counts, **given):
    """Return a guest whose nodes have so many dedicated CPUs."""
    return topologies.guest(
        *(topologies.guest_cell(n, dedicated=range(c)) for n, c in enumerate(counts)),
        **given,
    )


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


@pytest.mark.parametrize(('cells', 'guest', 'limits', 'devices', 'code', 'text'), [
    pytest.param(
        free(4), wants(1, 1), None, None, Code.NODES_MISSING, '1 of 2 NUMA cells',
        id='too few nodes',
    ),
    pytest.param(
        free(3, 8, 4), wants(9), None, None, Code.NOT_ENOUGH_DEDICATED_CPUS,
        '8 of 9 dedicated CPUs in cell 0, 8 in cell 1, 8 in cell 2; no cell holds 9',
        id='too few CPUs',
    ),
    pytest.param(
        free(4, 8, 3)[::2], wants(8), None, None, Code.NOT_ENOUGH_DEDICATED_CPUS,
        '4 of 8 dedicated CPUs free in cell 0, 3 in cell 2; no cell holds 8',
        id='too few free CPUs, in the order of the host',
    ),
    pytest.param(
        free(4, 1), wants(3, 3), None, None, Code.NODES_CONTENDED,
        'guest cell 0 fits in cell 0, guest cell 1 fits in cell 0; not all at once',
        id='two want the same node',
    ),
    pytest.param(
        free(2, 2), wants(1), None, FakeDevices(), Code.PCI_DEVICES_MISSING,
        'no devices near [0]', id='no devices',
    ),
    pytest.param(
        hosts({'pinned_cpus': {0, 1, 2, 3}, 'network_metadata': NEAR.networks}, {}),
        wants(1), NEAR, FakeDevices(supported=[{1}]), Code.NETWORKS_ELSEWHERE,
        'physical network fast only away from cell 1', id='far from a network',
    ),
    pytest.param(
        free(2, 2), wants(1), None, None, Code.NUMA_DOES_NOT_FIT,
        'the NUMA nodes fit, but nova looks for them in a way that misses them',
        id='it fits',
    ),
    pytest.param(
        free(2, 2), wants(1), NEAR, None, Code.NUMA_DOES_NOT_FIT,
        'the NUMA nodes fit, but nova looks for them in a way that misses them',
        id='it fits, networks and all',
    ),
])  # fmt: skip
def test_why_it_does_not_fit(cells, guest, limits, devices, code, text):
    assert explain(cells, guest, limits, devices, False) == (code, text)
