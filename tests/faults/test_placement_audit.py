# SPDX-License-Identifier: Apache-2.0
"""`novasched-manage placement audit` finds what placement has that it must not have."""

from __future__ import annotations

import io
import json
import time

import pytest
import sqlalchemy as sa

from novasched.cmd import manage
from novasched.db import tables
from novasched.db.server_tables import instance_mappings
from novasched.journal.store import FileJournal
from novasched.manage.program import CommandProgram
from novasched.ports import Intent
from novasched_lab.db.server_tables import migrations
from novasched_lab.resource_providers import Inventory, Provider
from tests.faults.conftest import CONF
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.databases import databases
from tests.support.tables.cases import cases

HOLDS = {'VCPU': 1, 'MEMORY_MB': 512}
GOLD = 'CUSTOM_BAREMETAL_GOLD'
POOL = 'shared disks'
A_SECOND_LATER_S = 1.1
"""Placement keeps whole seconds of when something was taken."""


class Audited:
    """A cloud, and the command on it."""

    def __init__(self, cloud, directory, *more):
        self.cloud = cloud([Host('h1'), Host('h2')], more)
        self.journal = FileJournal(str(directory / 'novasched'))
        self._path = directory / 'audit.conf'
        url = self.cloud.placement.url
        self._path.write_text(
            f'[DEFAULT]\nstate_path = {directory}\n'
            f'[api_database]\nconnection = {self.cloud.url("api")}\n'
            + CONF.format(url=url, timeout_s=60)
        )
        for cell in ('cell0', 'cell1', 'cell2'):
            engine = self.cloud.databases[cell].api
            migrations.create(engine, checkfirst=True)

    def run(self, *words):
        """Return the code of the command, and the findings by their consumers."""
        out = io.StringIO()
        program = CommandProgram(manage.commands(), stdout=out)
        words = ['placement', 'audit', '-f', 'json', *words]
        code = program.run([f'--config-file={self._path}', *words])
        rows = json.loads(out.getvalue() or '[]')
        assert all(row['Since'].startswith('20') for row in rows if row['Since'])
        return code, {row['Consumer']: row for row in rows}

    def server(self, cell='cell1', **values):
        """Make a server of a cell, and its mapping."""
        uuid = new_uuids()[0]
        cell_id = None if cell is None else self.cloud._cell_ids[cell]
        mapping = {'cell_id': cell_id, 'project_id': 'p', 'instance_uuid': uuid}
        self.cloud.add('api', instance_mappings, **mapping)
        if cell is not None:
            live = {'node': 'h1', 'vm_state': 'active', **values}
            row = databases.instance(uuid=uuid, **live)
            self.cloud.add(cell, tables.instances, **row)
        return uuid

    def moves(self, server, **values):
        """Make a migration of a server."""
        row = {'uuid': new_uuids()[0], 'instance_uuid': server, **values}
        self.cloud.add('cell1', migrations, **row)
        return row['uuid']

    def offer(self, provider, name, **values):
        """Change values of an inventory, as computes and operators do."""
        path = f'/resource_providers/{provider}/inventories/{name}'
        has = self.cloud.placement.get(path)
        self.cloud.placement.put(path, has | values)

    def held(self, uuid, *hosts):
        self.cloud.hold(uuid, **dict.fromkeys(hosts, HOLDS))
        return uuid


@pytest.fixture
def audited(cloud, tmp_path):
    return Audited(cloud, tmp_path)


def node(audited, host):
    return audited.cloud.hosts[host].uuid


def test_a_cloud_in_order(audited):
    server = audited.held(audited.server(), 'h1', 'h2')
    migration = audited.moves(server, status='migrating', migration_type='resize')
    audited.held(migration, 'h1')
    evacuated = audited.held(audited.server(host='h2', node='h2'), 'h1', 'h2')
    audited.moves(evacuated, status='done', migration_type='evacuation')
    audited.held(audited.server(cell=None), 'h1')
    assert audited.run() == (0, {})


@pytest.mark.parametrize(
    ('make', 'details'),
    [
        (lambda audited: new_uuids()[0], 'no cell knows it, and no mapping'),
        (lambda audited: audited.server(deleted=1), 'the server is deleted'),
        (
            lambda audited: audited.server('cell0'),
            'the server is in cell0: no host was found for it',
        ),
    ],
    ids=['unknown', 'deleted', 'buried'],
)
def test_orphans(audited, make, details):
    uuid = audited.held(make(audited), 'h2')
    code, found = audited.run('--fix')
    row = found.pop(uuid)
    assert (code, found) == (3, {})
    assert (row['Problem'], row['Provider']) == ('orphan', node(audited, 'h2'))
    assert row['Details'] == details
    assert row['Command'] == f'openstack resource provider allocation delete {uuid}'


def test_a_migration_that_has_ended(audited):
    server = audited.held(audited.server(), 'h1')
    migration = audited.moves(server, status='confirmed', migration_type='resize')
    audited.held(migration, 'h2')
    code, found = audited.run()
    assert (code, [*found]) == (3, [migration])
    assert found[migration]['Details'] == f'migration of {server} that is confirmed'


def test_a_server_on_two_hosts(audited):
    server = audited.held(audited.server(), 'h1', 'h2')
    code, found = audited.run()
    other = node(audited, 'h2')
    assert (code, found.keys()) == (3, {server})
    assert (found[server]['Problem'], found[server]['Provider']) == ('doubled', other)
    unset = f'allocation unset --provider {other} {server}'
    assert found[server]['Command'] == f'openstack resource provider {unset}'


