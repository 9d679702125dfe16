# SPDX-License-Identifier: Apache-2.0
"""All that is known of one server."""

from novasched_lab.api import boot
from novasched_lab.api.servers import details
from novasched_lab.db.cell_servers import Migration


def look(made, name='vm'):
    return details(made.api_context, made.context, name, made.warnings.append)


def test_a_server_that_is_only_asked_for(made):
    group = boot.group_for(made.api_context, made.context, 'web', 'affinity')
    made.boot(group=group)
    found = look(made)
    assert found['flavor'] == 'm1.small (1 CPUs, 2048 MiB, 20 GiB)'
    assert (found['image'], found['group']) == ('cirros', 'web (affinity)')
    assert (found['actions'], found['moves'], found['allocations']) == ([], [], [])


def test_a_server_that_moves(made):
    uuid = made.running()
    row = Migration.of(uuid, 'migration', 'h1', 'n1')
    made.cell1.add_migration(row)
    made.allocations.held = {uuid: {'rp2': {'VCPU': 1}}, row.uuid: {'rp1': {'VCPU': 1}}}
    found = look(made)
    assert (found['node'], found['group']) == ('n1', None)
    assert [(each['consumer'], each['provider']) for each in found['allocations']] == [
        ('server', 'name of rp2'),
        ('move', 'name of rp1'),
    ]
    (action,) = found['actions']
    assert action['action'] == 'create'
    (move,) = found['moves']
    assert (move['status'], move['from'], move['to']) == ('pre-migrating', 'h1', None)


def test_placement_that_is_away_is_said(made):
    uuid = made.running()
    made.allocations.held = {uuid: None}
    assert look(made)['allocations'] == []
    assert 'Placement was not asked what server' in made.warnings[0]
