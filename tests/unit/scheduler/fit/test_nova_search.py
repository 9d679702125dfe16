# SPDX-License-Identifier: Apache-2.0
"""Nova's search, with what it remembers and changes."""

import itertools
import math

import pytest

from novasched.scheduler.fit.nova_search import fit_as_nova, following
from novasched.scheduler.fit.topology import SMALL
from tests.support.clouds import topologies
from tests.support.clouds.topologies import hosts
from tests.support.tables.cases import cases


def shares(*counts, **given):
    return topologies.guest(
        *(
            topologies.guest_cell(n, shared=range(count), **given)
            for n, count in enumerate(counts)
        )
    )


def cpus(count):
    return {'cpuset': set(range(count))}


def test_refusals_that_repeat_are_left_out():
    cells = hosts(*[cpus(4)] * 16)
    attempt = fit_as_nova(cells, shares(5, *[4] * 7), None, None, False)
    assert not attempt.fits


@pytest.mark.parametrize(('count', 'length'), [(4, 1), (4, 2), (4, 4), (5, 3)])
def test_choices_follow_each_other_like_permutations(count, length):
    chosen, found = list(range(length)), []
    while chosen is not None:
        found.append(tuple(chosen))
        chosen = following(chosen, length - 1, count)
    assert found == list(itertools.permutations(range(count), length))


def test_choices_with_the_same_beginning_are_passed_over():
    assert following([0, 1, 2], 1, 4) == [0, 2, 1]
    assert following([0, 3, 1], 1, 4) == [1, 0, 2]
    assert following([3, 0, 1], 0, 4) is None


@pytest.mark.parametrize('supported', [[], [{2, 4, 5}], [{3, 4, 5}]])
def test_a_search_that_is_cut_short_ends_as_it_would(supported):
    cells = hosts(*[cpus(4)] * 6)
    ends = [
        fit_as_nova(
            cells,
            shares(4, 4, 4, pagesize=SMALL),
            None,
            topologies.FakeDevices(supported=supported),
            False,
            patience,
        )
        for patience in (3, 10**6)
    ]
    assert ends[0] == ends[1]
    assert ends[0].fits == bool(supported)


@cases('node',
    ('every node will do', {}),
    ('one is too small', cpus(1)),
)  # fmt: skip
def test_sets_of_nodes_that_devices_refuse_are_asked_once(node):
    devices = topologies.FakeDevices()
    cells = hosts(node, *[{}] * 11)
    attempt = fit_as_nova(cells, shares(*[2] * 6), None, devices, False)
    assert not attempt.fits
    assert len(devices.asked) == math.comb(12, 6)


def test_a_search_with_an_open_end_goes_on():
    devices = topologies.FakeDevices(supported=[{2, 3}])
    cells = hosts(cpus(1), {}, {}, {})
    attempt = fit_as_nova(cells, shares(2, 2), None, devices, False, patience=2)
    assert [cell.id for cell in attempt.guest.cells] == [2, 3]
    assert attempt.fits


def test_dedicated_cpus_come_from_the_chosen_cells():
    nodes = [topologies.guest_cell(n, dedicated={n}) for n in range(2)]
    cells = [topologies.host_cell(n, cores=((n,),)) for n in range(4)]
    devices = topologies.FakeDevices(supported=[{2, 3}])
    guest = topologies.guest(*nodes)
    attempt = fit_as_nova(cells, guest, None, devices, False, patience=3)
    assert [cell.pinning for cell in attempt.guest.cells] == [((0, 2),), ((1, 3),)]
