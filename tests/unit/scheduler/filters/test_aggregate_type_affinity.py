# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for some flavors."""

from __future__ import annotations

from novasched.scheduler.filters.aggregate import (
    AggregateTypeAffinityFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = AggregateTypeAffinityFilter()


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


@cases(
    'metadata, expected',
    ('in no aggregate', [], True),
    ('for the flavor', [{'instance_type': 'small'}], True),
    ('for two', [{'instance_type': 'tiny, small'}], True),
    ('for another', [{'instance_type': 'tiny'}], False),
    ('not by its start', [{'instance_type': 'smal'}], False),
    (
        'for one of two aggregates',
        [{'instance_type': 'tiny'}, {'instance_type': 'small'}],
        True,
    ),
    ('for none', [{'instance_type': ''}], False),
    ('another key', [{'flavor': 'tiny'}], True),
    (
        'an aggregate for all does not help',
        [{'instance_type': 'tiny'}, {'x': 'y'}],
        False,
    ),
)
def test_flavors(metadata, expected):
    assert_verdict(FILTER, host_in(*metadata), factories.request(), expected)


def test_why():
    host = host_in({'instance_type': 'tiny,large'}).state(0)
    reason = FILTER.why(host, factories.request())
    text = 'aggregate agg0 is for flavors large, tiny, not small'
    assert reason == (Code.FLAVOR_NOT_ALLOWED, text)
