# SPDX-License-Identifier: Apache-2.0
"""Free virtual CPUs, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.cpu import CPUWeigher
from tests import factories

NAN = float('nan')


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            CPUWeigher(),
            {
                'vcpus_total': [8, 4, 16],
                'cpu_allocation_ratio': [16, 16, 1],
                'vcpus_used': [0, 10, 20],
            },
            [1.0, 0.421875, 0.0],
            id='CPUs',
        ),
        pytest.param(
            CPUWeigher(),
            {
                'vcpus_total': [8, 8],
                'cpu_allocation_ratio': [1, 1],
                'vcpus_used': [8, 8],
            },
            [0, 0],
            id='no CPUs',
        ),
        pytest.param(
            CPUWeigher(),
            {
                'vcpus_total': [0, 8],
                'cpu_allocation_ratio': [NAN, 4.0],
                'vcpus_used': [0, 0],
            },
            [0.0, 1.0],
            id='CPUs of a host that never reported',
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
