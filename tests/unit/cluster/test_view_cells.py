# SPDX-License-Identifier: Apache-2.0
"""The view and its cells: those that hang, fail, come back or change."""

import time

import pytest

from novasched import errors
from novasched.cluster.cells import FAILURES, Cells
from novasched.cluster.view import ClusterView
from novasched.resources.request import Target
from tests.support.clouds.fakes import NOON, SECOND
from tests.support.databases.fake_databases import FakeCellStore, cell, instance, node
from tests.support.tables.cases import cases
from tests.unit.cluster.conftest import SHORT_S

DEADLINE_S = 30


def unavailable(cloud):
    return [cell.uuid for cell in cloud.view.cells.unavailable()]


def disable_b(cloud):
    cloud.api.found_cells = [cell('a'), cell('b', disabled=True)]
    cloud.view.check()


def test_a_cell_that_hangs_costs_one_bounded_wait_and_is_named(cloud, gate):
    cloud.hurry()
    cloud.b.on_call = lambda name: gate.wait(DEADLINE_S)
    started = time.monotonic()
    assert cloud.shown() == ['h1', 'h2']
    assert time.monotonic() - started < DEADLINE_S / 2
    assert unavailable(cloud) == ['b']
    assert cloud.view.unavailable_cells() == ('b',)
    assert cloud.view.unavailable_cells('a') == ()
    assert cloud.view.unavailable_cells('b') == ('b',)
    cloud.b.calls.clear()
    assert cloud.shown() == ['h1', 'h2']
    assert cloud.b.calls == []


def test_a_request_waits_longer_for_instances_that_it_cannot_do_without(cloud, gate):
    cells = Cells(cloud.stores, cloud.clock, SHORT_S, patience_s=DEADLINE_S)
    view = ClusterView(cloud.api, cells, cloud.clock)
    view.load()
    cloud.b.instances = [instance('x', 'h3')]

    def dawdle(name):
        if name == 'instances_on':
            gate.wait(SHORT_S * 4)

    cloud.b.on_call = dawdle
    found = view.hosts(None).instances.tolist()
    view.close()
    assert [set(of_host) for of_host in found] == [set(), set(), {'x'}]


def test_instances_and_versions_leave_no_cell_out(cloud):
    def refuse(name):
        if name in ('instances_on', 'minimum_compute_version'):
            raise errors.StoreFailed('a cell', 'refused')

    cloud.b.on_call = refuse
    for _ in range(FAILURES):
        assert cloud.shown() == ['h1', 'h2', 'h3']
        cloud.view.check()
        with pytest.raises(errors.StoreFailed):
            cloud.view.hosts(None).instances.tolist()
    assert unavailable(cloud) == []


def test_cells_that_hang_and_fail_leave_the_healthy_ones(cloud, gate):
    cloud.stores.stores['c'] = FakeCellStore()
    cloud.stores.stores['c'].add_host(5)
    cloud.api.found_cells.append(cell('c'))
    cloud.view.check()
    assert cloud.shown() == ['h1', 'h2', 'h3', 'h5']
    cloud.hurry()
    cloud.a.on_call = lambda name: gate.wait(DEADLINE_S)
    cloud.b.fail()
    assert cloud.shown() == ['h5']
    cloud.lose(cloud.b)
    assert sorted(unavailable(cloud)) == ['a', 'b']
    gate.set()
    cloud.a.mend()
    cloud.b.mend()
    cloud.retry()
    assert sorted(cloud.shown()) == ['h1', 'h2', 'h3', 'h5']
    assert unavailable(cloud) == []


def test_a_cell_that_comes_back_has_what_changed_meanwhile(cloud):
    cloud.lose(cloud.b)
    cloud.b.change(3, NOON - 3600 * SECOND, vcpus_used=5)
    cloud.b.add_host(4, updated_at=None)
    cloud.b.mend()
    cloud.retry()
    cloud.view.refresh()
    hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (3, 4)})
    assert hosts.vcpus_used.tolist() == [5, 1]


