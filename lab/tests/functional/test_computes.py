# SPDX-License-Identifier: Apache-2.0
"""Computes as conductors, schedulers and placement see them."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading

import pytest
import sqlalchemy as sa

from lab.tests.functional.fleets import Cell, eventually
from novasched.db import tables
from novasched_lab.local.placement import EmbeddedPlacement
from tests import factories

HOSTS = [{'name': 'c{}', 'count': 2, 'vcpus': 8, 'memory_mb': 8192, 'disk_gb': 100}]
PLAIN = {'hosts': HOSTS}


@pytest.fixture
def cell(tmp_path, _fresh_placement):
    """A cell without hosts."""
    with contextlib.ExitStack() as stack:
        path = tmp_path / 'placement.sqlite'
        shutil.copy(_fresh_placement, path)
        adapter = stack.enter_context(EmbeddedPlacement(path))
        yield Cell(tmp_path, adapter, stack)


def fleet_that(outcome, **more):
    """Two hosts, of which the first has a rule."""
    return {**PLAIN, 'rules': [{'outcome': outcome, 'hosts': ['c1'], **more}]}


def test_an_instance_is_built(cell):
    cell.run(PLAIN)
    request = cell.boot('c1')
    uuid = request.instance_uuid
    now = cell.servers.instance(uuid)
    assert (now.host, now.node, now.task_state) == ('c1', 'c1', None)
    node = eventually(
        lambda: cell.node('c1') if cell.node('c1')['vcpus_used'] else None
    )
    assert node['free_ram_mb'] == 8192 - request.flavor.memory_mb
    eventually(lambda: json.loads(cell.node('c1')['stats']).get('num_vm_active'))
    eventually(lambda: ('update', 'c1', [uuid]) in cell.scheduler.told)


def test_a_refused_instance_goes_back_to_the_conductor(cell):
    cell.run(fleet_that('refuse'))
    request = cell.new('c1')
    cell.build('c1', request, alternates=['c2'])
    asked = cell.conductor.asked.get(timeout=20)
    assert [each.uuid for each in asked['instances']] == [request.instance_uuid]
    assert [each.service_host for each in asked['host_lists'][0]] == ['c2']
    assert 'Insufficient compute' in asked['filter_properties']['retry']['exc_reason']
    now = cell.servers.instance(request.instance_uuid)
    assert (now.host, now.task_state, now.vm_state) == (None, 'scheduling', 'building')
    assert not cell.held(request.instance_uuid)


@pytest.mark.parametrize(
    ('outcome', 'retry'),
    [
        pytest.param('refuse', False, id='refused with nobody else to try'),
        pytest.param('fail', False, id='failed with nobody else to try'),
        pytest.param('abort', True, id='aborted though others could try'),
    ],
)
def test_an_instance_that_nobody_builds_is_in_error(cell, outcome, retry):
    cell.run(fleet_that(outcome))
    request = cell.new('c1')
    cell.build('c1', request, retry=retry)
    cell.wait_for(request.instance_uuid, vm_state='error', host=None)
    fault = eventually(lambda: cell.servers.last_fault(request.instance_uuid))
    assert fault.message
    eventually(lambda: not cell.held(request.instance_uuid))
    assert cell.conductor.asked.empty()
    eventually(lambda: json.loads(cell.node('c1')['stats'])['failed_builds'] == '1')
    assert cell.node('c1')['vcpus_used'] == 0


def test_an_instance_is_deleted(cell):
    cell.run(PLAIN)
    uuid = cell.boot('c1').instance_uuid
    cell.computes.terminate_instance(cell.context, 'c1', cell.servers.instance(uuid))
    eventually(lambda: ('delete', 'c1', uuid) in cell.scheduler.told)
    assert cell.servers.instance(uuid) is None
    assert not cell.held(uuid)
    eventually(lambda: cell.node('c1')['vcpus_used'] == 0)


def test_an_instance_is_moved(cell):
    cell.run(PLAIN)
    request = cell.boot('c1')
    uuid = request.instance_uuid
    migration = cell.move('c1', 'c2', request)
    cell.wait_for(uuid, host='c2', vm_state='active', task_state=None)
    eventually(lambda: cell.servers.migration(migration).status == 'confirmed')
    assert not cell.held(migration)
    assert cell.node('c1')['vcpus_used'] == 0
    assert cell.node('c2')['vcpus_used'] == request.flavor.vcpus


def test_a_refused_move_goes_on_elsewhere(cell):
    cell.run({**PLAIN, 'rules': [{'outcome': 'refuse', 'hosts': ['c2']}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request, alternates=['c3'])
    asked = cell.conductor.asked.get(timeout=20)
    properties = asked['scheduler_hint']['filter_properties']
    assert properties['migration_uuid'] == migration
    assert cell.servers.migration(migration).status == 'reverting'
    (provider,) = cell.held(request.instance_uuid)
    assert provider == cell.node('c1')['uuid']
    assert cell.node('c2')['vcpus_used'] == 0


def test_a_refused_move_without_others_leaves_the_instance(cell):
    cell.run({**PLAIN, 'rules': [{'outcome': 'refuse', 'hosts': ['c2']}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request, retry=False)
    eventually(lambda: cell.servers.migration(migration).status == 'error')
    now = cell.servers.instance(request.instance_uuid)
    assert (now.host, now.vm_state, now.task_state) == ('c1', 'active', None)
    (provider,) = cell.held(request.instance_uuid)
    assert provider == cell.node('c1')['uuid']
    assert not cell.held(migration)


def test_what_was_forgotten_is_mended(cell):
    cell.lose_patience()
    computes = cell.run(fleet_that('lose'))
    request = cell.new('c1')
    cell.build('c1', request)

    def mended():
        computes.reload()
        return cell.servers.instance(request.instance_uuid).vm_state == 'error'

    eventually(mended)
    assert not cell.held(request.instance_uuid)
    assert 'interrupted' in cell.servers.last_fault(request.instance_uuid).message


def test_a_started_again_process_knows_its_instances(cell):
    first = cell.compose(PLAIN)
    first.start()
    kept, gone = cell.boot('c1'), cell.boot('c1')
    cut = cell.new('c1')
    first.stop()
    cell.servers.update(cut.instance_uuid, host='c1', node='c1', task_state='spawning')
    cell.servers.destroy(gone.instance_uuid)
    cell.run(PLAIN)
    assert cell.node('c1')['vcpus_used'] == kept.flavor.vcpus
    assert cell.servers.instance(cut.instance_uuid).vm_state == 'error'
    assert cell.held(kept.instance_uuid)
    assert not cell.held(cut.instance_uuid)
    assert not cell.held(gone.instance_uuid)
    assert len(cell.rows(tables.compute_nodes)) == 2


def test_a_disabled_host_says_so(cell):
    cell.run(PLAIN)
    assert cell.computes.set_host_enabled(cell.context, 'c1', False) == 'disabled'
    traits = f'/resource_providers/{cell.node("c1")["uuid"]}/traits'
    found = cell.adapter.get(traits, microversion='1.6').json()['traits']
    assert 'COMPUTE_STATUS_DISABLED' in found
    assert cell.row(tables.services, host='c1')['disabled']
    cell.computes.set_host_enabled(cell.context, 'c1', True)
    found = cell.adapter.get(traits, microversion='1.6').json()['traits']
    assert 'COMPUTE_STATUS_DISABLED' not in found


def test_late_group_check(cell):
    cell.run(PLAIN)
    first = cell.boot('c1')
    second = cell.new('c1')
    members = [first.instance_uuid, second.instance_uuid]
    group = factories.group(policy='anti-affinity', members=members)
    second.assign(instance_group=group)
    cell.build('c1', second, alternates=['c2'])
    asked = cell.conductor.asked.get(timeout=20)
    assert 'Anti-affinity' in asked['filter_properties']['retry']['exc_reason']
    assert json.loads(cell.node('c1')['stats'])['failed_builds'] == '0'


def test_zones_and_devices_are_in_placement(cell):
    device = {'vendor_id': '15b3', 'product_id': '1018', 'count': 2}
    device |= {'resource_class': 'CUSTOM_NIC', 'traits': ['CUSTOM_FAST']}
    hosts = [{'name': 'c1', 'zone': 'az1', 'devices': [device]}]
    cell.run({'hosts': hosts})
    query = '/allocation_candidates?resources=VCPU:1,CUSTOM_NIC:1'
    found = cell.adapter.get(query, microversion='1.36').json()
    assert len(found['allocation_requests']) == 2
    url = f'/resource_providers/{cell.node("c1")["uuid"]}/aggregates'
    assert cell.adapter.get(url, microversion='1.19').json()['aggregates']


def test_one_that_was_deleted_while_it_waited_leaves_nothing(cell):
    cell.run(PLAIN)
    request = cell.new('c1')
    cell.servers.destroy(request.instance_uuid)
    cell.build('c1', request)
    eventually(lambda: not cell.held(request.instance_uuid))
    assert cell.node('c1')['vcpus_used'] == 0


def test_one_that_is_being_deleted_is_not_built(cell):
    cell.run(PLAIN)
    request = cell.new('c1')
    cell.servers.update(request.instance_uuid, task_state='deleting')
    cell.build('c1', request)
    eventually(lambda: cell.servers.instance(request.instance_uuid) is None)
    eventually(lambda: not cell.held(request.instance_uuid))


def test_nothing_is_built_without_a_claim(cell):
    cell.run(PLAIN)
    request = cell.new('c1', claimed=False)
    cell.build('c1', request, alternates=['c2'])
    asked = cell.conductor.asked.get(timeout=20)
    reason = asked['filter_properties']['retry']['exc_reason']
    assert 'placement has no allocation' in reason


def test_a_message_that_comes_twice_builds_once(cell):
    cell.run(PLAIN)
    request = cell.boot('c1')
    cell.build('c1', request)
    other = cell.boot('c1')
    now = cell.servers.instance(request.instance_uuid)
    assert (now.host, now.vm_state) == ('c1', 'active')
    assert cell.held(request.instance_uuid)
    vcpus = request.flavor.vcpus + other.flavor.vcpus
    eventually(lambda: cell.node('c1')['vcpus_used'] == vcpus)


def test_a_move_that_does_not_go_on_is_undone(cell):
    cell.lose_patience()
    computes = cell.run({**PLAIN, 'rules': [{'outcome': 'lose', 'hosts': ['c2']}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request)

    def undone():
        computes.reload()
        return cell.servers.migration(migration).status == 'error'

    eventually(undone)
    now = cell.servers.instance(request.instance_uuid)
    assert (now.host, now.task_state, now.vm_state) == ('c1', None, 'active')
    assert cell.held(request.instance_uuid) == {cell.node('c1')['uuid']}
    assert not cell.held(migration)


def test_a_move_whose_source_heard_nothing_is_confirmed_later(cell):
    first = cell.run({'hosts': [{'name': 'c1'}]})
    cell.run({'hosts': [{'name': 'c2'}]})
    request = cell.boot('c1')
    first.stations['c1'].alive = False
    migration = cell.move('c1', 'c2', request)
    cell.wait_for(request.instance_uuid, host='c2', task_state=None)
    assert cell.held(migration)
    first.stations['c1'].alive = True
    first.reload()
    assert cell.servers.migration(migration).status == 'confirmed'
    assert not cell.held(migration)
    assert cell.node('c1')['vcpus_used'] == 0


def test_two_processes_move_an_instance(cell):
    cell.run({'hosts': [{'name': 'c1'}]})
    cell.run({'hosts': [{'name': 'c2'}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request)
    eventually(lambda: cell.servers.migration(migration).status == 'confirmed')
    assert not cell.held(migration)
    eventually(lambda: cell.node('c1')['vcpus_used'] == 0)


def test_a_host_that_crashed_and_recovered(cell):
    cell.run(PLAIN)
    kept = cell.boot('c1')
    tell = cell.computes._client.prepare(server='c1')
    tell.call(cell.context, 'crash')
    lost = cell.new('c1')
    cell.build('c1', lost)
    tell.call(cell.context, 'recover')
    later = cell.boot('c1')
    assert cell.servers.instance(lost.instance_uuid).vm_state == 'building'
    vcpus = kept.flavor.vcpus + later.flavor.vcpus
    eventually(lambda: cell.node('c1')['vcpus_used'] == vcpus)


def test_a_deletion_goes_where_the_instance_is(cell):
    cell.run(PLAIN)
    uuid = cell.boot('c1').instance_uuid
    cell.computes.terminate_instance(cell.context, 'c2', cell.servers.instance(uuid))
    eventually(lambda: cell.servers.instance(uuid) is None)
    eventually(lambda: not cell.held(uuid))


def test_an_instance_deleted_while_it_is_moved_leaves_nothing(cell):
    cell.run({**PLAIN, 'rules': [{'outcome': 'lose', 'hosts': ['c2']}]})
    request = cell.boot('c1')
    uuid = request.instance_uuid
    migration = cell.move('c1', 'c2', request)
    cell.computes.terminate_instance(cell.context, 'c1', cell.servers.instance(uuid))
    eventually(lambda: cell.servers.instance(uuid) is None)
    eventually(lambda: not cell.held(uuid) and not cell.held(migration))


def test_pinned_cpus_and_devices_are_there_after_a_start(cell):
    device = {'vendor_id': '8086', 'product_id': '1520', 'count': 2, 'numa_node': 1}
    content = {'hosts': [{'name': 'c1', 'numa_nodes': 2, 'devices': [device]}]}
    first = cell.compose(content)
    first.start()
    guest = factories.guest_cell(0, range(2), 'dedicated', memory=512)
    wanted = {'vendor_id': '8086', 'product_id': '1520'}
    request = cell.boot(
        'c1',
        vcpus=2,
        numa_topology=factories.guest_topology(guest),
        pci_requests=factories.devices(1, wanted),
    )
    now = cell.servers.instance(request.instance_uuid)
    (fitted,) = now.numa_topology.cells
    assert (fitted.id, len(fitted.cpu_pinning)) == (1, 2)
    before = eventually(lambda: '"count": 1' in cell.node('c1')['pci_stats']) and {
        name: cell.node('c1')[name] for name in ('numa_topology', 'pci_stats')
    }
    first.stop()
    cell.run(content)
    assert {name: cell.node('c1')[name] for name in before} == before


def test_what_a_refused_host_was_told_does_not_stay(cell):
    computes = cell.run(fleet_that('refuse'))
    request = cell.new('c1')
    cell.build('c1', request, alternates=['c2'])
    cell.conductor.asked.get(timeout=20)
    cell.servers.update(request.instance_uuid, vm_state='error')
    cell.claim(request.instance_uuid, 'c2')
    computes.reload()
    assert not cell.held(request.instance_uuid)


def test_strangers_are_left_alone(cell):
    computes = cell.run(PLAIN)
    stranger = '50000000-0000-4000-8000-000000000001'
    cell.claim(stranger, 'c1')
    computes.reload()
    assert cell.held(stranger)


def test_schedulers_are_told_all_again(cell):
    computes = cell.run(PLAIN)
    uuid = cell.boot('c1').instance_uuid
    computes.groups[0].sync()
    eventually(lambda: ('sync', 'c1', [uuid]) in cell.scheduler.told)
    eventually(lambda: ('sync', 'c2', []) in cell.scheduler.told)


def test_an_audit_asks_as_often_for_many_hosts_and_instances_as_for_one(cell):
    one = cell.run({'hosts': [HOSTS[0] | {'name': 'a{}', 'count': 1}]})
    many = cell.run({'hosts': [HOSTS[0] | {'name': 'b{}', 'count': 3}]})
    for host in ('a1', 'b1', 'b1', 'b2'):
        cell.boot(host)
    assert statements(cell, many.reload) == statements(cell, one.reload)


def statements(cell, step):
    """How many statements a step executes, in this thread."""
    executed, mine = [], threading.get_ident()

    def note(connection, cursor, statement, *more):
        if threading.get_ident() == mine:
            executed.append(statement)

    sa.event.listen(cell.engine, 'before_cursor_execute', note)
    step()
    sa.event.remove(cell.engine, 'before_cursor_execute', note)
    return len(executed)
