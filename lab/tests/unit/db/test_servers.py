# SPDX-License-Identifier: Apache-2.0
"""What the databases keep of instances, and give back."""

import pytest

from lab.tests.unit.fakes import CELL1_UUID, context
from novasched.db import tables
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched_lab.db import server_tables
from novasched_lab.db.cell_servers import Fault, Migration
from tests.support.clouds import factories
from tests.support.tables.cases import cases


@pytest.fixture
def asked(neighbours):
    """An instance that is asked for, with nodes and devices."""
    ((instance, request),) = neighbours.ask_for()
    topology = factories.guest_topology(factories.guest_cell())
    devices = InstancePCIRequests(
        requests=[
            InstancePCIRequest(count=1, spec=[{'vendor_id': '1'}], alias_name='a')
        ]
    )
    return instance.replaced(numa_topology=topology, pci_requests=devices), request


def test_build_request_is_kept_until_deleted(neighbours, asked):
    uuid, api = asked[0].uuid, neighbours.api
    ((_, waiting),) = api.with_builds()
    assert waiting.uuid == uuid
    assert api.is_asked_for(uuid)
    assert api.cell_of(uuid) is None
    assert api.delete_build(uuid)
    assert not api.delete_build(uuid)
    assert api.with_builds() == [((uuid, None, 'project'), None)]
    assert api.request_spec(uuid).flavor.name == 'small'


def test_a_request_is_kept_without_what_holds_once(neighbours):
    ((instance, request),) = neighbours.ask_for()
    neighbours.api.forget(instance.uuid)
    group = factories.group(members=['a'], hosts=['h'])
    request = request.replaced(ignore_hosts=['h'], instance_group=group)
    neighbours.api.ask_for([(instance, request)])
    kept = neighbours.api.request_spec(instance.uuid)
    assert 'ignore_hosts' not in kept
    assert 'requested_resources' not in kept
    assert (kept.instance_group.members, kept.instance_group.hosts) == (None, None)
    assert request.instance_group.members == ['a']


def test_all_are_asked_for_or_none(neighbours, asked):
    ((instance, request),) = [asked]
    again = instance.replaced(uuid='c0000000-0000-4000-8000-00000000000f')
    with pytest.raises(Exception, match='could not be asked'):
        neighbours.api.ask_for([(again, request), (instance, request)])
    assert [each.uuid for _, each in neighbours.api.with_builds()] == [instance.uuid]


def test_an_instance_is_mapped_and_forgotten(neighbours, asked):
    uuid, api = asked[0].uuid, neighbours.api
    assert api.map_to_cell(uuid, CELL1_UUID)
    assert [each for each, _ in api.with_builds()] == [(uuid, CELL1_UUID, 'project')]
    api.forget(uuid)
    assert api.cell_of(uuid) is None
    assert api.request_spec(uuid) is None
    assert not api.map_to_cell(uuid, CELL1_UUID)


def test_an_instance_comes_back_as_it_was_written(neighbours, asked):
    instance, cell = asked[0], neighbours.cell1
    assert cell.create(instance)
    assert not cell.create(instance)
    found = cell.instance(instance.uuid)
    assert found.flavor.obj_to_primitive() == instance.flavor.obj_to_primitive()
    assert found.numa_topology.cells[0].memory == 1024
    assert found.pci_requests.requests[0].alias_name == 'a'
    assert found.system_metadata == instance.system_metadata
    assert (found.vm_state, found.host) == ('building', None)
    assert found.created_at is not None


@cases(
    'expected, changed',
    ('whatever it is', None, True),
    ('as expected', {'host': None, 'vm_state': 'building'}, True),
    ('one of several', {'task_state': [None, 'scheduling']}, True),
    ('not as expected', {'host': 'h1'}, False),
)
def test_an_instance_changes_only_as_expected(neighbours, asked, expected, changed):
    cell, uuid = neighbours.cell1, asked[0].uuid
    cell.create(asked[0])
    topology = factories.guest_topology(factories.guest_cell(memory=7))
    assert cell.update(uuid, expected, host='h2', numa_topology=topology) == changed
    found = cell.instance(uuid)
    assert (found.host == 'h2') == changed
    assert (found.numa_topology.cells[0].memory == 7) == changed
    assert (cell.instances_on(['h2']) != []) == changed
    assert cell.hosts_of([uuid]) == ({'h2'} if changed else set())


