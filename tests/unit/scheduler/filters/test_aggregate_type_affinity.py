# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for some flavors."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.aggregate import (
    AggregateTypeAffinityFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.verdicts import assert_verdict

FILTER = AggregateTypeAffinityFilter()


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


@pytest.mark.parametrize(
    ('metadata', 'expected'),
    [
        pytest.param([], True, id='in no aggregate'),
        pytest.param([{'instance_type': 'small'}], True, id='for the flavor'),
        pytest.param([{'instance_type': 'tiny, small'}], True, id='for two'),
        pytest.param([{'instance_type': 'tiny'}], False, id='for another'),
        pytest.param([{'instance_type': 'smal'}], False, id='not by its start'),
        pytest.param(
            [{'instance_type': 'tiny'}, {'instance_type': 'small'}],
            True,
            id='for one of two aggregates',
        ),
        pytest.param([{'instance_type': ''}], False, id='for none'),
        pytest.param([{'flavor': 'tiny'}], True, id='another key'),
        pytest.param(
            [{'instance_type': 'tiny'}, {'x': 'y'}],
            False,
            id='an aggregate for all does not help',
        ),
    ],
)
def test_flavors(metadata, expected):
    assert_verdict(FILTER, host_in(*metadata), factories.request(), expected)


def test_why():
    host = host_in({'instance_type': 'tiny,large'}).state(0)
    reason = FILTER.why(host, factories.request())
    text = 'aggregate agg0 is for flavors large, tiny, not small'
    assert reason == (Code.FLAVOR_NOT_ALLOWED, text)
