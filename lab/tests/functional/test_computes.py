# SPDX-License-Identifier: Apache-2.0
"""Computes as conductors, schedulers and placement see them."""

import contextlib
import json
import shutil

import pytest

from lab.tests.functional.fleets import Cell, eventually
from novasched.db import tables
from novasched_lab.local.placement import EmbeddedPlacement
from tests.support.clouds import factories

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


def test_an_instance_that_is_refused_with_no_retry_is_in_error(cell):
    cell.run(fleet_that('refuse'))
    request = cell.new('c1')
    cell.build('c1', request, retry=False)
    cell.wait_for(request.instance_uuid, vm_state='error', host=None)
    fault = eventually(lambda: cell.servers.last_fault(request.instance_uuid))
    assert fault.message
    eventually(lambda: not cell.held(request.instance_uuid))
    assert cell.conductor.asked.empty()
    eventually(lambda: json.loads(cell.node('c1')['stats'])['failed_builds'] == '1')
    assert cell.node('c1')['vcpus_used'] == 0


def test_a_refused_move_leaves_the_instance(cell):
    cell.run({**PLAIN, 'rules': [{'outcome': 'refuse', 'hosts': ['c2']}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request)
    eventually(lambda: cell.servers.migration(migration).status == 'error')
    now = cell.servers.instance(request.instance_uuid)
    assert (now.host, now.vm_state, now.task_state) == ('c1', 'active', None)
    (provider,) = cell.held(request.instance_uuid)
    assert provider == cell.node('c1')['uuid']
    assert not cell.held(migration)


def test_a_started_again_process_knows_its_instances(cell):
    first = cell.compose(PLAIN)
    first.start()
    kept, gone = cell.boot('c1'), cell.boot('c1')
    first.stop()
    cell.servers.destroy(gone.instance_uuid)
    cell.run(PLAIN)
    assert cell.node('c1')['vcpus_used'] == kept.flavor.vcpus
    assert cell.held(kept.instance_uuid)
    assert len(cell.rows(tables.compute_nodes)) == 2


def test_zones_are_aggregates_in_placement(cell):
    cell.run({'hosts': [{'name': 'c1', 'zone': 'az1', 'traits': ['CUSTOM_FAST']}]})
    query = '/allocation_candidates?resources=VCPU:1&required=CUSTOM_FAST'
    found = cell.adapter.get(query, microversion='1.36').json()
    assert len(found['allocation_requests']) == 1
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


def test_two_processes_move_an_instance(cell):
    cell.run({'hosts': [{'name': 'c1'}]})
    cell.run({'hosts': [{'name': 'c2'}]})
    request = cell.boot('c1')
    migration = cell.move('c1', 'c2', request)
    eventually(lambda: cell.servers.migration(migration).status == 'confirmed')
    assert not cell.held(migration)
    eventually(lambda: cell.node('c1')['vcpus_used'] == 0)


def test_a_deletion_goes_where_the_instance_is(cell):
    cell.run(PLAIN)
    uuid = cell.boot('c1').instance_uuid
    cell.computes.terminate_instance(cell.context, 'c2', cell.servers.instance(uuid))
    eventually(lambda: cell.servers.instance(uuid) is None)
    eventually(lambda: not cell.held(uuid))


def test_an_instance_deleted_while_it_is_moved_leaves_nothing(cell):
    cell.run(PLAIN)
    request = cell.boot('c1')
    uuid = request.instance_uuid
    migration = cell.move('c1', 'c2', request, send=False)
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
