# SPDX-License-Identifier: Apache-2.0
"""The view and its cells: those that hang, fail, come back or change."""

from __future__ import annotations

import time

import pytest

from novasched.ports import Cell
from tests.unit.cluster.fakes import (
    NOON,
    SECOND,
    FakeCellStore,
    cell,
    instance,
    node,
)

DEADLINE_S = 30


def left_out(cloud):
    return [cell.uuid for cell in cloud.view.cells.left_out()]


def test_a_cell_that_hangs_costs_one_bounded_wait_and_is_named(cloud, gate):
    cloud.b.on_call = lambda name: gate.wait(DEADLINE_S)
    started = time.monotonic()
    assert cloud.shown() == ['h1', 'h2']
    assert time.monotonic() - started < DEADLINE_S / 2
    assert left_out(cloud) == ['b']
    cloud.b.calls.clear()
    assert cloud.shown() == ['h1', 'h2']
    assert cloud.b.calls == []


def test_cells_that_hang_and_fail_leave_the_healthy_ones(cloud, gate):
    cloud.stores.stores['c'] = FakeCellStore()
    cloud.stores.stores['c'].add_host(5)
    cloud.api.found_cells.append(cell('c'))
    cloud.view.check()
    assert cloud.shown() == ['h1', 'h2', 'h3', 'h5']
    cloud.a.on_call = lambda name: gate.wait(DEADLINE_S)
    cloud.b.fail()
    assert cloud.shown() == ['h5']
    assert sorted(left_out(cloud)) == ['a', 'b']
    gate.set()
    cloud.a.mend()
    cloud.b.mend()
    cloud.retry()
    assert sorted(cloud.shown()) == ['h1', 'h2', 'h3', 'h5']
    assert left_out(cloud) == []


def test_a_cell_that_comes_back_has_what_changed_meanwhile(cloud):
    cloud.b.fail()
    cloud.shown()
    cloud.b.change(3, NOON - 3600 * SECOND, vcpus_used=5)
    cloud.b.add_host(4, updated_at=None)
    cloud.b.mend()
    cloud.retry()
    cloud.view.refresh()
    hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (3, 4)})
    assert hosts.vcpus_used.tolist() == [5, 1]


def test_a_cell_that_comes_back_is_not_shown_before_a_request_refreshed_it(cloud):
    cloud.b.fail()
    cloud.view.refresh()
    cloud.b.mend()
    cloud.retry()
    assert left_out(cloud) == []
    assert sorted(cloud.view.hosts(None).host.tolist()) == ['h1', 'h2']
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_cell_that_fails_in_the_background_stays_for_requests_under_way(cloud):
    cloud.view.refresh()
    cloud.b.fail()
    cloud.view.reconcile()
    assert left_out(cloud) == ['b']
    assert sorted(cloud.view.hosts(None).host.tolist()) == ['h1', 'h2', 'h3']
    assert cloud.shown() == ['h1', 'h2']


def test_a_cell_that_still_fails_is_tried_again_later(cloud):
    cloud.b.fail()
    cloud.view.refresh()
    for _ in range(3):
        cloud.retry()
        assert left_out(cloud) == ['b']
    cloud.b.mend()
    cloud.retry()
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_cell_that_fails_at_the_start_is_left_out_until_it_answers(new_cloud):
    cloud = new_cloud
    cloud.b.fail()
    cloud.view.load()
    assert cloud.shown() == ['h1', 'h2']
    cloud.b.mend()
    cloud.retry()
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_without_any_cell_there_are_no_hosts(new_cloud, caplog):
    cloud = new_cloud
    cloud.api.found_cells = []
    cloud.view.load()
    assert cloud.shown() == []
    assert cloud.shown({node(1).uuid: ['one']}) == []
    assert 'No cells were found' in caplog.text


@pytest.mark.parametrize(
    ('found', 'shown'),
    [
        pytest.param([cell('a')], ['h1', 'h2'], id='a cell is gone'),
        pytest.param(
            [cell('a'), cell('b', disabled=True)], ['h1', 'h2'], id='one is disabled'
        ),
        pytest.param([cell('b'), cell('a')], ['h1', 'h2', 'h3'], id='another order'),
    ],
)
def test_cells_may_change_at_any_time(cloud, found, shown):
    cloud.api.found_cells = found
    cloud.view.check()
    assert cloud.shown() == shown


def test_a_disabled_cell_may_be_enabled(cloud):
    cloud.api.found_cells = [cell('a'), cell('b', disabled=True)]
    cloud.view.check()
    cloud.b.add_host(4, updated_at=None)
    cloud.api.found_cells = [cell('a'), cell('b')]
    cloud.view.check()
    assert cloud.shown() == ['h1', 'h2', 'h3', 'h4']


def test_a_cell_that_moves_to_another_database_keeps_nothing_of_the_old(cloud):
    other = FakeCellStore()
    other.add_host(9)
    cloud.stores.stores['b'] = other
    cloud.api.found_cells = [cell('a'), cell('b', database_connection='sqlite://9')]
    cloud.view.check()
    assert cloud.shown() == ['h1', 'h2', 'h9']


@pytest.mark.parametrize(
    ('of', 'shown'),
    [
        pytest.param(cell('b'), ['h3'], id='an enabled cell'),
        pytest.param(cell('d'), ['h7'], id='a disabled cell'),
        pytest.param(Cell('e', 'e', None, None, True), ['h8'], id='an unknown cell'),
    ],
)
def test_a_request_may_stay_in_one_cell(cloud, of, shown):
    for uuid, id_ in (('d', 7), ('e', 8)):
        cloud.stores.stores[uuid] = FakeCellStore()
        cloud.stores.stores[uuid].add_host(id_)
        cloud.stores.stores[uuid].instances = [instance('x', f'h{id_}')]
    cloud.api.found_cells.append(cell('d', disabled=True))
    cloud.view.check()
    assert cloud.shown(of=of) == shown
    assert len(cloud.view.hosts(None, of).instances.tolist()) == 1
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_disabled_cell_is_read_for_every_request_that_names_it(cloud):
    of = cell('b', disabled=True)
    cloud.api.found_cells = [cell('a'), of]
    cloud.view.check()
    assert cloud.shown(of=of) == ['h3']
    cloud.b.add_host(4, updated_at=None)
    assert cloud.shown(of=of) == ['h3', 'h4']
    cloud.b.fail()
    assert cloud.shown(of=of) == []
    cloud.b.mend()
    assert cloud.shown(of=of) == ['h3', 'h4']


def test_a_node_of_two_cells_is_taken_from_the_one_that_counts(cloud):
    twin = cell('d', disabled=True)
    cloud.stores.stores['d'] = FakeCellStore()
    cloud.stores.stores['d'].add_host(7, uuid=node(1).uuid)
    cloud.api.found_cells.append(twin)
    cloud.view.check()
    assert cloud.shown(of=twin) == ['h7']
    assert cloud.shown({node(1).uuid: ['one']}) == ['h1']
    assert cloud.shown({node(1).uuid: ['one']}, twin) == ['h7']
