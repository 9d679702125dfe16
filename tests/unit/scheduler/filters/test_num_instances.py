# SPDX-License-Identifier: Apache-2.0
"""Hosts that run too many instances."""

from __future__ import annotations

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.host_limit import (
    AggregateNumInstancesFilter,
    NumInstancesFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.configuration import make_conf
from tests.verdicts import assert_verdict

KEY = 'max_instances_per_host'


def host(running, *limits):
    """A host with so many instances, in aggregates with these limits."""
    aggregates = [factories.aggregate(n, **{KEY: v}) for n, v in enumerate(limits)]
    return factories.hosts(num_instances=[running], aggregates=[tuple(aggregates)])


@pytest.mark.parametrize(
    ('running', 'limits', 'passes'),
    [
        pytest.param(49, [], True, id='below the limit'),
        pytest.param(50, [], False, id='at the limit'),
        pytest.param(51, [], False, id='above the limit'),
        pytest.param(4, ['4'], True, id='aggregates do not count'),
    ],
)
def test_num_instances(running, limits, passes):
    assert_verdict(
        NumInstancesFilter(), host(running, *limits), factories.request(), passes
    )


@pytest.mark.parametrize(
    ('running', 'limits', 'passes'),
    [
        pytest.param(3, ['4'], True, id='below the limit of an aggregate'),
        pytest.param(4, ['4'], False, id='at the limit of an aggregate'),
        pytest.param(8, ['10', '9'], True, id='below the lower of two'),
        pytest.param(9, ['10', '9'], False, id='at the lower of two'),
        pytest.param(8, ['few'], True, id='no number: below the option'),
        pytest.param(50, ['few'], False, id='no number: at the option'),
        pytest.param(49, [], True, id='none: below the option'),
        pytest.param(50, ['60'], True, id='above the option'),
        pytest.param(50, ['1' + '0' * 30], True, id='huge'),
    ],
)
def test_aggregates(running, limits, passes):
    filter_ = AggregateNumInstancesFilter()
    assert_verdict(filter_, host(running, *limits), factories.request(), passes)


class TwoForEach(NumInstancesFilter):
    """As a site may have written it for nova."""

    def _get_max_instances_per_host(self, host_state, spec_obj):
        return 2 * spec_obj.vcpus


class OneMore(AggregateNumInstancesFilter):
    def _get_max_instances_per_host(self, host_state, spec_obj):
        return super()._get_max_instances_per_host(host_state, spec_obj) + 1


@pytest.mark.parametrize(
    ('filter_', 'passes'),
    [
        pytest.param(TwoForEach(), [True, True, False], id='of its own'),
        pytest.param(OneMore(2), [True, False, False], id='on top of ours'),
    ],
)
def test_a_subclass_may_have_its_own_limit(filter_, passes):
    hosts = factories.hosts(num_instances=[2, 3, 4])
    request = factories.request(vcpus=2)
    passed = adapted(filter_).apply(hosts, request).rows.tolist()
    assert [row in passed for row in hosts.rows.tolist()] == passes
    assert [filter_.host_passes(h, request) for h in hosts.states()] == passes


def test_the_limit_is_an_option():
    conf = make_conf()
    assert NumInstancesFilter.from_conf(conf).limit == 50
    conf.set_override(KEY, 4, 'filter_scheduler')
    assert AggregateNumInstancesFilter.from_conf(conf).limit == 4


@pytest.mark.parametrize(
    ('filter_', 'text'),
    [
        (NumInstancesFilter(limit=5), '7 instances, limit 5'),
        (AggregateNumInstancesFilter(limit=5), '7 instances, limit 3'),
        (OneMore(limit=5), '7 instances, limit 4'),
    ],
)
def test_why(filter_, text):
    reason = filter_.why(host(7, '3').state(0), factories.request())
    assert reason == (Code.TOO_MANY_INSTANCES, text)
