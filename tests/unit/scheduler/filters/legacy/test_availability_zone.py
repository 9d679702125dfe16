# SPDX-License-Identifier: Apache-2.0
"""The zone of a host is in the metadata of its aggregates."""

from __future__ import annotations

from oslo_config import cfg

from novasched.scheduler.filters.legacy.removed import AvailabilityZoneFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = AvailabilityZoneFilter()


def host_in(*zones):
    aggregates = tuple(
        factories.aggregate(number, availability_zone=zone)
        for number, zone in enumerate(zones)
    )
    return factories.hosts(aggregates=[aggregates])


@cases(
    'zone, zones, expected',
    ('no zone asked', None, ['az1'], True),
    ('an empty zone asked', '', ['az1'], True),
    ('in it', 'az1', ['az1'], True),
    ('in another', 'az1', ['az2'], False),
    ('the default zone', 'nova', [], True),
    ('in none', 'az1', [], False),
    ('not in the default zone', 'nova', ['az1'], False),
    ('in one of two', 'az2', ['az1,az2'], True),
    ('in one of two aggregates', 'az2', ['az1', 'az2'], True),
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
