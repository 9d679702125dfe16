# SPDX-License-Identifier: Apache-2.0
"""Free RAM, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import RAMWeigher
from tests import factories


def override(*values):
    return tuple(
        factories.aggregate(number, ram_weight_multiplier=value)
        for number, value in enumerate(values)
    )


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            RAMWeigher(),
            {'free_ram_mb': [512, 1024, 3072, 8192]},
            [0.0625, 0.125, 0.375, 1.0],
            id='RAM',
        ),
        pytest.param(
            RAMWeigher(), {'free_ram_mb': [-512, 0, 1024]}, [0, 0, 1], id='RAM below 0'
        ),
        pytest.param(
            RAMWeigher(), {'free_ram_mb': [1024, 1024]}, [1, 1], id='equal RAM'
        ),
        pytest.param(RAMWeigher(), {'free_ram_mb': [-5, -1]}, [0, 0], id='no RAM'),
        pytest.param(
            RAMWeigher(-1.0),
            {'free_ram_mb': [512, 1024, 3072, 8192]},
            [-0.0625, -0.125, -0.375, -1.0],
            id='RAM stacks',
        ),
        pytest.param(
            RAMWeigher(),
            {
                'free_ram_mb': [512, 1024, 3072, 8192],
                'aggregates': [
                    (),
                    (),
                    (),
                    override('0.5', '2'),
                ],
            },
            [0.0625, 0.125, 0.375, 0.5],
            id='RAM, lowest of two aggregates',
        ),
        pytest.param(
            RAMWeigher(),
            {
                'free_ram_mb': [512, 1024, 3072, 8192],
                'aggregates': [override('100'), (), (), ()],
            },
            [6.25, 0.125, 0.375, 1.0],
            id='RAM, one aggregate outranks all',
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
