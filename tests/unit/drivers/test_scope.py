# SPDX-License-Identifier: Apache-2.0
"""Which hosts a request may get."""

from __future__ import annotations

import pytest

from novasched.drivers.scope import by_provider, target_cell
from novasched.objects.cell_mapping import CellMapping
from novasched.objects.request_spec import Destination
from novasched.ports import Candidates, Cell
from tests import factories
from tests.unit.fakes import VERSION, FakeView, candidate


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
