# SPDX-License-Identifier: Apache-2.0
"""What must hold of the stores on every back-end, as a table of checks.

A check gets `Databases` with empty tables.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.db import admin, cells, tables
from novasched.db.server_tables import flavors
from novasched.db.stores import SqlApiStore, SqlServiceStore
from novasched.db.transactions import Database
from novasched.ports import CELL0_UUID, Cell
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched_lab.db import schema, server_tables
from novasched_lab.db.api_servers import ApiServers, ServerGroups
from tests.support.checks import aggregate_checks, cell_checks
from tests.support.databases.databases import NOON, SECOND, cell_mapping, node, service

SIBLINGS = 6


def cells_come_by_id_with_their_urls_filled(databases):
    databases.add(
        tables.cell_mappings,
        cell_mapping(uuid='b', name='two', disabled=None),
        cell_mapping(uuid='a', name=None, disabled=True, transport_url=None),
        cell_mapping(uuid='c', database_connection='{scheme}://{hostname}/c'),
    )
    defaults = cells.UrlDefaults('mysql+pymysql://u@db/x', None)
    assert SqlApiStore(databases.api, defaults).cells() == [
        Cell('b', 'two', 'rabbit://', 'sqlite://', False),
        Cell('a', None, None, 'sqlite://', True),
        Cell('c', 'cell1', 'rabbit://', 'mysql+pymysql://db/c', False),
    ]


def a_host_is_looked_up_in_its_mapping(databases):
    (cell_id,) = databases.add(tables.cell_mappings, cell_mapping(uuid='b'))
    databases.add(tables.host_mappings, {'host': 'h1', 'cell_id': cell_id})
    store = SqlApiStore(databases.api)
    assert store.host_cell('h1') == 'b'
    assert store.host_cell('h2') is None


def a_server_group_has_its_policy_rules_and_members(databases):
    group, plain = databases.add(
        server_tables.instance_groups,
        {'uuid': 'g1', 'name': 'db', 'project_id': 'p', 'user_id': 'u'},
        {'uuid': 'g2'},
    )
    databases.add(
        server_tables.instance_group_policy,
        {
            'group_id': group,
            'policy': 'anti-affinity',
            'rules': '{"max_server_per_host": "2"}',
        },
    )
    databases.add(
        server_tables.instance_group_member,
        {'group_id': group, 'instance_uuid': 'i2'},
        {'group_id': group, 'instance_uuid': 'i1'},
        {'group_id': plain, 'instance_uuid': 'i3'},
    )
    store = ApiServers(databases.api)
    found = ServerGroups(databases.api).find('g1', None)
    assert found == store.server_group_of('i1')
    assert (found.uuid, found.name, found.project_id, found.user_id) == (
        ('g1', 'db', 'p', 'u')
    )
    assert found.policy == 'anti-affinity'
    assert found.rules == {'max_server_per_host': '2'}
    assert found.members == ('i2', 'i1')
    assert store.server_group_of('i3').policy is None
    assert ServerGroups(databases.api).find('none', None) is None
    assert store.server_group_of('none') is None


def clock(utcnow=lambda: NOON):
    return SimpleNamespace(utcnow=utcnow)


def a_service_registers_once(databases):
    store = SqlServiceStore(databases.cell, clock=clock())
    row, inserted = store.register('ctl', 'nova-scheduler', 'scheduler', 74)
    assert inserted
    assert (row.host, row.binary, row.topic) == ('ctl', 'nova-scheduler', 'scheduler')
    assert (row.version, row.report_count, row.last_seen_up) == (74, 0, None)
    assert (row.disabled, row.forced_down, row.created_at) == (False, False, NOON)
    assert store.register('ctl', 'nova-scheduler', 'scheduler', 74) == (row, False)
    assert len(databases.rows(tables.services)) == 1
    assert databases.rows(tables.services)[0]['deleted'] == 0


def a_sibling_may_insert_first(databases):
    def slow_clock():
        # The clock is asked between the look-up and the insert.
        if not databases.rows(tables.services):
            databases.add(
                tables.services,
                service(host='ctl', binary='nova-scheduler', topic='scheduler'),
            )
        return NOON

    store = SqlServiceStore(databases.cell, clock=clock(slow_clock))
    row, inserted = store.register('ctl', 'nova-scheduler', 'scheduler', 74)
    assert not inserted
    assert [row.id] == [found['id'] for found in databases.rows(tables.services)]


def siblings_that_start_at_once_share_one_row(databases):
    store = SqlServiceStore(databases.cell)
    together = threading.Barrier(SIBLINGS)

    def start(number):
        together.wait(30)
        row, inserted = store.register('ctl', 'nova-scheduler', 'scheduler', 74)
        assert store.beat(row.id, number)
        return row.id, inserted

    with ThreadPoolExecutor(SIBLINGS) as pool:
        started = list(pool.map(start, range(1, SIBLINGS + 1)))
    (row,) = databases.rows(tables.services)
    assert {id_ for id_, _ in started} == {row['id']}
    assert [inserted for _, inserted in started].count(True) == 1
    assert row['last_seen_up'] is not None


def an_older_row_is_brought_to_our_version(databases):
    databases.add(
        tables.services,
        service(host='ctl', binary='nova-scheduler', topic='scheduler', version=70),
    )
    store = SqlServiceStore(databases.cell, clock=clock())
    row, inserted = store.register('ctl', 'nova-scheduler', 'scheduler', 74)
    assert (row.version, inserted, row.updated_at) == (74, False, NOON)


def a_row_goes_back_to_an_older_release(databases):
    """No row is as old as ours is to be: all have what we wrote in a newer cloud."""
    for host in ('ctl', 'other'):
        row = service(host=host, binary='nova-scheduler', topic='scheduler', version=74)
        databases.add(tables.services, row)
    store = SqlServiceStore(databases.cell, clock=clock())
    row, inserted = store.register('ctl', 'nova-scheduler', 'scheduler', 67)
    assert (row.version, inserted, row.updated_at) == (67, False, NOON)
    row, inserted = store.register('new', 'nova-scheduler', 'scheduler', 67)
    assert (row.version, inserted) == (67, True)
    assert [each['version'] for each in databases.rows(tables.services)] == [67, 74, 67]


def a_newer_deployment_refuses_us(databases):
    databases.add(
        tables.services,
        service(host='new', binary='nova-scheduler', topic='scheduler', version=75),
    )
    store = SqlServiceStore(databases.cell)
    with pytest.raises(errors.ServiceTooOld) as refused:
        store.register('ctl', 'nova-scheduler', 'scheduler', 74)
    with pytest.raises(errors.ServiceTooOld):
        store.check_version('nova-scheduler', 74)
    store.check_version('nova-scheduler', 75)
    store.check_version('nova-conductor', 74)
    assert (refused.value.version, refused.value.minimum) == (74, 75)
    assert len(databases.rows(tables.services)) == 1


def a_heartbeat_moves_the_time_only_with_a_growing_count(databases):
    moments = iter([NOON, NOON + SECOND, NOON + 2 * SECOND, NOON + 3 * SECOND])
    store = SqlServiceStore(databases.cell, clock=clock(lambda: next(moments)))
    row, _ = store.register('ctl', 'nova-scheduler', 'scheduler', 74)
    assert store.beat(row.id, 5)
    (found,) = databases.rows(tables.services)
    assert (found['report_count'], found['last_seen_up']) == (5, NOON + SECOND)
    assert store.beat(row.id, 5)
    (found,) = databases.rows(tables.services)
    assert (found['report_count'], found['last_seen_up']) == (5, NOON + SECOND)
    assert found['updated_at'] == NOON + 2 * SECOND
    assert not store.beat(row.id + 1, 6)


def a_deleted_service_has_no_heartbeat(databases):
    (id_,) = databases.add(tables.services, service(deleted=1))
    assert not SqlServiceStore(databases.cell).beat(id_, 5)


def cell0_is_mapped_once(databases):
    api = Database(databases.api)
    assert admin.map_cell0(api, 'sqlite:///zero', NOON)
    assert not admin.map_cell0(api, 'sqlite:///other', NOON)
    cell0 = Cell(CELL0_UUID, 'cell0', 'none:///', 'sqlite:///zero', False)
    assert SqlApiStore(databases.api).cells() == [cell0]


def a_cell_shares_neither_queue_nor_database(databases):
    api = Database(databases.api)
    first, made = admin.create_cell(api, 'c1', 'rabbit://1', 'sqlite:///1', False, NOON)
    assert made
    for urls in (('rabbit://1', 'sqlite:///2'), ('rabbit://2', 'sqlite:///1')):
        assert admin.create_cell(api, 'c2', *urls, False, NOON) == (first, False)
    _, made = admin.create_cell(api, 'c2', 'rabbit://2', 'sqlite:///2', True, NOON)
    assert made
    found = SqlApiStore(databases.api).cells()
    assert [(cell.name, cell.disabled) for cell in found] == [
        ('c1', False),
        ('c2', True),
    ]


def discovery_maps_each_unmapped_host_once(databases):
    api = Database(databases.api)
    admin.map_cell0(api, 'sqlite:///zero', NOON)
    admin.create_cell(api, 'c1', 'rabbit://1', 'sqlite:///1', False, NOON)
    databases.add(
        tables.compute_nodes,
        node(host='h1', hypervisor_hostname='a'),
        node(host='h1', hypervisor_hostname='b'),
        node(host='h2', hypervisor_hostname='c', mapped=None),
        node(host='h3', hypervisor_hostname='d', mapped=1),
        node(host='h4', hypervisor_hostname='e', deleted=5),
    )
    said = []
    found = SqlApiStore(databases.api).cells()
    discovery = admin.HostDiscovery(
        api, lambda cell: Database(databases.cell), said.append, clock()
    )
    outcome = discovery.run(found)
    assert outcome.mapped == [(found[1], 'h1')]
    assert (outcome.raced, outcome.failed) == ([], [])
    marks = {
        row['hypervisor_hostname']: row for row in databases.rows(tables.compute_nodes)
    }
    assert (marks['a']['mapped'], marks['a']['updated_at']) == (1, NOON)
    assert (marks['b']['mapped'], marks['b']['updated_at']) == (0, None)
    assert marks['c']['mapped'] is None
    assert 'Skipping cell0 since it does not contain hosts.' in said
    assert said[-1] == f'Found 1 unmapped computes in cell: {found[1].uuid}'
    assert SqlApiStore(databases.api).host_cell('h1') == found[1].uuid
    assert discovery.run(found).mapped == []


def discovery_by_service_maps_hosts_without_nodes(databases):
    api = Database(databases.api)
    admin.create_cell(api, 'c1', 'rabbit://1', 'sqlite:///1', False, NOON)
    databases.add(tables.services, service(host='h1'), service(host='h2', deleted=2))
    found = SqlApiStore(databases.api).cells()
    discovery = admin.HostDiscovery(
        api, lambda cell: Database(databases.cell), clock=clock()
    )
    assert discovery.run(found).mapped == []
    assert discovery.run(found, by_service=True).mapped == [(found[0], 'h1')]
    assert discovery.run(found, by_service=True).mapped == []


def discovery_goes_on_without_a_cell_that_fails(databases):
    api = Database(databases.api)
    admin.create_cell(api, 'c1', 'rabbit://1', 'sqlite:///1', False, NOON)
    admin.create_cell(api, 'c2', 'rabbit://2', 'sqlite:///2', False, NOON)
    databases.add(tables.compute_nodes, node())

    def open_cell(cell):
        if cell.name == 'c1':
            raise errors.StoreFailed('c1', 'refused')
        return Database(databases.cell)

    found = SqlApiStore(databases.api).cells()
    outcome = admin.HostDiscovery(api, open_cell, clock=clock()).run(found)
    assert outcome.mapped == [(found[1], 'h1')]
    assert [problem.store for problem in outcome.failed] == ['c1']


def a_host_that_a_sibling_maps_meanwhile_is_told_apart(databases):
    api = Database(databases.api)
    admin.create_cell(api, 'c1', 'rabbit://1', 'sqlite:///1', False, NOON)
    databases.add(tables.compute_nodes, node())
    (row,) = databases.rows(tables.cell_mappings)

    def slow_clock():
        if not databases.rows(tables.host_mappings):
            databases.add(tables.host_mappings, {'host': 'h1', 'cell_id': row['id']})
        return NOON

    found = SqlApiStore(databases.api).cells()
    discovery = admin.HostDiscovery(
        api, lambda cell: Database(databases.cell), clock=clock(slow_clock)
    )
    outcome = discovery.run(found)
    assert (outcome.mapped, outcome.raced) == ([], ['h1'])
    assert databases.rows(tables.compute_nodes)[0]['mapped'] == 0


def public_flavors_are_counted_by_size(databases):
    store = SqlApiStore(databases.api)
    assert store.public_flavors() == ()
    sizes = [(1, 512, True, False), (4, 8192, True, None), (1, 512, True, False)]
    sizes += [(2, 512, False, False), (8, 512, True, True), (0, 512, True, False)]
    databases.add(
        flavors,
        *(
            {
                'name': f'f{number}',
                'flavorid': f'f{number}',
                'vcpus': vcpus,
                'memory_mb': memory_mb,
                'swap': 0,
                'is_public': is_public,
                'disabled': is_disabled,
            }
            for number, (vcpus, memory_mb, is_public, is_disabled) in enumerate(sizes)
        ),
    )
    assert store.public_flavors() == (FlavorSize(4, 8192, 1), FlavorSize(1, 512, 2))


def making_the_tables_again_changes_nothing(databases):
    assert schema.create_api(Database(databases.api), 'api') == []
    assert schema.create_cell(Database(databases.cell), 'cell') == []


CHECKS = [
    cells_come_by_id_with_their_urls_filled,
    a_host_is_looked_up_in_its_mapping,
    *aggregate_checks.CHECKS,
    *cell_checks.CHECKS,
    a_server_group_has_its_policy_rules_and_members,
    a_service_registers_once,
    a_sibling_may_insert_first,
    siblings_that_start_at_once_share_one_row,
    an_older_row_is_brought_to_our_version,
    a_row_goes_back_to_an_older_release,
    a_newer_deployment_refuses_us,
    a_heartbeat_moves_the_time_only_with_a_growing_count,
    a_deleted_service_has_no_heartbeat,
    cell0_is_mapped_once,
    a_cell_shares_neither_queue_nor_database,
    discovery_maps_each_unmapped_host_once,
    discovery_by_service_maps_hosts_without_nodes,
    discovery_goes_on_without_a_cell_that_fails,
    a_host_that_a_sibling_maps_meanwhile_is_told_apart,
    public_flavors_are_counted_by_size,
    making_the_tables_again_changes_nothing,
]
