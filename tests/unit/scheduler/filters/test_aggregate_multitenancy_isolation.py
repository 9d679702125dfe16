# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for some projects."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.aggregate import (
    AggregateMultiTenancyIsolation,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.verdicts import assert_verdict

FILTER = AggregateMultiTenancyIsolation()


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


@pytest.mark.parametrize(
    ('metadata', 'expected'),
    [
        pytest.param([], True, id='in no aggregate'),
        pytest.param([{'x': 'y'}], True, id='for no project'),
        pytest.param([{'filter_tenant_id': 'p1'}], True, id='for the project'),
        pytest.param([{'filter_tenant_id': 'p2'}], False, id='for another'),
        pytest.param([{'filter_tenant_id': 'p2, p1'}], True, id='for two'),
        pytest.param([{'filter_tenant_id3': 'p1'}], True, id='a key with a number'),
        pytest.param([{'filter_tenant_idX': 'p9'}], False, id='a key with a letter'),
        pytest.param(
            [{'filter_tenant_id': 'p2', 'filter_tenant_id2': 'p1'}],
            True,
            id='two keys',
        ),
        pytest.param(
            [{'filter_tenant_id': 'p2'}, {'filter_tenant_id': 'p1'}],
            True,
            id='for one of two aggregates',
        ),
        pytest.param(
            [{'filter_tenant_id': 'p2'}, {'x': 'y'}],
            False,
            id='an aggregate for all does not help',
        ),
        pytest.param([{'filter_tenant_id': ''}], False, id='for nobody'),
    ],
)
def test_projects(metadata, expected):
    request = factories.request(project_id='p1')
    assert_verdict(FILTER, host_in(*metadata), request, expected)


def test_why():
    host = host_in({'filter_tenant_id': 'p3,p2'}).state(0)
    reason = FILTER.why(host, factories.request(project_id='p1'))
    text = 'aggregate agg0 is for projects p2, p3, not p1'
    assert reason == (Code.PROJECT_NOT_ALLOWED, text)
