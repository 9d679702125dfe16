# SPDX-License-Identifier: Apache-2.0
"""Servers that move: what they hold before, and what they hold after."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched_lab.resource_providers import Inventory, Provider
from tests.faults import proxy
from tests.functional.conftest import Host, named_uuid
from tests.support.tables.cases import cases

HOSTS = [Host('h1', zone='az1', disk_gb=0), Host('h2', zone='az1', disk_gb=0)]
STORAGE = Provider(
    named_uuid('storage'),
    'storage',
    {'DISK_GB': Inventory(100)},
    traits=frozenset({'MISC_SHARES_VIA_AGGREGATE'}),
    aggregates=frozenset({named_uuid('az1')}),
)
ON_HOST = {'VCPU': 1, 'MEMORY_MB': 512}


@pytest.fixture
def made(cloud):
    return cloud(HOSTS, [STORAGE])


def test_an_evacuated_server_counts_once_where_both_hosts_share(made, new_uuid):
    server = new_uuid()
    made.hold(server, h1=ON_HOST, storage={'DISK_GB': 1})
    found = made.ask(made.compose(), [server], ignore_hosts=['h1'])
    assert found == [['h2']]
    assert made.amounts(server) == {
        'h1': ON_HOST,
        'h2': ON_HOST,
        'storage': {'DISK_GB': 1},
    }


def test_a_migration_and_its_server_hold_one_place_each(made, new_uuid):
    """The conductor gave the migration what the server held."""
    server, migration = new_uuid(), new_uuid()
    made.hold(migration, h1=ON_HOST, storage={'DISK_GB': 1})
    found = made.ask(made.compose(), [server], ignore_hosts=['h1'], root_gb=2)
    assert found == [['h2']]
    assert made.amounts(server) == {'h2': ON_HOST, 'storage': {'DISK_GB': 2}}
    assert made.amounts(migration) == {'h1': ON_HOST, 'storage': {'DISK_GB': 1}}


@cases(
    'vcpus, fits',
    ('room for both', 4, True),
    ('room for the new one alone', 5, False),
)
def test_a_resize_on_its_own_host_needs_room_for_both(made, new_uuid, vcpus, fits):
    server, migration = new_uuid(), new_uuid()
    made.hold(migration, h1={'VCPU': 4, 'MEMORY_MB': 512})
    scheduler = made.compose()
    resize = {'vcpus': vcpus, 'ignore_hosts': ['h2']}
    if not fits:
        with pytest.raises(errors.NoValidHost):
            made.ask(scheduler, [server], **resize)
        return
    assert made.ask(scheduler, [server], **resize) == [['h1']]
    assert made.amounts(server)['h1']['VCPU'] == vcpus


def test_an_evacuation_that_fails_keeps_what_the_source_has(made, new_uuid):
    server, other = new_uuid(), new_uuid()
    made.hold(server, h1=ON_HOST, storage={'DISK_GB': 1})
    made.proxy.on('PUT', other, proxy.answers(500, b'oops'), times=9)
    with pytest.raises(errors.NoValidHost):
        made.ask(made.compose(), [server, other], ignore_hosts=['h1'])
    # Claimed for the one, refused for the other, restored.
    assert len(made.proxy.asked('PUT', server)) == 3
    assert made.amounts(server) == {'h1': ON_HOST, 'storage': {'DISK_GB': 1}}


def test_evacuation_of_unknown_fate_keeps_a_claim_of_another(made, new_uuid):
    server = new_uuid()
    made.hold(server, h1=ON_HOST)

    def claimed_anew(exchange):
        made.placement.release(server)
        made.hold(server, h2={'VCPU': 3, 'MEMORY_MB': 77})
        exchange.hang_up()

    made.proxy.on('PUT', server, claimed_anew, nth=2)
    made.proxy.on('GET', server, proxy.answers(500, b'oops'), nth=2)
    scheduler = made.compose()
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        made.ask(scheduler, [server], ignore_hosts=['h1'])
    assert made.amounts(server) == {'h2': {'VCPU': 3, 'MEMORY_MB': 77}}
