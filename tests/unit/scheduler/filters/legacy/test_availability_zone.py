# SPDX-License-Identifier: Apache-2.0
"""The zone of a host is in the metadata of its aggregates."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched.scheduler.filters.legacy.removed import AvailabilityZoneFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.verdicts import assert_verdict

FILTER = AvailabilityZoneFilter()


def host_in(*zones):
    aggregates = tuple(
        factories.aggregate(number, availability_zone=zone)
        for number, zone in enumerate(zones)
    )
    return factories.hosts(aggregates=[aggregates])


@pytest.mark.parametrize(
    ('zone', 'zones', 'expected'),
    [
        pytest.param(None, ['az1'], True, id='no zone asked'),
        pytest.param('', ['az1'], True, id='an empty zone asked'),
        pytest.param('az1', ['az1'], True, id='in it'),
        pytest.param('az1', ['az2'], False, id='in another'),
        pytest.param('nova', [], True, id='the default zone'),
        pytest.param('az1', [], False, id='in none'),
        pytest.param('nova', ['az1'], False, id='not in the default zone'),
        pytest.param('az2', ['az1,az2'], True, id='in one of two'),
        pytest.param('az2', ['az1', 'az2'], True, id='in one of two aggregates'),
    ],
)
def test_zone(zone, zones, expected):
    request = factories.request(availability_zone=zone)
    assert_verdict(FILTER, host_in(*zones), request, expected)


def test_aggregates_without_a_zone_are_in_the_default_zone():
    hosts = factories.hosts(aggregates=[(factories.aggregate(1, ssd='true'),)])
    assert_verdict(FILTER, hosts, factories.request(availability_zone='nova'), True)


def test_the_default_zone_is_an_option():
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt('default_availability_zone', default='here'))
    filter_ = AvailabilityZoneFilter.from_conf(conf)
    assert_verdict(
        filter_, host_in(), factories.request(availability_zone='here'), True
    )


def test_why():
    request = factories.request(availability_zone='az9')
    reason = FILTER.why(host_in('az2', 'az1').state(0), request)
    assert reason == (Code.WRONG_ZONE, 'in zone az1, az2, not az9')


def test_operators_are_told_that_it_is_of_the_past():
    assert FILTER.deprecated.startswith(
        "The 'AvailabilityZoneFilter' is deprecated since the 24.0.0 (Xena) release."
    )
