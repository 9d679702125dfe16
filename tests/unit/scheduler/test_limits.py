# SPDX-License-Identifier: Apache-2.0
"""The lowest limit that aggregates set."""

from __future__ import annotations

import pytest

from novasched.scheduler.limits import lowest
from tests import factories


@pytest.mark.parametrize(
    ('values', 'limit'),
    [
        pytest.param([], 8, id='none'),
        pytest.param(['4'], 4, id='one'),
        pytest.param(['10', '9'], 9, id='the lowest number, not the first text'),
        pytest.param([' 10 '], 10, id='blanks'),
        pytest.param(['few'], 8, id='no number'),
        pytest.param(['8.5'], 8, id='no whole number'),
        pytest.param(['4', ''], 8, id='one of two is no number'),
        pytest.param(['-3'], -3, id='below zero'),
        pytest.param(['1' + '0' * 30], 2**63 - 1, id='larger than a column holds'),
        pytest.param(['-1' + '0' * 30], 1 - 2**63, id='smaller than a column holds'),
    ],
)
def test_lowest(values, limit):
    aggregates = [factories.aggregate(n, most=v) for n, v in enumerate(values)]
    aggregates.append(factories.aggregate(9, other='1'))
    assert lowest(tuple(aggregates), 'most', 8) == limit
