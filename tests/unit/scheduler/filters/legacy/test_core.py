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
from tests.tables import cases

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


@cases(
    'total, used, ratio, asked, passes, limits',
    ('the last one', 4, 7, 2.0, 1, True, {'vcpu': 8.0}),
    ('none left', 4, 8, 2.0, 1, False, {'vcpu': 8.0}),
    ('the host does not tell', 0, 8, 2.0, 1, True, {}),
    ('larger than the host', 1, 0, 16.0, 2, False, {'vcpu': 16.0}),
    ('a ratio of nothing', 4, 0, 0.0, 1, False, {}),
    ('the ratio is unknown', 4, 0, NAN, 1, False, {}),
    ('larger, but no limit', 4, -9, -1.0, 5, True, {}),
)
def test_core(total, used, ratio, asked, passes, limits):
    hosts = host(total, used, ratio, '99')
    assert outcome(CoreFilter(), hosts, asked) == (passes, limits)


@cases(
    'ratio, of_aggregates, passes, limit',
    ('of the aggregate', 2.0, ['3'], True, 12.0),
    ('the smallest of two', 16.0, ['2', '3'], False, 8.0),
    ('no number', 16.0, ['XX'], True, 64.0),
    ('of the host', 16.0, [], True, 64.0),
)
def test_aggregate_core(ratio, of_aggregates, passes, limit):
    hosts = host(4, 8, ratio, *of_aggregates)
    assert outcome(AggregateCoreFilter(), hosts, 1) == (passes, {'vcpu': limit})


@cases(
    'hosts, text',
    (
        'larger than the host',
        host(1, 0, 16.0),
        'does not have 2 total cpus before overcommit, it only has 1',
    ),
    (
        'too few left',
        host(4, 7, 2.0),
        'does not have 2 usable vcpus, it only has 1.0 usable vcpus '
        '(cpu_allocation_ratio 2.0)',
    ),
)
def test_why(hosts, text):
    reason = CoreFilter().why(hosts.state(0), factories.request(vcpus=2))
    assert reason == (Code.NOT_ENOUGH_CPUS, text)


@pytest.mark.parametrize('filter_', [CoreFilter, AggregateCoreFilter])
def test_operators_are_told_that_it_is_of_the_past(filter_):
    assert filter_.deprecated.startswith(f'The {filter_.__name__} is deprecated since')


@cases(
    'totals, said',
    ('all hosts report CPUs', [8, 8], []),
    (
        'one does not',
        [0, 8],
        [PluginWarning('VCPUs not set; assuming CPU collection broken: h1')],
    ),
)
def test_hosts_that_report_no_cpus_are_named(totals, said):
    hosts = factories.hosts(vcpus_total=totals)
    found = CoreFilter().request_warnings(hosts, hosts, factories.request())
    assert list(found) == said
