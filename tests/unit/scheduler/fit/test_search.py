# SPDX-License-Identifier: Apache-2.0
"""Search for host cells: order, affinity of devices and networks, matching."""

import itertools
import math
import random

from novasched.scheduler.fit.search import (
    NumaAffinity,
    completable,
    fit_each,
    network_class,
    networks_elsewhere,
    ordered,
)
from novasched.scheduler.fit.topology import (
    CellLimits,
    GuestCell,
    Networks,
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


def test_a_guest_of_many_nodes_is_refused_without_trying_all_ways():
    devices = FakeDevices()
    devices.cell_class = lambda cell_id: cell_id % 3
    cells = free(*range(1, 17))
    assert placed(cells, wants(*range(9, 17)), devices=devices) is None
    assert len(devices.asked) < 50


SHARED = topologies.guest(topologies.guest_cell(shared={0}))


def order(cells, guest=SHARED, devices=None, pack=False):
    return [cell.id for cell in ordered(hosts(*cells), guest, devices, pack)]


FAST = Networks(frozenset({'fast'}))
CELLS = hosts({}, {'network_metadata': FAST}, {})


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