def test_server_without_a_live_compute_holds_nothing(audited):
    gone = audited.held(audited.server(host='h9', node='h9'), 'h1', 'h2')
    shelved = audited.held(audited.server(host=None, node=None), 'h1', 'h2')
    code, found = audited.run()
    assert (code, found.keys()) == (3, {gone, shelved})
    for server in (gone, shelved):
        delete = f'allocation delete {server}'
        assert found[server]['Command'] == f'openstack resource provider {delete}'


@cases(
    'state, words',
    ('active', 'active', '--live-migration '),
    ('paused', 'paused', '--live-migration '),
    ('stopped', 'stopped', ''),
)
def test_a_host_over_its_capacity(audited, state, words):
    servers = [audited.held(audited.server(vm_state=state), 'h1') for _ in range(2)]
    audited.cloud.resize('h1', 'VCPU', 1)
    code, found = audited.run()
    ((consumer, row),) = found.items()
    assert (code, row['Problem']) == (3, 'over capacity')
    assert consumer in servers
    assert row['Details'] == '2 of 1 VCPU are used'
    assert row['Command'] == f'openstack server migrate {words}{consumer}'


def test_only_servers_that_can_leave_are_named_for_a_host_over_capacity(audited):
    server = audited.held(audited.server(), 'h1')
    moving = audited.held(audited.server(host='h2', node='h2'), 'h2')
    migration = audited.moves(moving, status='finished', migration_type='resize')
    time.sleep(A_SECOND_LATER_S)
    audited.held(audited.server(vm_state='error'), 'h1')
    audited.held(migration, 'h1')
    audited.cloud.resize('h1', 'VCPU', 1)
    code, found = audited.run()
    assert (code, [*found]) == (3, [server])


def test_no_command_where_nothing_can_leave(audited):
    moving = audited.held(audited.server(host='h2', node='h2'), 'h2')
    migration = audited.moves(moving, status='finished', migration_type='resize')
    audited.cloud.hold(migration, h1={'VCPU': 2})
    audited.cloud.resize('h1', 'VCPU', 1)
    code, found = audited.run()
    assert (code, [*found]) == (3, [migration])
    assert found[migration]['Command'] == ''


# -- what is in order


@pytest.fixture
def metal(cloud, placement, tmp_path):
    """A cloud with one bare machine."""
    placement.put(f'/resource_classes/{GOLD}', None)
    machine = Provider(named_uuid('bm1'), 'bm1', {GOLD: Inventory(1)})
    return Audited(cloud, tmp_path, machine)


@pytest.mark.parametrize('reserved', [0, 1], ids=['not reserved', 'as nova reserves'])
def test_bare_metal_in_use_is_in_order(metal, reserved):
    metal.cloud.hold(metal.server(host='ironic', node='bm1'), bm1={GOLD: 1})
    metal.offer(named_uuid('bm1'), GOLD, reserved=reserved)
    assert metal.run() == (0, {})


def test_drained_host_is_in_order(audited):
    audited.held(audited.server(), 'h1')
    for name in HOLDS:
        audited.offer(node(audited, 'h1'), name, total=600, reserved=600)
    assert audited.run() == (0, {})


@cases(
    'total, reserved, details',
    ('a drained host', 500, 500, '512 of 500 MEMORY_MB are used'),
    (
        'a host that keeps some for itself',
        1000,
        600,
        '512 of 400 MEMORY_MB are used, 600 of 1000 are reserved',
    ),
)
def test_host_over_what_it_gives_is_named(audited, total, reserved, details):
    server = audited.held(audited.server(), 'h1')
    values = {'total': total, 'reserved': reserved}
    audited.offer(node(audited, 'h1'), 'MEMORY_MB', **values)
    code, found = audited.run()
    assert (code, found[server]['Details']) == (3, details)


@pytest.fixture
def shared(cloud, tmp_path):
    """A cloud whose two hosts share a pool of disks."""
    pool = Provider(named_uuid(POOL), POOL, {'DISK_GB': Inventory(100)})
    return Audited(cloud, tmp_path, pool)


def test_servers_on_shared_disks_are_in_order(shared):
    server = shared.server()
    shared.cloud.hold(server, h1=HOLDS, **{POOL: {'DISK_GB': 60}})
    assert shared.run() == (0, {})


def test_no_server_is_moved_for_shared_disks_over_capacity(shared):
    server = shared.server()
    shared.cloud.hold(server, h1=HOLDS, **{POOL: {'DISK_GB': 60}})
    shared.offer(named_uuid(POOL), 'DISK_GB', total=50)
    code, found = shared.run()
    assert (code, found[server]['Details']) == (3, '60 of 50 DISK_GB are used')
    assert found[server]['Command'] == ''


def test_the_claim_of_a_killed_worker_is_undone(audited):
    uuid = audited.server('cell0')
    claim = Intent('req-1', uuid, 'p', {node(audited, 'h1'): HOLDS}, undo_within_s=30)
    (entry,) = audited.journal.intend([claim])
    audited.held(uuid, 'h1')
    entry.file.close()
    code, found = audited.run()
    assert (code, found[uuid]['Problem']) == (3, 'dead claim')
    assert found[uuid]['Command'] == 'novasched-manage placement audit --fix'
    code, found = audited.run('--fix')
    assert (code, found[uuid]['Command']) == (4, 'undone')
    assert audited.cloud.held() == {}
    assert audited.run() == (0, {})


def test_without_all_cells_nothing_is_said(audited):
    with audited.cloud.databases['cell2'].api.begin() as connection:
        connection.execute(sa.text('DROP TABLE migrations'))
    audited.held(new_uuids()[0], 'h1')
    assert audited.run() == (255, {})
