# SPDX-License-Identifier: Apache-2.0
"""CPUs that are oversubscribed up to a ratio."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.legacy.overcommit import (
    AggregateCoreFilter,
    CoreFilter,
)
from novasched.scheduler.reasons import Code
from novasched.scheduler.warnings import PluginWarning
from tests import factories

NAN = float('nan')


def host(total, used, ratio, *of_aggregates):
    aggregates = tuple(
        factories.aggregate(number, cpu_allocation_ratio=value)
        for number, value in enumerate(of_aggregates)
    )
    return factories.hosts(
        vcpus_total=[total],
        vcpus_used=[used],
        cpu_allocation_ratio=[ratio],
        aggregates=[aggregates],
    )


def outcome(filter_, hosts, asked):
    """Whether the host passes, and its limits, even if it does not."""
    state, request = hosts.state(0), factories.request(vcpus=asked)
    passes = filter_.host_passes(state, request)
    assert len(filter_.apply(hosts, request)) == passes
    return passes, state.limits


@pytest.mark.parametrize(
    ('total', 'used', 'ratio', 'asked', 'passes', 'limits'),
    [
        pytest.param(4, 7, 2.0, 1, True, {'vcpu': 8.0}, id='the last one'),
        pytest.param(4, 8, 2.0, 1, False, {'vcpu': 8.0}, id='none left'),
        pytest.param(0, 8, 2.0, 1, True, {}, id='the host does not tell'),
        pytest.param(1, 0, 16.0, 2, False, {'vcpu': 16.0}, id='larger than the host'),
        pytest.param(4, 0, 0.0, 1, False, {}, id='a ratio of nothing'),
        pytest.param(4, 0, NAN, 1, False, {}, id='the ratio is unknown'),
        pytest.param(4, -9, -1.0, 5, True, {}, id='larger, but no limit'),
    ],
)
def test_core(total, used, ratio, asked, passes, limits):
    hosts = host(total, used, ratio, '99')
    assert outcome(CoreFilter(), hosts, asked) == (passes, limits)


@pytest.mark.parametrize(
    ('ratio', 'of_aggregates', 'passes', 'limit'),
    [
        pytest.param(2.0, ['3'], True, 12.0, id='of the aggregate'),
        pytest.param(16.0, ['2', '3'], False, 8.0, id='the smallest of two'),
        pytest.param(16.0, ['XX'], True, 64.0, id='no number'),
        pytest.param(16.0, [], True, 64.0, id='of the host'),
    ],
)
def test_aggregate_core(ratio, of_aggregates, passes, limit):
    hosts = host(4, 8, ratio, *of_aggregates)
    assert outcome(AggregateCoreFilter(), hosts, 1) == (passes, {'vcpu': limit})


@pytest.mark.parametrize(
    ('hosts', 'text'),
    [
        pytest.param(
            host(1, 0, 16.0),
            'does not have 2 total cpus before overcommit, it only has 1',
            id='larger than the host',
        ),
        pytest.param(
            host(4, 7, 2.0),
            'does not have 2 usable vcpus, it only has 1.0 usable vcpus '
            '(cpu_allocation_ratio 2.0)',
            id='too few left',
        ),
    ],
)
def test_why(hosts, text):
    reason = CoreFilter().why(hosts.state(0), factories.request(vcpus=2))
    assert reason == (Code.NOT_ENOUGH_CPUS, text)


@pytest.mark.parametrize('filter_', [CoreFilter, AggregateCoreFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(f'The {filter_.__name__} is deprecated since')


@pytest.mark.parametrize(
    ('totals', 'said'),
    [
        pytest.param([8, 8], [], id='all hosts report CPUs'),
        pytest.param(
            [0, 8],
            [PluginWarning('VCPUs not set; assuming CPU collection broken: h1')],
            id='one does not',
        ),
    ],
)
def test_hosts_that_report_no_cpus_are_named(totals, said):
    hosts = factories.hosts(vcpus_total=totals)
    found = CoreFilter().request_warnings(hosts, hosts, factories.request())
    assert list(found) == said
