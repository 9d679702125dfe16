# SPDX-License-Identifier: Apache-2.0
"""Search for host cells: order, affinity of devices and networks, matching."""

import itertools
import math
import random

import pytest

from novasched.scheduler.fit.search import (
    Attempt,
    NumaAffinity,
    bits,
    completable,
    fit_each,
    network_class,
    networks_elsewhere,
    ordered,
)
from novasched.scheduler.fit.topology import (
    LARGE,
    CellLimits,
    GuestCell,
    Networks,
    Pages,
)
from tests.support.clouds import topologies
from tests.support.clouds.topologies import FakeDevices, fit, free, hosts, wants
from tests.support.tables.cases import cases

NEAR = CellLimits(16.0, 1.5, Networks(frozenset({'fast'})))


def placed(cells, guest, limits=None, devices=None, pack=False):
    """Return the host node of each guest node, or None."""
    attempt = fit(cells, guest, limits, devices, pack)
    if not attempt.fits:
        assert attempt.guest is guest
        return None
    return [cell.id for cell in attempt.guest.cells]


@cases('cells, guest, where',
    ('the only node', free(2), wants(2), [0]),
    ('the node with most room', free(2, 3), wants(2), [1]),
    ('no node has room', free(2, 3), wants(4), None),
    ('the other way round', free(2, 3), wants(3, 2), [1, 0]),
    ('the first of equal ones', free(3, 3, 3), wants(1, 1), [0, 1]),
    ('the first that can be completed', free(3, 2, 1), wants(1, 2, 3), [2, 1, 0]),
    ('three, and the small one is last', free(9, 1, 5), wants(1, 4, 4), [1, 0, 2]),
    ('two want the same node', free(4, 1), wants(3, 3), None),
    ('more nodes than the host has', free(4), wants(1, 1), None),
    ('a guest without nodes', free(4), wants(), None),
    ('a host without nodes', [], wants(1), None),
)  # fmt: skip
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


@cases('supported, where',
    ('at once', [{0, 1}], [0, 1]),
    ('the first choice that is supported', [{1, 3}, {2, 3}], [1, 3]),
    ('no choice is supported', [{3}], None),
)  # fmt: skip
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
    devices.cell_class = lambda cell_id: None
    assert placed(free(*[2] * 16), wants(*[1] * 8), devices=devices) is None
    assert len(devices.asked) == 1


@cases('supported, most',
    ('one of the first choices', [set(range(7)) | {15}], 9),
    ('the last choice', [set(range(8, 16))], math.comb(16, 8) + 1),
    ('none', [], math.comb(16, 8)),
)  # fmt: skip
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
    assert placed(cells, guest, CellLimits(16.0, 1.5)) == [0]
    assert placed(cells, guest, NEAR) == [1]


def test_a_guest_of_many_nodes_is_refused_without_trying_all_ways():
    devices = FakeDevices()
    devices.cell_class = lambda cell_id: cell_id % 3
    cells = free(*range(1, 17))
    assert placed(cells, wants(*range(9, 17)), devices=devices) is None
    assert len(devices.asked) < 50


SHARED = topologies.guest(topologies.guest_cell(shared={0}))
DEDICATED = topologies.guest(topologies.guest_cell(dedicated={0}))


def order(cells, guest=SHARED, devices=None, pack=False):
    return [cell.id for cell in ordered(hosts(*cells), guest, devices, pack)]


@cases('cells, guest, spread, packed',
    ('equal: as they are', [{}, {}, {}], SHARED, [0, 1, 2], [0, 1, 2]),
    ('by free memory', [{'memory_usage': 9}, {}, {'memory_usage': 5}], SHARED,
     [1, 2, 0], [0, 2, 1]),
    ('for shared CPUs, by their use before memory',
     [{'memory_usage': 9}, {'cpu_usage': 2}], SHARED, [0, 1], [1, 0]),
    ('their use is nothing to dedicated CPUs', [{'memory_usage': 9}, {'cpu_usage': 2}],
     DEDICATED, [1, 0], [0, 1]),
    ('for dedicated CPUs, by free ones before memory',
     [{'pinned_cpus': {1, 2}}, {'pinned_cpus': {1}, 'memory_usage': 9}], DEDICATED,
     [1, 0], [0, 1]),
)  # fmt: skip
def test_spread_and_packed(cells, guest, spread, packed):
    assert order(cells, guest) == spread
    assert order(cells, guest, pack=True) == packed


@pytest.mark.parametrize('pack', [False, True])
def test_devices_come_first_and_are_kept_for_those_that_ask_for_them(pack):
    devices = {1: 1, 2: 2}
    cells = [{}, {'cpu_usage': 1}, {'cpu_usage': 2}]
    asking = topologies.FakeDevices(devices)
    assert order(cells, devices=asking, pack=pack) == [2, 1, 0]
    other = topologies.FakeDevices(devices, wanted=False)
    assert order(cells, devices=other, pack=pack) == [0, 1, 2]


