# SPDX-License-Identifier: Apache-2.0
"""Zones, hosts that were tried, and flavors: filters that nova has no more."""

import logging
import types

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.instance import Instance
from novasched.objects.request_spec import SchedulerRetries
from novasched.ports import InstanceRow
from novasched.scheduler.filters.legacy.removed import (
    AvailabilityZoneFilter,
    RetryFilter,
    TypeAffinityFilter,
)
from novasched.scheduler.hosts import Member
from novasched.scheduler.reasons import Code
from novasched.scheduler.warnings import PluginWarning
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

ZONES = AvailabilityZoneFilter()


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
    assert_verdict(ZONES, host_in(*zones), request, expected)


def test_aggregates_without_a_zone_are_in_the_default_zone():
    hosts = factories.hosts(aggregates=[(factories.aggregate(1, ssd='true'),)])
    assert_verdict(ZONES, hosts, factories.request(availability_zone='nova'), True)


def test_the_default_zone_is_an_option():
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt('default_availability_zone', default='here'))
    filter_ = AvailabilityZoneFilter.from_conf(conf)
    assert_verdict(
        filter_, host_in(), factories.request(availability_zone='here'), True
    )


def test_why_of_zones():
    request = factories.request(availability_zone='az9')
    reason = ZONES.why(host_in('az2', 'az1').state(0), request)
    assert reason == (Code.WRONG_ZONE, 'in zone az1, az2, not az9')


RETRIES = RetryFilter()


def retry(*tried):
    nodes = [ComputeNode(host=host, hypervisor_hostname=node) for host, node in tried]
    return SchedulerRetries(num_attempts=1, hosts=ComputeNodeList(objects=nodes))


@cases(
    'before, host, passes',
    ('the first attempt', None, ('h1', 'n1'), True),
    ('tried', retry(('h1', 'n1')), ('h1', 'n1'), False),
    ('another node', retry(('h1', 'n1')), ('h1', 'n2'), True),
    ('another host', retry(('h1', 'n1')), ('h2', 'n1'), True),
    ('none was tried', retry(), ('h1', 'n1'), True),
    ('one of two', retry(('h9', 'n9'), ('h1', 'n1')), ('h1', 'n1'), False),
    ('no node', retry(('h1', None)), ('h1', 'n1'), True),
)
def test_retry(before, host, passes):
    hosts = factories.hosts(host=[host[0]], nodename=[host[1]])
    assert_verdict(RETRIES, hosts, factories.request(retry=before), passes)


def test_a_retry_without_hosts_is_an_invalid_request():
    request = factories.request(retry=SchedulerRetries(num_attempts=1))
    with pytest.raises(errors.UnsetField):
        RETRIES.apply(factories.hosts(1), request)


def test_why_of_retries():
    request = factories.request(retry=retry(('h1', 'n1'), ('h2', 'n2')))
    reason = RETRIES.why(factories.hosts(1).state(0), request)
    text = "Previously tried hosts: [['h1', 'n1'], ['h2', 'n2']]"
    assert reason == (Code.TRIED_BEFORE, text)


def test_every_host_that_was_tried_is_named():
    hosts = factories.hosts(3)
    request = factories.request(retry=retry(('h1', 'h1'), ('h3', 'h3')))
    said = list(RETRIES.request_warnings(hosts, hosts[[1]], request))
    tail = "fails.  Previously tried hosts: [['h1', 'h1'], ['h3', 'h3']]"
    assert said == [
        PluginWarning(f"Host ['h1', 'h1'] {tail}", logging.INFO),
        PluginWarning(f"Host ['h3', 'h3'] {tail}", logging.INFO),
    ]


TYPES = TypeAffinityFilter()
FLAVOR = factories.request().flavor.id


def of(flavor_id):
    return types.SimpleNamespace(instance_type_id=flavor_id)


@cases(
    'instances, passes',
    ('empty', [], True),
    ('all of the flavor', [of(FLAVOR), of(FLAVOR)], True),
    ('one of another', [of(FLAVOR), of(7)], False),
    ('as computes tell', [Instance(instance_type_id=FLAVOR)], True),
    ('it was not told', [Instance(uuid='u')], False),
    ('a row that does not tell', [InstanceRow('u', 'h1')], False),
    ('placed by this request', [Member('u', 'h1')], True),
)
def test_type_affinity(instances, passes):
    by_uuid = {f'u{number}': instance for number, instance in enumerate(instances)}
    hosts = factories.hosts(instances=[by_uuid])
    assert_verdict(TYPES, hosts, factories.request(), passes)


def test_why_of_flavors():
    by_uuid = {'u1': of(FLAVOR), 'u2': of(7), 'u3': of(None)}
    host = factories.hosts(instances=[by_uuid]).state(0)
    reason = TYPES.why(host, factories.request())
    text = 'runs instances of another flavor: u2, u3'
    assert reason == (Code.OTHER_FLAVOR_PRESENT, text)


@pytest.mark.parametrize(
    ('filter_', 'text'),
    [
        (AvailabilityZoneFilter, "The '{}' is deprecated since the 24.0.0 (Xena) "),
        (RetryFilter, 'The {} is deprecated since the 20.0.0 Train release.'),
    ],
)
def test_removed_filters_are_deprecated(filter_, text):
    assert filter_.deprecated.startswith(text.format(filter_.__name__))
