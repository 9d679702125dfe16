# SPDX-License-Identifier: Apache-2.0
"""The configuration of the demo's cloud."""

import tomllib
from pathlib import Path

import pytest

from novasched_lab.compute import fleet
from novasched_lab.demo import cloud
from novasched_lab.local.databases import DatabaseUrls


@pytest.mark.parametrize('hosts', [1, 2, 7])
def test_the_hosts_are_as_many_as_wanted(hosts):
    made = fleet.fleet_of(tomllib.loads(cloud.fleet_text(hosts)))
    assert len(made.hosts) == hosts
    assert {host.zone for host in made.hosts} == set(cloud.ZONES[: min(hosts, 2)])
    (rule,) = made.rules
    assert (rule.outcome, rule.probability) == ('refuse', 0.05)
    assert rule.flavors == ('m1.medium',)


def test_the_programs_share_broker_databases_and_placement():
    urls = DatabaseUrls('sqlite:///a', 'sqlite:///b', 'sqlite:///c')
    made = cloud.options('rabbit://h/', urls, 'http://p', Path('/d'))
    assert made['DEFAULT']['transport_url'] == 'rabbit://h/'
    assert made['api_database']['connection'] == 'sqlite:///a'
    assert made['placement']['endpoint'] == 'http://p'
    assert made['oslo_messaging_rabbit']['amqp_auto_delete']
