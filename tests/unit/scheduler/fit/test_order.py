# SPDX-License-Identifier: Apache-2.0
"""In which order the nodes of a host are tried."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.order import ordered
from tests import topologies

SHARED = topologies.guest(topologies.guest_cell(shared={0}))
DEDICATED = topologies.guest(topologies.guest_cell(dedicated={0}))


def order(cells, guest=SHARED, devices=None, pack=False):
    cells = [topologies.host_cell(id=n, **cell) for n, cell in enumerate(cells)]
    return [cell.id for cell in ordered(cells, guest, devices, pack)]


@pytest.mark.parametrize(('cells', 'guest', 'spread', 'packed'), [
    pytest.param([{}, {}, {}], SHARED, [0, 1, 2], [0, 1, 2], id='equal: as they are'),
    pytest.param(
        [{'memory_usage': 9}, {}, {'memory_usage': 5}], SHARED, [1, 2, 0], [0, 2, 1],
        id='by free memory',
    ),
    pytest.param(
        [{'memory_usage': 9}, {'cpu_usage': 2}], SHARED, [0, 1], [1, 0],
        id='for shared CPUs, by their use before memory',
    ),
    pytest.param(
        [{'memory_usage': 9}, {'cpu_usage': 2}], DEDICATED, [1, 0], [0, 1],
        id='their use is nothing to dedicated CPUs',
    ),
    pytest.param(
        [{'pinned_cpus': {1, 2}}, {'pinned_cpus': {1}, 'memory_usage': 9}], DEDICATED,
        [1, 0], [0, 1], id='for dedicated CPUs, by free ones before memory',
    ),
])  # fmt: skip
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
