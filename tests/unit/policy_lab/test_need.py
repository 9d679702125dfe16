# SPDX-License-Identifier: Apache-2.0
"""Fewest hosts."""

import pytest

from novasched.policy_lab import need, trace
from tests.support.clouds.traces import policy, workload


@pytest.mark.parametrize('least', [20, 21, 22, 24, 40])
def test_fewest_equals_linear_search(least):
    tried = []

    def holds(count):
        tried.append(count)
        return count >= least

    assert need.fewest(20, holds) == least
    assert len(tried) == len(set(tried))


def test_search_ends_within_its_precision():
    found = need.fewest(1000, lambda count: count >= 1123)
    assert 0 <= found - 1123 <= 1000 * need.PRECISION


@pytest.mark.parametrize('text', ['default', 'cpu:-1,ram:-1'])
def test_needed_hosts_equal_linear_search(text):
    load = workload()
    found = need.need(load, policy(text))
    for count in range(found.bound, found.hosts + 1):
        hosts = trace.scaled(load.trace.hosts, count)
        refused = need.refused_with(load, policy(text), hosts, 0)
        assert (refused == 0) == (count == found.hosts)
    assert found.refused_vms == 0