def test_where_all_nodes_are_needed_they_stay_as_they_are():
    assert order([{'memory_usage': 9}], devices=topologies.FakeDevices()) == [0]


FAST = Networks(frozenset({'fast'}))
CELLS = hosts({}, {'network_metadata': FAST}, {})


@cases('limits, devices, agreed',
    ('nothing to agree to', None, None, [True, True, True]),
    ('networks', NEAR, None, [False, True, False]),
    ('devices', None, FakeDevices(supported=[{2}]), [False, False, True]),
    ('no devices wanted', None, FakeDevices(wanted=False), [True, True, True]),
    ('both', NEAR, FakeDevices(supported=[{1}, {2}]), [False, True, False]),
)  # fmt: skip
def test_cells_must_suit_networks_and_devices(limits, devices, agreed):
    agrees = NumaAffinity(CELLS, limits, devices)
    assert [agrees([host]) for host in range(3)] == agreed


def test_devices_are_asked_once_for_the_same_nodes():
    devices = FakeDevices()
    agrees = NumaAffinity(CELLS, None, devices)
    assert [agrees([0, 1]), agrees([1, 0])] == [False, False]
    assert devices.asked == [{0, 1}]


@cases('limits, devices, kinds',
    ('all the same', None, None, [0, 0, 0]),
    ('by their networks', NEAR, None, [0, 1, 0]),
    ('by what devices see', None, FakeDevices(), [0, 1, 2]),
)  # fmt: skip
def test_kinds_of_nodes(limits, devices, kinds):
    assert NumaAffinity(CELLS, limits, devices).kinds() == kinds


A, B, AB = frozenset('a'), frozenset('b'), frozenset('ab')
TUNNEL = Networks(tunneled=True)


@cases('near, far, asked, missed',
    ('on the chosen node', Networks(A), None, Networks(A), ''),
    ('on another node', None, Networks(A), Networks(A), 'physical network a'),
    ('on no node', None, Networks(B), Networks(A), ''),
    ('on both', Networks(A), Networks(A), Networks(A), ''),
    ('one of two', Networks(A), Networks(B), Networks(AB), 'physical network b'),
    ('everything elsewhere', None, Networks(AB, True), Networks(AB, True),
     'physical network a and physical network b and tunnelled networks'),
    ('a tunnel on the chosen node', TUNNEL, None, TUNNEL, ''),
    ('a tunnel elsewhere', None, TUNNEL, TUNNEL, 'tunnelled networks'),
    ('tunnels on both', TUNNEL, TUNNEL, TUNNEL, ''),
    ('tunnels on no node', None, None, TUNNEL, ''),
    ('nothing asked for', None, TUNNEL, Networks(), ''),
)  # fmt: skip
def test_networks_of_other_cells_only_are_named(near, far, asked, missed):
    cells = [
        topologies.host_cell(id=0, network_metadata=near),
        topologies.host_cell(id=8, network_metadata=far),
    ]
    assert networks_elsewhere(cells, {0}, asked) == missed


def test_only_what_is_asked_for_is_seen():
    cell = topologies.host_cell(network_metadata=Networks(AB, True))
    assert network_class(cell, Networks(A)) == Networks(A, False)
    assert network_class(cell, TUNNEL) == TUNNEL


def test_the_positions_of_a_mask():
    assert list(bits(0b100101)) == [0, 2, 5]
    assert list(bits(0)) == []


@cases('able, free, most, answer',
    ('nothing to place', [], 0b11, [0], True),
    ('one makes room for the other', [0b11, 0b01], 0b11, [2], True),
    ('two want the same', [0b01, 0b01], 0b11, [2], False),
    ('too few are free', [0b11, 0b11], 0b01, [2], False),
    ('too many of one kind', [0b11, 0b11], 0b11, [1], False),
)  # fmt: skip
def test_guest_nodes_without_a_place(able, free, most, answer):
    assert completable(able, free, [0, 0], most) is answer


def test_it_answers_like_trying_everything():
    rng = random.Random(4)
    answers = set()
    for _ in range(2000):
        hosts, guests = rng.randint(1, 5), rng.randint(1, 4)
        kinds = [rng.randrange(3) for _ in range(hosts)]
        most = [rng.randrange(3) for _ in range(3)]
        able = [rng.getrandbits(hosts) | rng.getrandbits(hosts) for _ in range(guests)]
        free = rng.getrandbits(hosts) | rng.getrandbits(hosts)
        expected = any(
            all(able[g] & free & 1 << h for g, h in enumerate(chosen))
            and all(sum(kinds[h] == k for h in chosen) <= most[k] for k in range(3))
            for chosen in itertools.permutations(range(hosts), guests)
        )
        assert completable(able, free, kinds, most) is expected
        answers.add(expected)
    assert answers == {False, True}
