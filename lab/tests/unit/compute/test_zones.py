# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from novasched.db import tables
from novasched_lab.compute import zones
from novasched_lab.compute.fleet import Host

HOSTS = [Host('h1', zone='az1'), Host('h2', zone='az2'), Host('h3')]


def test_zones_are_made_once(databases):
    named = zones.zone_hosts(HOSTS)
    first, second = (zones.make(databases.api, named) for _ in range(2))
    assert first == second
    assert [row['name'] for row in databases.rows(tables.aggregates)] == ['az1', 'az2']
    assert [row['value'] for row in databases.rows(tables.aggregate_metadata)] == [
        'az1',
        'az2',
    ]
    assert [row['host'] for row in databases.rows(tables.aggregate_hosts)] == [
        'h1',
        'h2',
    ]


def test_a_zone_that_is_there_gets_new_hosts(databases):
    databases.add(tables.aggregates, {'name': 'az1', 'uuid': 'its-own'})
    assert zones.make(databases.api, zones.zone_hosts(HOSTS[:1])) == {'az1': 'its-own'}
    (host,) = databases.rows(tables.aggregate_hosts)
    assert host['host'] == 'h1'
