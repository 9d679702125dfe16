# SPDX-License-Identifier: Apache-2.0
"""Which hosts a request may get."""

from __future__ import annotations

import pytest

from novasched.drivers.target_cell import (
    FORGET_AFTER_S,
    KnownRoots,
    by_provider,
    cells_left_out,
    target_cell,
)
from novasched.objects.cell_mapping import CellMapping
from novasched.objects.request_spec import Destination
from novasched.ports import Candidates, Cell
from tests import factories
from tests.unit.fakes import VERSION, FakeClock, FakeView, candidate


def test_candidates_are_filed_under_each_provider_in_order():
    first, second = candidate('root', 'child'), candidate('root')
    answer = Candidates((first, second), VERSION)
    assert by_provider(answer) == {'root': [first, second], 'child': [first]}


CELL = Cell('known', 'one', 'rabbit://one', 'sqlite://one', False)


@pytest.mark.parametrize(
    ('uuid', 'across', 'expected'),
    [
        pytest.param('known', False, CELL, id='a cell that is known'),
        pytest.param('known', True, None, id='a move that may leave the cell'),
        pytest.param(
            'new',
            False,
            Cell('new', 'cell', 'rabbit://', 'sqlite://', True),
            id='a cell too new to be known',
        ),
    ],
)
def test_the_cell_that_a_request_must_stay_in(uuid, across, expected):
    mapping = CellMapping(
        uuid=uuid,
        name='cell',
        transport_url='rabbit://',
        database_connection='sqlite://',
    )
    request = factories.request(
        requested_destination=Destination(cell=mapping, allow_cross_cell_move=across)
    )
    view = FakeView(factories.hosts(), cells={'known': CELL})
    assert target_cell(view, request) == expected


def root_of(**roots):
    return {uuid: {'root_provider_uuid': root} for uuid, root in roots.items()}


SUMMARIES = root_of(root='root', child='root', other='root', shared='shared')


@pytest.mark.parametrize(
    ('providers', 'nodes', 'filed'),
    [
        pytest.param(['child'], {'root'}, ['child', 'root'], id='a child alone'),
        pytest.param(
            ['child', 'shared'],
            {'root'},
            ['child', 'shared', 'root'],
            id='a child and shared storage',
        ),
        pytest.param(
            ['child', 'other'], {'root'}, ['child', 'other', 'root'], id='two children'
        ),
        pytest.param(['child', 'root'], {'root'}, ['child', 'root'], id='the node too'),
        pytest.param(['child'], (), ['child', 'root'], id='no node is known'),
        pytest.param(['stranger'], (), ['stranger'], id='a provider without summary'),
    ],
)
def test_candidates_that_take_from_no_node_are_filed_under_the_root(
    providers, nodes, filed
):
    one = candidate(*providers)
    found = by_provider(Candidates((one,), VERSION, SUMMARIES), nodes)
    assert found == {uuid: [one] for uuid in filed}


def test_summaries_without_roots_are_those_of_an_old_placement():
    one = candidate('child')
    answer = Candidates((one,), VERSION, {'child': {}})
    assert by_provider(answer) == {'child': [one]}


class Watched(dict):
    """Summaries that count how often somebody looks at them."""

    looks = 0

    def __getitem__(self, uuid):
        self.looks += 1
        return super().__getitem__(uuid)


def test_a_root_that_is_no_node_is_looked_up_once():
    known = KnownRoots()
    orphan, child = candidate('orphan'), candidate('child', 'orphan')
    for looks in (1, 0):
        answer = Candidates((orphan,), VERSION, Watched(root_of(orphan='orphan')))
        assert by_provider(answer, {'root'}, known.uuids()) == {'orphan': [orphan]}
        assert answer.summaries.looks == looks
    summaries = root_of(orphan='orphan', child='root')
    found = by_provider(
        Candidates((child,), VERSION, summaries), {'root'}, known.uuids()
    )
    assert found == {'child': [child], 'orphan': [child], 'root': [child]}
    assert known.uuids() == {'orphan'}


def test_a_root_is_looked_up_again_for_it_may_get_a_parent():
    clock = FakeClock()
    known = KnownRoots(clock.monotonic)
    known.uuids().add('orphan')
    clock.go_on(FORGET_AFTER_S - 1)
    assert known.uuids() == {'orphan'}
    clock.go_on(1)
    assert known.uuids() == set()


@pytest.mark.parametrize(
    ('wanted', 'silent', 'left_out'),
    [
        pytest.param(None, '', (), id='all answer'),
        pytest.param(None, 'abc', ('east', 'b'), id='a disabled cell is not missed'),
        pytest.param('a', 'ab', ('east',), id='the request wants one of them'),
        pytest.param('d', 'ab', (), id='the request wants another'),
    ],
)
def test_the_cells_left_out_have_names(wanted, silent, left_out):
    names = {'a': 'east', 'b': None, 'c': 'off', 'd': 'west'}
    cells = {u: Cell(u, name, None, None, u == 'c') for u, name in names.items()}
    view = FakeView(factories.hosts(), cells)
    view.silent = set(silent)
    mapping = CellMapping(uuid=wanted, name=None) if wanted else None
    destination = Destination(cell=mapping, allow_cross_cell_move=False)
    request = factories.request(requested_destination=destination)
    assert cells_left_out(view, request) == left_out
