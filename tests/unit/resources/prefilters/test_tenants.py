# SPDX-License-Identifier: Apache-2.0
"""Which aggregates are kept for a tenant."""

from __future__ import annotations

import pytest

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.resources.prefilters.tenants import require_tenant_aggregate
from novasched.scheduler.aggregates import Aggregate
from tests import factories


def facts(*metadata):
    return Facts(
        tuple(
            Aggregate(n, f'A{n}', 'name', metadata=one)
            for n, one in enumerate(metadata, 1)
        )
    )


@pytest.mark.parametrize(
    ('metadata', 'names'),
    [
        pytest.param({'filter_tenant_id': 'project'}, True, id='the key'),
        pytest.param({'filter_tenant_id3': 'project'}, True, id='the key and a number'),
        pytest.param({'filter_tenant_id:7': 'project'}, True, id='the key and more'),
        pytest.param({'filter_tenant_id': 'p', 'filter_tenant_id2': 'project'}, True),
        pytest.param({'filter_tenant_id': 'project,other'}, False, id='a list'),
        pytest.param({'tenant': 'project'}, False, id='another key'),
        pytest.param({'x_filter_tenant_id': 'project'}, False, id='more before it'),
        pytest.param({'filter_tenant_id': 'other'}, False, id='another tenant'),
    ],
)
def test_aggregates_that_name_the_tenant(metadata, names):
    added = require_tenant_aggregate(factories.request(), facts(metadata))
    assert (added is not None) == names


def test_one_of_the_aggregates_must_hold():
    known = facts({'filter_tenant_id': 'project'}, {}, {'filter_tenant_id': 'project'})
    assert require_tenant_aggregate(factories.request(), known) == Requirements(
        member_of=(frozenset({'A1', 'A3'}),),
        notes=(
            'require_tenant_aggregate request filter added aggregates A1,A3 for '
            "tenant 'project'",
        ),
    )


def test_a_request_of_no_tenant_is_named_by_none():
    known = facts({'filter_tenant_id': 'project'})
    assert require_tenant_aggregate(RequestSpec(), known) is None


def test_a_tenant_that_none_names_may_be_refused():
    request = factories.request(project_id='lost')
    assert require_tenant_aggregate(request, facts({})) is None
    assert require_tenant_aggregate(request, facts({}), strict=True) == Requirements(
        warnings=('Tenant lost has no available aggregates',),
        refused='No hosts available for tenant',
    )
