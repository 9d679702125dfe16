# SPDX-License-Identifier: Apache-2.0
"""Servers, as the API database and those of cells keep them."""

import json

import pytest

from novasched import errors
from novasched.db import engines, server_tables, tables
from novasched.db.servers import CellServerRows, SqlServers
from novasched.db.stores import SqlApiStore
from novasched.db.transactions import Database
from novasched.inspection.session.catalogue import flavor_of
from tests.support.clouds import factories
from tests.support.databases.databases import cell_mapping, instance

FLAVOR = flavor_of('vcpus=2,ram=2048,disk=20,hw:cpu_policy=dedicated')


def add(databases, name, **columns):
    """Write a server with its flavor; return its uuid."""
    row = instance(display_name=name, memory_mb=2048, vcpus=2, **columns)
    databases.add(tables.instances, row)
    kept = {'cur': FLAVOR.obj_to_primitive(), 'old': None, 'new': None}
    extra = {'instance_uuid': row['uuid'], 'deleted': 0, 'flavor': json.dumps(kept)}
    databases.add(server_tables.instance_extra, extra)
    return row['uuid']


def test_servers_are_found_by_name_uuid_and_host(databases):
    web = add(databases, 'web', host='h1', vm_state='active')
    twin = add(databases, 'web', host='h2', vm_state='error')
    add(databases, 'gone', host='h1', vm_state='soft-delete')
    rows = CellServerRows(databases.cell)
    assert [each.uuid for each in rows.named('web')] == [web, twin]
    assert [each.uuid for each in rows.on(['h1'])] == [web]
    (found,) = rows.of([web])
    assert (found.name, found.host, found.memory_mb) == ('web', 'h1', 2048)
    assert found.flavor.extra_specs == {'hw:cpu_policy': 'dedicated'}


def test_members_of_a_group_are_on_their_host_until_they_are_deleted(databases):
    uuids = [
        add(databases, 'web', host='h1'),
        add(databases, 'soft', host='h2', vm_state='soft-delete'),
        add(databases, 'gone', host='h3', deleted=7),
        add(databases, 'nowhere', host=None),
    ]
    assert CellServerRows(databases.cell).hosts_of(uuids) == {'h1', 'h2'}


def test_a_server_without_a_flavor_of_its_own_has_none(databases):
    row = instance(memory_mb=None, vcpus=None)
    databases.add(tables.instances, row)
    (found,) = CellServerRows(databases.cell).of([row['uuid']])
    assert (found.flavor, found.memory_mb, found.vcpus) == (None, 0, 0)


ODD = [
    pytest.param('no JSON', id='no JSON'),
    pytest.param('[1]', id='no object'),
    pytest.param('{"cur": {"nova_object.name": "Flavor"}}', id='no whole object'),
    pytest.param(
        json.dumps(
            {'cur': {**FLAVOR.obj_to_primitive(), 'nova_object.version': '9.0'}}
        ),
        id='of another time',
    ),
]


@pytest.mark.parametrize('text', ODD)
def test_one_odd_row_leaves_the_others(databases, text):
    odd = instance(display_name='odd', host='h1')
    databases.add(tables.instances, odd)
    kept = {'instance_uuid': odd['uuid'], 'deleted': 0, 'flavor': text}
    databases.add(server_tables.instance_extra, kept)
    add(databases, 'web', host='h1')
    found = CellServerRows(databases.cell).on(['h1'])
    assert [(each.name, each.flavor is None) for each in found] == [
        ('odd', True),
        ('web', False),
    ]
    spec = {'instance_uuid': odd['uuid'], 'spec': text}
    databases.add(server_tables.request_specs, spec)
    assert SqlServers(databases.api).request_spec(odd['uuid']) is None


def test_the_cell_and_the_request_of_a_server(databases):
    (cell_id,) = databases.add(tables.cell_mappings, cell_mapping(uuid='c1'))
    mapped = {'instance_uuid': 'u1', 'cell_id': cell_id, 'project_id': 'p'}
    databases.add(server_tables.instance_mappings, mapped)
    spec = {'instance_uuid': 'u1', 'spec': json.dumps(FLAVOR.obj_to_primitive())}
    databases.add(server_tables.request_specs, spec)
    databases.add(tables.host_mappings, {'cell_id': cell_id, 'host': 'h1'})
    api = SqlServers(databases.api)
    assert (api.cell_of('u1'), api.cell_of('u2')) == ('c1', None)
    assert api.request_spec('u2') is None
    assert api.request_spec('u1') is None, 'it is something else'
    assert api.hosts_of_cell('c1') == ['h1']


def test_dedicated_cpus_of_servers_from_before_victoria_are_dedicated(databases):
    topology = factories.guest_topology(factories.guest_cell(cpus=range(2)))
    kept = topology.obj_to_primitive()
    (cell,) = kept['nova_object.data']['cells']
    cell['nova_object.version'] = '1.4'
    cell['nova_object.data'].update(cpuset=[0, 1], cpu_policy='dedicated')
    del cell['nova_object.data']['pcpuset']
    server = instance(host='h1')
    databases.add(tables.instances, server)
    of_server = {'instance_uuid': server['uuid']}
    extra = {**of_server, 'deleted': 0, 'numa_topology': json.dumps(kept)}
    databases.add(server_tables.instance_extra, extra)
    request = factories.request(numa_topology=topology).obj_to_primitive()
    request['nova_object.data']['numa_topology'] = kept
    text = json.dumps(request, default=list)
    databases.add(server_tables.request_specs, {**of_server, 'spec': text})
    (holder,) = CellServerRows(databases.cell).holders('h1')
    found = SqlServers(databases.api).request_spec(server['uuid'])
    for each in (holder.numa_topology, found.numa_topology):
        assert (each.cells[0].cpuset, each.cells[0].pcpuset) == (set(), {0, 1})


def test_an_engine_that_only_reads_refuses_to_write(databases, tmp_path, conf):
    made = conf(f'sqlite:///{tmp_path}/cell', f'sqlite:///{tmp_path}/api')
    engine = engines.read_only(engines.api_engine(made))
    api = SqlServers(engine)
    assert api.cells() == []
    with pytest.raises(errors.StoreFailed, match='readonly'):
        Database(engine).retrying(
            lambda connection: connection.execute(tables.cell_mappings.delete())
        )
    engine.dispose()


def test_members_of_a_group_that_are_not_deleted_are_read_the_newest_first(databases):
    first, second = (
        databases.add(server_tables.instance_groups, {'uuid': each, 'name': 'web'})[0]
        for each in ('first', 'second')
    )
    members = [(first, each) for each in ('a', 'deleted', 'c', None)]
    members.append((second, 'b'))
    databases.add(
        server_tables.instance_group_member,
        *({'group_id': group, 'instance_uuid': each} for group, each in members),
    )
    databases.add(
        server_tables.instance_mappings,
        {'instance_uuid': 'c', 'project_id': 'p', 'queued_for_delete': False},
        {'instance_uuid': 'deleted', 'project_id': 'p', 'queued_for_delete': True},
    )
    store = SqlApiStore(databases.api)
    assert store.group_members('first') == ['c', 'a']
    assert store.group_members('no such group') == []
