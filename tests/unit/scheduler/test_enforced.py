# SPDX-License-Identifier: Apache-2.0
"""Limits are numbers by column, and dicts only for the hosts that are looked at."""

import numpy as np

from novasched.scheduler.enforced import limited
from novasched.scheduler.hosts import Lazy
from tests.support.clouds import factories

ALL = np.array([True, True, True])


def numbers(*values):
    return np.array(values, float)


def test_limits_are_set_where_they_are_meant():
    hosts = factories.hosts(3, limits=[{'numa_topology': 'N'}, {}, {}])
    where = np.array([True, False, True])
    after = limited(hosts, 'memory_mb', numbers(1, 2, 3), where)
    assert after.limits.tolist() == [
        {'numa_topology': 'N', 'memory_mb': 1.0},
        {},
        {'memory_mb': 3.0},
    ]
    assert hosts.limits.tolist() == [{'numa_topology': 'N'}, {}, {}]


def test_hosts_are_rows_of_a_snapshot():
    hosts = factories.hosts(3)[np.array([2, 0])]
    after = limited(hosts, 'vcpu', numbers(5, 6), np.array([True, True]))
    assert after.limits.tolist() == [{'vcpu': 5.0}, {'vcpu': 6.0}]
    assert after.snapshot.column('limits').tolist() == [
        {'vcpu': 6.0},
        {},
        {'vcpu': 5.0},
    ]
    assert after.state(0).limits == {'vcpu': 5.0}


def test_a_number_that_is_not_finite_is_no_limit():
    hosts = limited(factories.hosts(3), 'vcpu', numbers(1, 2, 3), ALL)
    after = limited(hosts, 'vcpu', numbers(np.nan, np.inf, 4), ALL)
    assert after.limits.tolist() == [{'vcpu': 1.0}, {'vcpu': 2.0}, {'vcpu': 4.0}]


def test_limits_of_several_filters_add_up():
    hosts = limited(factories.hosts(3), 'vcpu', numbers(1, 2, 3), ALL)
    after = limited(hosts, 'disk_gb', numbers(7, 8, 9), ALL)
    assert after.state(1).limits == {'vcpu': 2.0, 'disk_gb': 8.0}
    assert hosts.state(1).limits == {'vcpu': 2.0}


def test_a_limit_may_be_another_object():
    one, two = {'n': 1}, {'n': 2}
    given = factories.objects([one, two, None])
    hosts = limited(factories.hosts(3), 'numa', given, ALL)
    assert hosts.limits.tolist() == [{'numa': one}, {'numa': two}, {}]
    assert hosts.state(0).limits['numa'] is not one
    after = limited(hosts, 'numa', factories.objects([None, one, one]), ALL)
    assert after.limits.tolist() == [{'numa': one}] * 3
    fewer = limited(hosts[np.array([1])], 'numa', factories.objects([one]), ALL[:1])
    assert fewer.limits.tolist() == [{'numa': one}]


def test_limits_written_by_a_plugin_stay():
    hosts = limited(factories.hosts(3), 'vcpu', numbers(1, 2, 3), ALL)
    hosts.state(1).limits['memory_mb'] = 77
    hosts.state(2).limits['vcpu'] = 88
    assert hosts.state(1).limits == {'vcpu': 2.0, 'memory_mb': 77}
    after = limited(hosts, 'vcpu', numbers(4, 5, 6), ALL)
    assert after.limits.tolist() == [
        {'vcpu': 4.0},
        {'vcpu': 5.0, 'memory_mb': 77},
        {'vcpu': 6.0},
    ]


def test_limits_set_by_a_plugin_replace_all():
    hosts = limited(factories.hosts(3), 'vcpu', numbers(1, 2, 3), ALL)
    host = hosts.state(1)
    host.limits = {'memory_mb': 5}
    after = hosts.keep([hosts.state(0), host])
    assert after.limits.tolist() == [{'vcpu': 1.0}, {'memory_mb': 5}]
    assert hosts.state(1).limits == {'vcpu': 2.0}


def test_nothing_is_made_before_a_host_is_looked_at():
    def make():
        raise AssertionError('nobody looked')

    hosts = factories.hosts(3).with_columns(limits=Lazy(make))
    after = limited(hosts, 'vcpu', numbers(1, 2, 3), ALL)
    limited(after, 'memory_mb', numbers(1, 2, 3), ALL)