def test_a_deleted_instance_is_gone_with_all_of_it(neighbours, asked):
    cell, uuid = neighbours.cell1, asked[0].uuid
    cell.create(asked[0].replaced(system_metadata={'a': 'b'}))
    assert cell.destroy(uuid)
    assert not cell.destroy(uuid)
    assert cell.instance(uuid) is None
    assert not cell.update(uuid, host='h')
    assert not cell.create(asked[0])
    for table in (
        tables.instances,
        tables.instance_system_metadata,
        server_tables.instance_extra,
    ):
        (row,) = neighbours.databases.rows(table)
        assert row['deleted'] == row['id']


def test_actions_fail_with_a_fault(neighbours, asked):
    cell, uuid = neighbours.cell1, asked[0].uuid
    cell.create(asked[0])
    cell.start_action(context(), uuid, 'create')
    cell.add_fault(uuid, Fault('x' * 300, 'details'), 'h1')
    (action,) = neighbours.databases.rows(server_tables.instance_actions)
    assert (action['action'], action['message']) == ('create', 'Error')
    assert cell.last_fault(uuid) == Fault('x' * 255, 'details')
    assert cell.last_fault('other') is None


def test_moves_change_only_as_expected(neighbours, asked):
    cell, uuid = neighbours.cell1, asked[0].uuid
    cell.create(asked[0])
    migration = Migration.of(uuid, 'resize', 'h1', 'n1')
    cell.add_migration(migration)
    assert cell.migration(migration.uuid) == migration
    assert cell.migration('other') is None
    assert not cell.update_migration(migration.uuid, ['migrating'], status='x')
    assert cell.update_migration(
        migration.uuid, ['pre-migrating'], status='migrating', dest_compute='h2'
    )
    ((found, _),) = cell.moves(uuid)
    assert (found.status, found.dest_compute) == ('migrating', 'h2')


@cases(
    'host, status, done',
    ('as it was', 'h1', 'migrating', True),
    ('the instance is elsewhere', 'h3', 'migrating', False),
    ('the move is taken back', 'h1', 'reverting', False),
)
def test_a_move_is_finished_with_its_instance(neighbours, asked, host, status, done):
    cell, uuid = neighbours.cell1, asked[0].uuid
    cell.create(asked[0])
    cell.update(uuid, host=host)
    migration = Migration.of(uuid, 'resize', 'h1', 'n1')
    cell.add_migration(migration)
    cell.update_migration(migration.uuid, status=status)
    assert cell.finish_move(migration, {'host': 'h2'}) == done
    assert cell.instance(uuid).host == ('h2' if done else host)
    assert (cell.migration(migration.uuid).status == 'finished') == done


@pytest.fixture
def two(neighbours):
    """A cell with two instances, and their uuids."""
    pairs = neighbours.ask_for(2)
    for instance, _ in pairs:
        neighbours.cell1.create(instance)
    return neighbours.cell1, [instance.uuid for instance, _ in pairs]


def test_live_instances_all_or_some(two):
    cell, (first, second) = two
    assert list(cell.live()) == [first, second]
    found = cell.live([second])
    assert [(row.display_name, row.vm_state) for row in found.values()] == [
        ('vm-1', 'building')
    ]
    cell.destroy(second)
    assert list(cell.live()) == [first]


def test_the_newest_fault_counts(two):
    cell, (first, second) = two
    cell.add_fault(first, Fault('old'))
    cell.add_fault(first, Fault('new'))
    found = cell.faults([first, second])
    assert {uuid: fault.message for uuid, fault in found.items()} == {first: 'new'}


def test_history_has_the_actions_in_order(two):
    cell, (first, _) = two
    cell.start_action(context(), first, 'create')
    cell.start_action(context(), first, 'migrate')
    cell.add_fault(first, Fault('no room'))
    found = [(each['action'], each['message']) for each in cell.history(first)]
    assert found == [('create', None), ('migrate', 'Error')]


def test_moves_are_in_order(two):
    cell, (first, _) = two
    for host in ('h1', 'h2'):
        cell.add_migration(Migration.of(first, 'migration', host, host))
    assert [move.source_compute for move, _ in cell.moves(first)] == ['h1', 'h2']
