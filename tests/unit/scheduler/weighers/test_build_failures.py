# SPDX-License-Identifier: Apache-2.0
"""Failed builds, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import BuildFailureWeigher
from tests import factories

REWARD = (factories.aggregate(1, build_failure_weight_multiplier='-5'),)


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            BuildFailureWeigher(),
            {'failed_builds': [1, 0, 4]},
            [-250000, 0, -1000000],
            id='the default',
        ),
        pytest.param(
            BuildFailureWeigher(), {'failed_builds': [2, 2]}, [0, 0], id='equally many'
        ),
        pytest.param(
            BuildFailureWeigher(0.0),
            {'failed_builds': [1, 0, 4]},
            [0, 0, 0],
            id='they do not count',
        ),
        pytest.param(
            BuildFailureWeigher(),
            {'failed_builds': [1, 0, 4], 'aggregates': [(), (), REWARD]},
            [-250000, 0, 5],
            id='an aggregate rewards them',
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
