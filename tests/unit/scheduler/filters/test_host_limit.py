# SPDX-License-Identifier: Apache-2.0
"""Hosts with too many instances or heavy tasks, and whose limit holds."""

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.host_limit import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

INSTANCES = ('num_instances', 'max_instances_per_host')
TASKS = ('num_io_ops', 'max_io_ops_per_host')


def host(of, count, *limits):
    """A host with so many instances or tasks, in aggregates with these limits."""
    column, key = of
    aggregates = [factories.aggregate(n, **{key: v}) for n, v in enumerate(limits)]
    return factories.hosts(**{column: [count]}, aggregates=[tuple(aggregates)])


class TwoForEach(NumInstancesFilter):
    """As a site may have written it for nova."""

    def _get_max_instances_per_host(self, host_state, spec_obj):
        return 2 * spec_obj.vcpus


class OneMore(AggregateNumInstancesFilter):
    def _get_max_instances_per_host(self, host_state, spec_obj):
        return super()._get_max_instances_per_host(host_state, spec_obj) + 1


class TwoTasksForEach(IoOpsFilter):
    def _get_max_io_ops_per_host(self, host_state, spec_obj):
        return 2 * spec_obj.vcpus


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


@cases(
    'filter_, hosts, passes',
    ('below', NumInstancesFilter(), host(INSTANCES, 49), True),
    ('at', NumInstancesFilter(), host(INSTANCES, 50), False),
    ('above', NumInstancesFilter(), host(INSTANCES, 51), False),
    ('aggregates do not count', NumInstancesFilter(), host(INSTANCES, 4, '4'), True),
    ('tasks: below', IoOpsFilter(), host(TASKS, 7), True),
    ('tasks: at', IoOpsFilter(), host(TASKS, 8), False),
    ('tasks: aggregates do not count', IoOpsFilter(8), host(TASKS, 4, '4'), True),
    ('tasks: a limit of none', IoOpsFilter(0), host(TASKS, 0), False),
)
def test_the_limit_of_the_option(filter_, hosts, passes):
    assert_verdict(filter_, hosts, factories.request(), passes)


@cases(
    'count, limits, passes',
    ('below the limit of an aggregate', 3, ['4'], True),
    ('at the limit of an aggregate', 4, ['4'], False),
    ('below the lower of two', 6, ['10', '7'], True),
    ('at the lower of two', 7, ['10', '7'], False),
    ('no number: below the option', 7, ['few'], True),
    ('no number: at the option', 8, ['few'], False),
    ('none: below the option', 7, [], True),
    ('above the option', 8, ['60'], True),
    ('huge', 8, ['1' + '0' * 30], True),
)
@pytest.mark.parametrize(
    ('filter_', 'of'),
    [(AggregateNumInstancesFilter(8), INSTANCES), (AggregateIoOpsFilter(), TASKS)],
)
def test_the_limit_of_aggregates(filter_, of, count, limits, passes):
    assert_verdict(filter_, host(of, count, *limits), factories.request(), passes)


@cases(
    'values, limit',
    ('none', [], 8),
    ('one', ['4'], 4),
    ('the lowest number, not the first text', ['10', '9'], 9),
    ('blanks', [' 10 '], 10),
    ('no number', ['few'], 8),
    ('no whole number', ['8.5'], 8),
    ('one of two is no number', ['4', ''], 8),
    ('below zero', ['-3'], -3),
    ('larger than a column holds', ['1' + '0' * 30], 2**63 - 1),
    ('smaller than a column holds', ['-1' + '0' * 30], 1 - 2**63),
)
def test_the_lowest_limit_of_aggregates_holds(values, limit):
    aggregates = [
        factories.aggregate(n, max_io_ops_per_host=v) for n, v in enumerate(values)
    ]
    aggregates.append(factories.aggregate(9, other='1'))
    hosts = factories.hosts(aggregates=[tuple(aggregates)])
    assert AggregateIoOpsFilter(8).limits(hosts).tolist() == [limit]


@cases(
    'filter_, passes',
    ('the option', IoOpsFilter(3), [True, False, False, False]),
    ('aggregates', AggregateIoOpsFilter(9), [True, False, False, False]),
    ('a hook', Hooked(9), [True, True, False, False]),
    ('limits over a hook', Doubled(9), [True, True, True, False]),
    ('another hook', OtherHook(3), [True, False, False, False]),
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


@pytest.mark.parametrize(
    ('plain', 'of_aggregates', 'key', 'default', 'limit'),
    [
        (NumInstancesFilter, AggregateNumInstancesFilter, INSTANCES[1], 50, 4),
        (IoOpsFilter, AggregateIoOpsFilter, TASKS[1], 8, 0),
    ],
)
def test_the_limit_is_an_option(plain, of_aggregates, key, default, limit):
    conf = make_conf()
    assert plain.from_conf(conf).limit == default
    conf.set_override(key, limit, 'filter_scheduler')
    assert of_aggregates.from_conf(conf).limit == limit


@pytest.mark.parametrize(
    ('filter_', 'of', 'text'),
    [
        (NumInstancesFilter(limit=5), INSTANCES, '7 instances, limit 5'),
        (AggregateNumInstancesFilter(limit=5), INSTANCES, '7 instances, limit 3'),
        (OneMore(limit=5), INSTANCES, '7 instances, limit 4'),
        (IoOpsFilter(limit=5), TASKS, '7 heavy tasks under way, limit 5'),
        (AggregateIoOpsFilter(), TASKS, '7 heavy tasks under way, limit 3'),
        (TwoTasksForEach(), TASKS, '7 heavy tasks under way, limit 2'),
    ],
)
def test_why(filter_, of, text):
    code = Code.TOO_MANY_INSTANCES if of is INSTANCES else Code.TOO_MANY_IO_OPS
    reason = filter_.why(host(of, 7, '3').state(0), factories.request())
    assert reason == (code, text)
