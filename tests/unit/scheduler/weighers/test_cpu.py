# SPDX-License-Identifier: Apache-2.0
"""Free virtual CPUs, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import CPUWeigher
from tests import factories


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
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights


def test_a_host_that_never_reported_fails_the_request():
    hosts = factories.hosts(cpu_allocation_ratio=[float('nan'), 4.0])
    with pytest.raises(errors.ExtensionFailed, match='CPUWeigher'):
        weigh([CPUWeigher()], hosts, factories.request())
