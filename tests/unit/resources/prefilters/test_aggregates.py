# SPDX-License-Identifier: Apache-2.0
"""Prefilters by host aggregate."""

import pytest

from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.aggregates import (
    isolate_aggregates,
    map_az_to_placement_aggregate,
    require_tenant_aggregate,
)
from novasched.resources.requirements import PrefilterContext, Requirements
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.tables.cases import cases


def spec(extra_specs=None, **fields):
    return RequestSpec(flavor=Flavor(extra_specs=extra_specs or {}), **fields)


def zone(number, name):
    metadata = {} if name is None else {'availability_zone': name}
    return Aggregate(number, f'A{number}', 'name', metadata=metadata)


ZONES = PrefilterContext(
    (zone(1, 'az1'), zone(2, 'az2'), zone(3, 'az1'), zone(4, None))
)


@cases('name', ('none', None), ('an empty one', ''), ('one without aggregates', 'nova'))
def test_zones_that_restrict_nothing(name):
    assert map_az_to_placement_aggregate(spec(availability_zone=name), ZONES) is None


def test_an_unset_zone_restricts_nothing():
    assert map_az_to_placement_aggregate(spec(), ZONES) is None


def test_a_zone_is_one_of_its_aggregates():
    added = map_az_to_placement_aggregate(spec(availability_zone='az1'), ZONES)
    assert added == Requirements(
        member_of=(frozenset({'A1', 'A3'}),),
        notes=(
            'map_az_to_placement_aggregate request filter added aggregates A1,A3 '
            "for az 'az1'",
        ),
    )


def tenant_aggregates(*metadata):
    return PrefilterContext(
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
    added = require_tenant_aggregate(factories.request(), tenant_aggregates(metadata))
    assert (added is not None) == names


def test_one_of_the_aggregates_must_hold():
    known = tenant_aggregates(
        {'filter_tenant_id': 'project'}, {}, {'filter_tenant_id': 'project'}
    )
    assert require_tenant_aggregate(factories.request(), known) == Requirements(
        member_of=(frozenset({'A1', 'A3'}),),
        notes=(
            'require_tenant_aggregate request filter added aggregates A1,A3 for '
            "tenant 'project'",
        ),
    )


def test_a_request_of_no_tenant_is_named_by_none():
    known = tenant_aggregates({'filter_tenant_id': 'project'})
    assert require_tenant_aggregate(RequestSpec(), known) is None


def test_a_tenant_that_none_names_may_be_refused():
    request = factories.request(project_id='lost')
    assert require_tenant_aggregate(request, tenant_aggregates({})) is None
    assert require_tenant_aggregate(
        request, tenant_aggregates({}), strict=True
    ) == Requirements(
        warnings=('Tenant lost has no available aggregates',),
        refused='No hosts available for tenant',
    )


METADATA = (
    {'trait:CUSTOM_A': 'required'},
    {'trait:CUSTOM_A': 'required', 'trait:CUSTOM_B': 'required'},
    {'trait:CUSTOM_C': 'forbidden', 'CUSTOM_D': 'required'},
)


def never():
    raise AssertionError


def trait_aggregates(metadata, required):
    aggregates = [
        Aggregate(n, f'A{n}', 'name', metadata=one) for n, one in enumerate(metadata, 1)
    ]
    return PrefilterContext(tuple(aggregates), required_traits=required)


@cases(
    'required, left_out',
    ('no trait', '', {'A1', 'A2'}),
    ('one of two traits is not enough', 'A', {'A2'}),
    ('all traits', 'AB', set()),
    ('traits that nobody keeps hosts for', 'CD', {'A1', 'A2'}),
)
def test_isolated_aggregates(required, left_out):
    traits = frozenset(f'CUSTOM_{letter}' for letter in required)
    added = isolate_aggregates(
        factories.request(), trait_aggregates(METADATA, lambda: traits)
    )
    assert added.not_member_of == left_out


def test_traits_are_not_read_without_isolated_aggregates():
    assert (
        isolate_aggregates(factories.request(), trait_aggregates(METADATA[2:], never))
        is None
    )
