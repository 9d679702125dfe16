# SPDX-License-Identifier: Apache-2.0
"""The configuration of the demo's cloud."""

import tomllib

import pytest

from novasched_lab.compute import fleet
from novasched_lab.demo import cloud


@pytest.mark.parametrize('hosts', [1, 2, 7])
def test_the_hosts_are_as_many_as_wanted(hosts):
    made = fleet.fleet_of(tomllib.loads(cloud.fleet_text(hosts)))
    assert len(made.hosts) == hosts
    assert {host.zone for host in made.hosts} == set(cloud.ZONES[: min(hosts, 2)])
    (rule,) = made.rules
    assert (rule.outcome, rule.probability) == ('refuse', 0.05)
    assert rule.flavors == ('m1.medium',)
