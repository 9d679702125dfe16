# SPDX-License-Identifier: Apache-2.0
"""The number of instances, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import NumInstancesWeigher
from tests import factories


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            NumInstancesWeigher(0.0),
            {'num_instances': [1, 5, 3]},
            [0, 0, 0],
            id='instances do not count',
        ),
        pytest.param(
            NumInstancesWeigher(-1.0),
            {'num_instances': [1, 5, 3]},
            [0, -1.0, -0.5],
            id='fewer instances',
        ),
        pytest.param(
            NumInstancesWeigher(10.0),
            {'num_instances': [1, 5, 3]},
            [0, 10.0, 5.0],
            id='more instances',
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
