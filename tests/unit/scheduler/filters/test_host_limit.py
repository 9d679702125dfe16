# SPDX-License-Identifier: Apache-2.0
"""Whose limit holds: that of columns, or of the hook that a site's class overrides."""

from __future__ import annotations

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.host_limit import (
    AggregateIoOpsFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from tests import factories


class Hooked(AggregateIoOpsFilter):
    """As a site may have written it for nova, on top of ours."""

    def _get_max_io_ops_per_host(self, host_state, spec_obj):
        return super()._get_max_io_ops_per_host(host_state, spec_obj) + 1


class Doubled(Hooked):
    """As one may be written for us, on top of that."""

    def limits(self, hosts):
        return 2 * super().limits(hosts)


class OtherHook(IoOpsFilter):
    """The hook of the other filter means nothing here."""

    def _get_max_instances_per_host(self, host_state, spec_obj):
        return 0


@pytest.mark.parametrize(
    ('values', 'limit'),
    [
        pytest.param([], 8, id='none'),
        pytest.param(['4'], 4, id='one'),
        pytest.param(['10', '9'], 9, id='the lowest number, not the first text'),
        pytest.param([' 10 '], 10, id='blanks'),
        pytest.param(['few'], 8, id='no number'),
        pytest.param(['8.5'], 8, id='no whole number'),
        pytest.param(['4', ''], 8, id='one of two is no number'),
        pytest.param(['-3'], -3, id='below zero'),
        pytest.param(['1' + '0' * 30], 2**63 - 1, id='larger than a column holds'),
        pytest.param(['-1' + '0' * 30], 1 - 2**63, id='smaller than a column holds'),
    ],
)
def test_the_lowest_limit_of_aggregates_holds(values, limit):
    aggregates = [
        factories.aggregate(n, max_io_ops_per_host=v) for n, v in enumerate(values)
    ]
    aggregates.append(factories.aggregate(9, other='1'))
    hosts = factories.hosts(aggregates=[tuple(aggregates)])
    assert AggregateIoOpsFilter(8).limits(hosts).tolist() == [limit]


@pytest.mark.parametrize(
    ('filter_', 'passes'),
    [
        pytest.param(IoOpsFilter(3), [True, False, False, False], id='the option'),
        pytest.param(
            AggregateIoOpsFilter(9), [True, False, False, False], id='aggregates'
        ),
        pytest.param(Hooked(9), [True, True, False, False], id='a hook'),
        pytest.param(Doubled(9), [True, True, True, False], id='limits over a hook'),
        pytest.param(OtherHook(3), [True, False, False, False], id='another hook'),
    ],
)
def test_the_limit_that_holds(filter_, passes):
    set_to_3 = (factories.aggregate(max_io_ops_per_host='3'),)
    hosts = factories.hosts(num_io_ops=[2, 3, 5, 6], aggregates=[set_to_3] * 4)
    passed = adapted(filter_).apply(hosts, factories.request()).host.tolist()
    assert [host in passed for host in hosts.host.tolist()] == passes


def test_a_limit_that_is_set_on_the_host_holds_for_the_hook():
    host = factories.hosts(num_io_ops=[4]).state(0)
    host.aggregates = (factories.aggregate(max_io_ops_per_host='3'),)
    request = factories.request()
    assert AggregateIoOpsFilter(9)._get_max_io_ops_per_host(host, request) == 3
    assert NumInstancesFilter(9)._get_max_instances_per_host(host, request) == 9
