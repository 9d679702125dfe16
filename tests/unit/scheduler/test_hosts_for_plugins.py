# SPDX-License-Identifier: Apache-2.0
"""Hosts as plugins read them; test_surface compares the rest with nova."""

import ipaddress
from types import SimpleNamespace

import netaddr
import pytest

from novasched.objects.monitor_metric import MonitorMetric
from novasched.objects.pci import InstancePCIRequest
from novasched.scheduler import metrics
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.fit.parse import HostPools
from novasched.scheduler.fit.topology import HostCell
from tests.support.clouds import factories

POOLS = '[{"vendor_id": "v", "product_id": "p", "numa_node": 0, "count": 2}]'


@pytest.mark.parametrize(
    ('vendor', 'count', 'cells', 'expected'),
    [
        pytest.param('v', 2, None, True, id='free'),
        pytest.param('v', 3, None, False, id='too few'),
        pytest.param('w', 1, None, False, id='others'),
        pytest.param('v', 1, [0], True, id='near'),
        pytest.param('v', 1, [1], False, id='far'),
    ],
)
def test_pools_say_whether_they_support_requests(vendor, count, cells, expected):
    asked = InstancePCIRequest(
        count=count,
        spec=[{'vendor_id': vendor}],
        alias_name='a',
        numa_policy='required',
    )
    near = cells and [SimpleNamespace(id=number) for number in cells]
    assert HostPools(POOLS).support_requests([asked], {}, near) is expected


def test_pools_are_iterated_as_dicts():
    assert [pool['count'] for pool in HostPools(POOLS)] == [2]


def test_a_cell_has_the_names_of_nova():
    cpus = frozenset({0, 1})
    cell = HostCell(0, cpus, cpus, 100, memory_usage=30, siblings=(cpus,))
    assert cell.free_pcpus == cpus
    assert (cell.avail_pcpus, cell.avail_memory) == (2, 70)
    assert (cell.free_siblings, cell.has_threads) == ([cpus], True)


def test_aggregates_are_objects_and_items():
    one = Aggregate(1, None, 'a', frozenset({'h2', 'h1'}), {'ssd': 'true'})
    host = factories.hosts(aggregates=[(one,)]).state(0)
    (shown,) = host.aggregates
    assert shown['metadata'] == shown.metadata == {'ssd': 'true'}
    assert shown.hosts == ['h1', 'h2']
    assert 'uuid' not in shown
    host.aggregates = None
    assert host.aggregates is None


def test_host_that_a_plugin_made_without_aggregates_has_none():
    assert factories.hosts(aggregates=[None]).state(0).aggregates is None


def test_aggregates_that_a_filter_adds_are_seen_later():
    hosts = factories.hosts(aggregates=[()])
    host = hosts.state(0)
    host.aggregates.append(Aggregate(1, 'u', 'a', frozenset(), {'k': 'v'}))
    kept = hosts.keep([host])
    assert [each.metadata for each in kept.state(0).aggregates] == [{'k': 'v'}]
    assert kept.aggregates.map(len, int).tolist() == [1]


def test_address_is_one_of_netaddr():
    address = ipaddress.ip_address('10.0.0.1')
    host = factories.hosts(host_ip=[address]).state(0)
    assert host.host_ip in netaddr.IPNetwork('10.0.0.0/8')


def test_metrics_of_a_plugin_may_have_no_value():
    found = metrics.reported([MonitorMetric(name='numa.membw.max')])
    assert [(each.name, each.value) for each in found] == [('numa.membw.max', None)]
