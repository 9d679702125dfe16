# SPDX-License-Identifier: Apache-2.0
"""Free disk, as final weights of the hosts."""

from __future__ import annotations

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import DiskWeigher
from tests import factories


@pytest.mark.parametrize(
    ('weigher', 'columns', 'weights'),
    [
        pytest.param(
            DiskWeigher(),
            {'free_disk_mb': [5120, 10240, -1024]},
            [0.5, 1.0, 0.0],
            id='disk',
        ),
    ],
)
def test_weights(weigher, columns, weights):
    hosts = factories.hosts(**columns)
    assert weigh([weigher], hosts, factories.request()).totals.tolist() == weights