def test_a_cell_that_comes_back_is_not_shown_before_a_request_refreshed_it(cloud):
    cloud.lose(cloud.b)
    cloud.b.mend()
    cloud.retry()
    assert unavailable(cloud) == []
    assert sorted(cloud.view.hosts(None).host.tolist()) == ['h1', 'h2']
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_cell_that_fails_in_the_background_stays_for_requests_under_way(cloud):
    cloud.view.refresh()
    cloud.b.fail()
    for _ in range(FAILURES):
        cloud.view.reconcile()
    assert unavailable(cloud) == ['b']
    assert sorted(cloud.view.hosts(None).host.tolist()) == ['h1', 'h2', 'h3']
    assert cloud.shown() == ['h1', 'h2']


def test_a_cell_that_fails_at_the_start_is_shown_when_it_answers(new_cloud):
    cloud = new_cloud
    cloud.b.fail()
    cloud.view.load()
    assert cloud.shown() == ['h1', 'h2']
    cloud.b.mend()
    cloud.retry()
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_cell_that_hangs_at_the_start_is_not_waited_for_twice(new_cloud, gate):
    cloud = new_cloud
    cloud.hurry()
    cloud.b.on_call = lambda name: gate.wait(DEADLINE_S)
    started = time.monotonic()
    cloud.view.load()
    assert time.monotonic() - started < DEADLINE_S / 2
    assert unavailable(cloud) == ['b']
    assert cloud.b.calls == ['minimum_compute_version']
    assert cloud.shown() == ['h1', 'h2']
    gate.set()
    cloud.retry()
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_disabled_cell_that_hangs_is_waited_for_once(cloud, gate):
    disable_b(cloud)
    cloud.hurry(patience_s=SHORT_S)
    cloud.b.on_call = lambda name: gate.wait(DEADLINE_S)
    assert cloud.shown(of='b') == []
    cloud.b.calls.clear()
    assert cloud.shown(of='b') == []
    assert cloud.b.calls == []
    cloud.clock.advance(1)
    cloud.hurry()
    gate.set()
    assert cloud.shown(of='b') == ['h3']


def test_without_any_cell_there_are_no_hosts(new_cloud, caplog):
    cloud = new_cloud
    cloud.api.found_cells = []
    cloud.view.load()
    assert cloud.shown() == []
    assert cloud.shown({node(1).uuid: ['one']}) == []
    assert 'No cells were found' in caplog.text


@cases(
    'found, shown',
    ('a cell is gone', [cell('a')], ['h1', 'h2']),
    ('one is disabled', [cell('a'), cell('b', disabled=True)], ['h1', 'h2']),
    ('another order', [cell('b'), cell('a')], ['h1', 'h2', 'h3']),
)
def test_cells_may_change_at_any_time(cloud, found, shown):
    cloud.api.found_cells = found
    cloud.view.check()
    assert cloud.shown() == shown


def test_a_cell_that_moves_to_another_database_keeps_nothing_of_the_old(cloud):
    other = FakeCellStore()
    other.add_host(9)
    cloud.stores.stores['b'] = other
    cloud.api.found_cells = [cell('a'), cell('b', database_connection='sqlite://9')]
    cloud.view.check()
    assert cloud.shown() == ['h1', 'h2', 'h9']


@cases(
    'of, shown',
    ('an enabled cell', 'b', ['h3']),
    ('a disabled cell', 'd', ['h7']),
    ('an unknown cell', 'e', []),
)
def test_a_request_may_stay_in_one_cell(cloud, of, shown):
    for uuid, id_ in (('d', 7), ('e', 8)):
        cloud.stores.stores[uuid] = FakeCellStore()
        cloud.stores.stores[uuid].add_host(id_)
        cloud.stores.stores[uuid].instances = [instance('x', f'h{id_}')]
    cloud.api.found_cells.append(cell('d', disabled=True))
    cloud.view.check()
    assert cloud.shown(of=of) == shown
    assert len(cloud.view.hosts(None, of).instances.tolist()) == len(shown)
    assert cloud.shown() == ['h1', 'h2', 'h3']
    assert 'e' not in [opened.uuid for opened in cloud.stores.opened]


