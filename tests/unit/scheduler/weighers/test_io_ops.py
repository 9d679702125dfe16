# SPDX-License-Identifier: Apache-2.0
"""Heavy tasks under way, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import IoOpsWeigher
from tests import factories


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            IoOpsWeigher(-1.0),
            {'num_io_ops': [1, 2, 0, 4]},
            [-0.25, -0.5, 0, -1.0],
            id='I/O',
        ),
        pytest.param(
            IoOpsWeigher(-1.0), {'num_io_ops': [3, 3]}, [-1.0, -1.0], id='equal I/O'
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
