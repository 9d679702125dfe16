# SPDX-License-Identifier: Apache-2.0
"""Hosts that run too many instances."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched.scheduler.filters.num_instances import OPTS, NumInstancesFilter
from tests import factories


@pytest.mark.parametrize(
    ('running', 'passes'),
    [
        pytest.param(49, True, id='below the limit'),
        pytest.param(50, False, id='at the limit'),
        pytest.param(51, False, id='above the limit'),
    ],
)
def test_num_instances(running, passes):
    hosts = factories.hosts(num_instances=[running])
    survivors = NumInstancesFilter(limit=50).apply(hosts, factories.request())
    assert (len(survivors) == 1) is passes


def test_aggregates_do_not_count():
    aggregate = factories.aggregate(1, max_instances_per_host='4')
    hosts = factories.hosts(num_instances=[4], aggregates=[(aggregate,)])
    assert len(NumInstancesFilter().apply(hosts, factories.request()))


def test_the_limit_is_an_option():
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTS['filter_scheduler'], 'filter_scheduler')
    assert NumInstancesFilter.from_conf(conf).limit == 50
    conf.set_override('max_instances_per_host', 4, 'filter_scheduler')
    assert NumInstancesFilter.from_conf(conf).limit == 4


def test_why():
    host = factories.hosts(num_instances=[7]).state(0)
    reason = NumInstancesFilter(limit=5).why(host, factories.request())
    assert reason == '7 instances, limit 5'