@cases('found', ('enabled', cell('e')), ('disabled', cell('e', disabled=True)))
def test_unannounced_cell_is_looked_up(cloud, found):
    cloud.stores.stores['e'] = FakeCellStore()
    cloud.stores.stores['e'].add_host(8)
    cloud.api.found_cells.append(found)
    assert cloud.shown(of='e') == ['h8']
    assert cloud.view.nodes_named('h8', None, 'e') == [('h8', 'n8', node(8).uuid)]
    assert {o for o in cloud.stores.opened if o.uuid == 'e'} == {found}


def test_a_disabled_cell_is_read_completely_once_in_a_while(cloud):
    disable_b(cloud)
    cloud.b.calls.clear()
    cloud.view.nodes_named('h3', None, 'b')
    cloud.view.hosts(None, 'b')
    assert cloud.b.calls.count('compute_nodes') == 1
    assert cloud.b.calls.count('news') == 1
    cloud.clock.advance(60)
    cloud.view.hosts(None, 'b')
    assert cloud.b.calls.count('compute_nodes') == 2


def test_a_disabled_cell_is_read_for_every_request_that_names_it(cloud):
    disable_b(cloud)
    assert cloud.shown(of='b') == ['h3']
    cloud.b.add_host(4, created_at=NOON)
    assert cloud.shown(of='b') == ['h3', 'h4']
    cloud.b.fail()
    assert cloud.shown(of='b') == []
    cloud.b.mend()
    assert cloud.shown(of='b') == ['h3', 'h4']


def test_a_node_of_two_cells_is_taken_from_the_one_that_counts(cloud):
    cloud.stores.stores['d'] = FakeCellStore()
    cloud.stores.stores['d'].add_host(7, uuid=node(1).uuid)
    cloud.api.found_cells.append(cell('d', disabled=True))
    cloud.view.check()
    assert cloud.shown(of='d') == ['h7']
    assert cloud.shown({node(1).uuid: ['one']}) == ['h1']
    assert cloud.shown({node(1).uuid: ['one']}, 'd') == ['h7']


def test_a_disabled_cell_is_not_missed(cloud):
    disable_b(cloud)
    cloud.b.fail()
    assert cloud.shown() == ['h1', 'h2']
    assert cloud.view.unavailable_cells() == ()


def test_a_cell_without_a_name_is_called_by_its_uuid(cloud):
    cloud.api.found_cells = [cell('a'), cell('b', name=None)]
    cloud.view.check()
    cloud.lose(cloud.b)
    assert cloud.view.unavailable_cells() == ('b',)


H3, H9 = Target('H3', None), Target('h9', None)
OF_A, OF_B, OF_NONE = ({node(n).uuid} for n in (1, 3, 9))


@cases(
    'target, offered, missed',
    ('all hosts', None, None, ('b',)),
    ('a host of it', H3, None, ('b',)),
    ('a host of another', Target('h1', None), None, ()),
    ('a host of none', H9, None, ()),
    ('a node of it', Target(None, 'n3'), None, ('b',)),
    ('a host of it, for which there is no room', H3, set(), ()),
    ('an offer of it', None, OF_A | OF_B, ('b',)),
    ('an offer of another', None, OF_A, ()),
    ('an offer of none', None, OF_NONE, ()),
    ('no offer', None, set(), ()),
)
def test_a_cell_is_missed_by_those_who_may_use_its_hosts(
    cloud, target, offered, missed
):
    cloud.lose(cloud.b)
    assert cloud.view.unavailable_cells(None, target, offered) == missed


def test_a_cell_that_was_never_read_may_have_any_host(cloud):
    cloud.api.found_cells.append(cell('c'))
    cloud.view.check()
    assert cloud.view.unavailable_cells(None, H9) == ('c',)
    assert cloud.view.unavailable_cells(None, None, OF_NONE) == ('c',)
    assert cloud.view.unavailable_cells(None, H9, set()) == ()
