# SPDX-License-Identifier: Apache-2.0
"""The version of the hypervisor, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import HypervisorVersionWeigher
from tests import factories

NAN = float('nan')


@pytest.mark.parametrize(
    ('versions', 'weights'),
    [
        pytest.param(
            [6002000, 7000000, NAN], [6002000 / 7000000, 1.0, 0.0], id='one is unknown'
        ),
        pytest.param(
            [6002000, 7000000, 6002001],
            [0.0, 1.0, 1 / 998000],
            id='close ones differ by little',
        ),
        pytest.param([8002002, 8002002], [0, 0], id='equal ones do not count'),
    ],
)
def test_weights(versions, weights):
    hosts = factories.hosts(hypervisor_version=versions)
    weighed = weigh([HypervisorVersionWeigher()], hosts, factories.request())
    assert weighed.totals.tolist() == weights
