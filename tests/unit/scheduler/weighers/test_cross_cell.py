# SPDX-License-Identifier: Apache-2.0
"""Moves within the cell or to another, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.objects.request_spec import CellMapping, Destination
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import CrossCellWeigher
from tests import factories

A = 'a0000000-0000-4000-8000-000000000001'
B = 'b0000000-0000-4000-8000-000000000001'
CELL = CellMapping(uuid=A)


@pytest.mark.parametrize(
    ('destination', 'cells', 'weights'),
    [
        pytest.param(
            Destination(cell=CELL, allow_cross_cell_move=True),
            [A, B, A],
            [1000000.0, 0.0, 1000000.0],
            id='the cell is preferred',
        ),
        pytest.param(
            Destination(cell=CELL, allow_cross_cell_move=True),
            [A, A],
            [0, 0],
            id='all are in the cell',
        ),
        pytest.param(
            Destination(cell=CELL, allow_cross_cell_move=False),
            [A, B],
            [0, 0],
            id='it may not leave the cell',
        ),
        pytest.param(
            Destination(cell=None, allow_cross_cell_move=True),
            [A, B],
            [0, 0],
            id='no cell is named',
        ),
        pytest.param(
            Destination(host='h1', allow_cross_cell_move=True),
            [A, B],
            [0, 0],
            id='only a host is named',
        ),
        pytest.param(
            Destination(cell=CELL), [A, B], [0, 0], id='whether it may is not said'
        ),
        pytest.param(None, [A, B], [0, 0], id='no destination'),
    ],
)
def test_weights(destination, cells, weights):
    hosts = factories.hosts(cell_uuid=cells)
    request = factories.request(requested_destination=destination)
    assert weigh([CrossCellWeigher()], hosts, request).totals.tolist() == weights
