# SPDX-License-Identifier: Apache-2.0
import pytest

from novasched.db import tables
from novasched_lab.compute.resource_tracker import ResourceTracker
from novasched_lab.compute.rows import HostRows, make_aggregates, zones_of
from novasched_lab.host_inventory import SimulatedHost
from tests.support.databases.databases import NOON, SECOND

HOSTS = [SimulatedHost('h1'), SimulatedHost('h2', numa_nodes=1)]


@pytest.fixture
def rows(databases):
    return HostRows(databases.cell, utcnow=lambda: NOON)


def register(rows, hosts=HOSTS):
    return rows.register(
        hosts, {host.name: ResourceTracker(host).usage() for host in hosts}
    )


def test_hosts_are_registered_once(databases, rows):
    first, second = register(rows), register(rows)
    assert first == second
    services = databases.rows(tables.services)
    assert [row['host'] for row in services] == ['h1', 'h2']
    assert {row['binary'] for row in services} == {'nova-compute'}
    nodes = databases.rows(tables.compute_nodes)
    assert [row['uuid'] for row in nodes] == [host.uuid for host in HOSTS]
    assert [bool(row['numa_topology']) for row in nodes] == [False, True]
    assert nodes[0]['free_disk_gb'] == 1000
    assert [row['service_id'] for row in nodes] == [row['id'] for row in services]


def test_old_rows_are_brought_up_to_date(databases, rows):
    register(rows)
    with databases.cell.begin() as connection:
        connection.execute(tables.services.update().values(version=61))
    register(rows, [SimulatedHost('h1', vcpus=32), HOSTS[1]])
    assert [row['vcpus'] for row in databases.rows(tables.compute_nodes)] == [32, 16]
    assert {row['version'] for row in databases.rows(tables.services)} == {74}


def test_hearts_beat_together(databases):
    now = [NOON]
    rows = HostRows(databases.cell, utcnow=lambda: now[0])
    register(rows)
    now[0] = NOON + 10 * SECOND
    assert rows.beat(['h1', 'h2']) == 2
    assert rows.beat(['h1']) == 1
    assert rows.beat([]) == 0
    found = databases.rows(tables.services)
    assert [row['report_count'] for row in found] == [2, 1]
    assert {row['last_seen_up'] for row in found} == {NOON + 10 * SECOND}


def test_usage_is_written(databases, rows):
    found = register(rows)
    rows.write_usage(found['h2'], {'vcpus_used': 5})
    assert [r['vcpus_used'] for r in databases.rows(tables.compute_nodes)] == [0, 5]


ZONED = [
    SimulatedHost('h1', zone='az1'),
    SimulatedHost('h2', zone='az2'),
    SimulatedHost('h3'),
]


def test_zones_are_made_once(databases):
    first, second = (make_aggregates(databases.api, zones_of(ZONED)) for _ in range(2))
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


def test_a_zone_that_exists_gets_new_hosts(databases):
    databases.add(tables.aggregates, {'name': 'az1', 'uuid': 'its-own'})
    assert make_aggregates(databases.api, zones_of(ZONED[:1])) == {'az1': 'its-own'}
    (host,) = databases.rows(tables.aggregate_hosts)
    assert host['host'] == 'h1'
