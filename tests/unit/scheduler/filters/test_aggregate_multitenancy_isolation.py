# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for some projects."""

from __future__ import annotations

from novasched.scheduler.filters.aggregate import (
    AggregateMultiTenancyIsolation,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = AggregateMultiTenancyIsolation()


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


@cases(
    'metadata, expected',
    ('in no aggregate', [], True),
    ('for no project', [{'x': 'y'}], True),
    ('for the project', [{'filter_tenant_id': 'p1'}], True),
    ('for another', [{'filter_tenant_id': 'p2'}], False),
    ('for two', [{'filter_tenant_id': 'p2, p1'}], True),
    ('a key with a number', [{'filter_tenant_id3': 'p1'}], True),
    ('a key with a letter', [{'filter_tenant_idX': 'p9'}], False),
    ('two keys', [{'filter_tenant_id': 'p2', 'filter_tenant_id2': 'p1'}], True),
    (
        'for one of two aggregates',
        [{'filter_tenant_id': 'p2'}, {'filter_tenant_id': 'p1'}],
        True,
    ),
    (
        'an aggregate for all does not help',
        [{'filter_tenant_id': 'p2'}, {'x': 'y'}],
        False,
    ),
    ('for nobody', [{'filter_tenant_id': ''}], False),
)
def test_projects(metadata, expected):
    request = factories.request(project_id='p1')
    assert_verdict(FILTER, host_in(*metadata), request, expected)


def test_why():
    host = host_in({'filter_tenant_id': 'p3,p2'}).state(0)
    reason = FILTER.why(host, factories.request(project_id='p1'))
    text = 'aggregate agg0 is for projects p2, p3, not p1'
    assert reason == (Code.PROJECT_NOT_ALLOWED, text)
