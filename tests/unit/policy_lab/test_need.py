# SPDX-License-Identifier: Apache-2.0
"""Fewest hosts."""

import dataclasses

import pytest

from novasched import errors
from novasched.policy_lab import need, trace
from novasched.policy_lab.results import FleetGroup
from tests.support.clouds.traces import policy, workload


def trial_of(least, hint_of, tried):
    """Return a trial for which so many hosts are enough."""

    def trial(count):
        tried.append(count)
        return need.TriedHosts(count >= least, round(hint_of(count)))

    return trial


@pytest.mark.parametrize('least', [20, 21, 22, 24, 40])
@pytest.mark.parametrize('error', [0.0, 0.8, 1.0, 1.3, None])
def test_fewest_equals_linear_search(least, error):
    tried = []
    trial = trial_of(
        least, lambda count: count if error is None else error * least, tried
    )
    assert need.fewest(20, 160, trial) == least
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize('least', [1000, 1061, 1123, 1400])
@pytest.mark.parametrize('error', [0, -9, 9])
def test_search_ends_within_its_precision(least, error):
    tried = []
    trial = trial_of(least, lambda count: least + error, tried)
    found = need.fewest(1000, 8000, trial)
    assert 0 <= found - least <= 1000 * need.PRECISION
    assert len(tried) < 8


@pytest.mark.parametrize('text', ['default', 'cpu:-1,ram:-1'])
def test_needed_hosts_equal_linear_search(text):
    load = workload(count=40)
    found = need.need(load, policy(text))
    for count in range(found.bound, found.hosts + 1):
        hosts = trace.scaled(load.trace.hosts, count)
        tried = need.tried_with(load, policy(text), hosts, 0)
        assert bool(tried.refusals) == (count < found.hosts)
    assert found.refused_vms == 0


def test_search_gives_up_where_no_number_of_hosts_holds():
    tried = []
    with pytest.raises(errors.OptionError, match='160 hosts are too few'):
        need.fewest(20, 160, trial_of(161, lambda count: count, tried))
    assert max(tried) == 160
    assert len(tried) <= 10


@pytest.mark.parametrize(
    ('group', 'text'),
    [
        (FleetGroup(9, 4, 8192), 'default'),
        (FleetGroup(9, 8, 32768), 'filters:IoOpsFilter,max_io_ops_per_host:0'),
    ],
)
def test_flavor_without_a_host_is_named(group, text):
    with pytest.raises(errors.OptionError, match=r'has no host for .*fat'):
        need.need(workload((group,), count=20), policy(text))


def test_part_without_requests_needs_one_host():
    load = dataclasses.replace(workload(), batches=[])
    assert need.need(load, policy()).hosts == 1
