# SPDX-License-Identifier: Apache-2.0
"""`novasched-manage placement audit` finds what placement has that it must not have."""

from __future__ import annotations

import io
import json

import pytest
import sqlalchemy as sa

from novasched.cmd import manage
from novasched.db import tables
from novasched.db.server_tables import instance_mappings
from novasched.journal.store import FileJournal
from novasched.manage.program import CommandProgram
from novasched.ports import Intent
from novasched_lab.db.server_tables import migrations
from tests import databases
from tests.faults.conftest import CONF
from tests.functional.conftest import Host, new_uuids

HOLDS = {'VCPU': 1, 'MEMORY_MB': 512}


class Audited:
    """A cloud, and the command on it."""

    def __init__(self, cloud, directory):
        self.cloud = cloud([Host('h1'), Host('h2')])
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
            row = databases.instance(uuid=uuid, **{'node': 'h1', **values})
            self.cloud.add(cell, tables.instances, **row)
        return uuid

    def moves(self, server, **values):
        """Make a migration of a server."""
        row = {'uuid': new_uuids()[0], 'instance_uuid': server, **values}
        self.cloud.add('cell1', migrations, **row)
        return row['uuid']

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
    lost = audited.held(audited.server(host='h9', node='h9'), 'h1', 'h2')
    code, found = audited.run()
    other = node(audited, 'h2')
    assert (code, found.keys()) == (3, {server, lost})
    assert (found[server]['Problem'], found[server]['Provider']) == ('doubled', other)
    unset = f'allocation unset --provider {other} {server}'
    assert found[server]['Command'] == f'openstack resource provider {unset}'
    assert found[lost]['Command'].startswith('nova-manage placement heal_allocations')


def test_a_host_over_its_capacity(audited):
    servers = [audited.held(audited.server(), 'h1') for _ in range(2)]
    audited.cloud.resize('h1', 'VCPU', 1)
    code, found = audited.run()
    ((consumer, row),) = found.items()
    assert (code, row['Problem']) == (3, 'over capacity')
    assert consumer in servers
    assert row['Details'] == '2 of 1 VCPU are used'
    assert row['Command'] == f'openstack server migrate --live-migration {consumer}'


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
