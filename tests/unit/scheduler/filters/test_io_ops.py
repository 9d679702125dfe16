# SPDX-License-Identifier: Apache-2.0
"""Hosts that are busy with heavy tasks."""

from __future__ import annotations

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.host_limit import (
    AggregateIoOpsFilter,
    IoOpsFilter,
)
from novasched.scheduler.reasons import Code
from tests import factories
from tests.configuration import make_conf
from tests.verdicts import assert_verdict

KEY = 'max_io_ops_per_host'


def host(tasks, *limits):
    """A host with so many tasks under way, in aggregates with these limits."""
    aggregates = [factories.aggregate(n, **{KEY: v}) for n, v in enumerate(limits)]
    return factories.hosts(num_io_ops=[tasks], aggregates=[tuple(aggregates)])


@pytest.mark.parametrize(
    ('limit', 'tasks', 'limits', 'passes'),
    [
        pytest.param(8, 7, [], True, id='below the limit'),
        pytest.param(8, 8, [], False, id='at the limit'),
        pytest.param(8, 4, ['4'], True, id='aggregates do not count'),
        pytest.param(0, 0, [], False, id='a limit of none'),
    ],
)
def test_io_ops(limit, tasks, limits, passes):
    assert_verdict(
        IoOpsFilter(limit), host(tasks, *limits), factories.request(), passes
    )


@pytest.mark.parametrize(
    ('tasks', 'limits', 'passes'),
    [
        pytest.param(3, ['4'], True, id='below the limit of an aggregate'),
        pytest.param(4, ['4'], False, id='at the limit of an aggregate'),
        pytest.param(8, ['10', '9'], True, id='below the lower of two'),
        pytest.param(9, ['10', '9'], False, id='at the lower of two'),
        pytest.param(7, ['few'], True, id='no number: below the option'),
        pytest.param(8, ['few'], False, id='no number: at the option'),
        pytest.param(7, ['8.5'], True, id='no whole number: below the option'),
        pytest.param(8, ['8.5'], False, id='no whole number: at the option'),
        pytest.param(9, [' 10 '], True, id='blanks'),
    ],
)
def test_aggregates(tasks, limits, passes):
    filter_ = AggregateIoOpsFilter()
    assert_verdict(filter_, host(tasks, *limits), factories.request(), passes)


class TwoForEach(IoOpsFilter):
    """As a site may have written it for nova."""

    def _get_max_io_ops_per_host(self, host_state, spec_obj):
        return 2 * spec_obj.vcpus


def test_a_subclass_may_have_its_own_limit():
    hosts = factories.hosts(num_io_ops=[2, 3, 4])
    filter_, request = TwoForEach(), factories.request(vcpus=2)
    passes = [True, True, False]
    passed = adapted(filter_).apply(hosts, request).rows.tolist()
    assert [row in passed for row in hosts.rows.tolist()] == passes
    assert [filter_.host_passes(h, request) for h in hosts.states()] == passes


def test_the_limit_is_an_option():
    conf = make_conf()
    assert IoOpsFilter.from_conf(conf).limit == 8
    conf.set_override(KEY, 0, 'filter_scheduler')
    assert AggregateIoOpsFilter.from_conf(conf).limit == 0


@pytest.mark.parametrize(
    ('filter_', 'text'),
    [
        (IoOpsFilter(), '9 heavy tasks under way, limit 8'),
        (AggregateIoOpsFilter(), '9 heavy tasks under way, limit 3'),
        (TwoForEach(), '9 heavy tasks under way, limit 2'),
    ],
)
def test_why(filter_, text):
    reason = filter_.why(host(9, '3').state(0), factories.request())
    assert reason == (Code.TOO_MANY_IO_OPS, text)
