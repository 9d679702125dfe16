# SPDX-License-Identifier: Apache-2.0
"""A composed scheduler maps hosts that appear while it runs, if it leads."""

import time

import pytest

from novasched.db import tables
from novasched.db.stores import SqlServiceStore
from novasched.runtime.clock import SystemClock
from tests.functional.conftest import Host
from tests.support.databases import databases

DEADLINE_S = 30
OPTIONS = {
    'DEFAULT': {'host': 'b'},
    'scheduler': {'discover_hosts_in_cells_interval': 1},
    'novasched': {'check_interval': 1.0, 'host_state_max_age': 0},
}


def wait_until(check):
    deadline = time.monotonic() + DEADLINE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def with_new_host(cloud):
    """A cloud with a host that is not mapped yet, and one that is."""
    made = cloud([Host('h1')], **OPTIONS)
    made.add(
        'cell2',
        tables.compute_nodes,
        **databases.node(host='new', hypervisor_hostname='new'),
    )
    return made


def mapped(cloud):
    return {row['host'] for row in cloud.databases['api'].rows(tables.host_mappings)}


def marked(cloud):
    rows = cloud.databases['cell2'].rows(tables.compute_nodes)
    return [row['mapped'] for row in rows]


def test_the_leader_maps_a_new_host(with_new_host):
    cloud = with_new_host
    cloud.serve(services=SqlServiceStore(cloud.databases['cell0'].cell))
    wait_until(lambda: mapped(cloud) == {'h1', 'new'})
    wait_until(lambda: marked(cloud) == [1])


def test_another_leads_until_it_is_silent(with_new_host):
    cloud = with_new_host
    first = databases.service(
        host='a',
        binary='nova-scheduler',
        topic='scheduler',
        created_at=SystemClock().utcnow(),
    )
    number = cloud.add('cell0', tables.services, **first)
    store = SqlServiceStore(cloud.databases['cell0'].cell)
    store.register('b', 'nova-scheduler', 'scheduler', 74)
    scheduler = cloud.compose(services=store)
    scheduler.periodic.run_due()
    assert mapped(cloud) == {'h1'}
    table = tables.services
    with cloud.databases['cell0'].cell.begin() as connection:
        connection.execute(
            table.update()
            .where(table.c.id == number)
            .values(last_seen_up=databases.NOON.replace(year=2020))
        )
    cloud.serve(services=store)
    wait_until(lambda: mapped(cloud) == {'h1', 'new'})
