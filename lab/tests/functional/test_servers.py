# SPDX-License-Identifier: Apache-2.0
"""Servers booted, shown, moved and deleted by commands, on all of our own programs."""

import pytest

from lab.tests.functional.api import Whole, emptied, run
from novasched import errors
from novasched_lab.commands.servers import (
    BootServers,
    DeleteServers,
    ListServers,
    MoveServer,
    ShowServer,
)
from tests.support.tables.cases import cases

HOSTS = [
    {
        'name': f'{cell}-h{{}}',
        'count': 2,
        'cell': cell,
        'zone': f'zone-{cell}',
        'vcpus': 4,
        'memory_mb': 8192,
        'disk_gb': 100,
    }
    for cell in ('cell1', 'cell2')
]
NAMES = {'cell1-h1', 'cell1-h2', 'cell2-h1', 'cell2-h2'}


@pytest.fixture(scope='module')
def shared(module_cloud):
    """One host refuses servers of a flavor that is given in full."""
    filters = ['ComputeFilter', 'SameHostFilter', 'ServerGroupAntiAffinityFilter']
    made = module_cloud(
        [],
        filter_scheduler={'enabled_filters': filters},
        novasched={'no_valid_host_detail': 'admin'},
    )
    rule = {'outcome': 'refuse', 'hosts': ['cell1-h1'], 'flavors': ['inline']}
    return Whole(made, {'hosts': HOSTS, 'rules': [rule]})


@pytest.fixture
def made(shared):
    """The cloud that tests share, as it was made; it is left so."""
    with emptied(shared) as made:
        yield made


def test_servers_of_a_group_are_booted_apart_and_freed(made):
    group = ('--group', 'web', '--policy', 'anti-affinity')
    code, booted, said = run(made, BootServers, 'web', '--count', '4', *group)
    assert code == 0, booted
    assert said == ''
    assert {each['Host'] for each in booted} == NAMES
    assert [each['Name'] for each in booted] == ['web-1', 'web-2', 'web-3', 'web-4']
    assert made.held() == {each['ID']: {each['Host']} for each in booted}
    _, listed, _ = run(made, ListServers, '--cell', 'cell2')
    assert {each['Host'] for each in listed} == {'cell2-h1', 'cell2-h2'}
    code, again, _ = run(made, BootServers, 'more', '--group', 'web')
    assert (code, again[0]['Status']) == (1, 'ERROR')
    assert again[0]['Fault'].startswith('No valid host was found.')
    code, gone, _ = run(made, DeleteServers, '--all', '--yes')
    assert code == 0
    assert {each['Outcome'] for each in gone} == {'deleted'}
    assert made.held() == {}
    assert made.api.with_builds() == []
    assert made.api_context.groups.find('web', 'project').members == ()
    assert run(made, ListServers)[1] == []


SMALL = 'vcpus=1,ram=512,disk=1'


def test_a_server_that_its_host_refuses_goes_to_the_next(made):
    """The emptier host comes first: that of one of them was the one that refuses."""
    for name in ('one', 'two'):
        words = ('--flavor', SMALL, '--availability-zone', 'zone-cell1')
        code, (server,), _ = run(made, BootServers, name, *words)
        assert (code, server['Host']) == (0, 'cell1-h2')


@cases(
    'words, fault',
    (
        'an unknown trait',
        ('--flavor', f'{SMALL},trait:CUSTOM_X=required'),
        'Placement does not know the trait CUSTOM_X that is asked for.',
    ),
    (
        'an unknown resource class',
        ('--flavor', f'{SMALL},resources:CUSTOM_Y=1'),
        'Placement does not know the resource class CUSTOM_Y that is asked for.',
    ),
    (
        'one more than there are hosts',
        ('--count', '5', '--group', 'web', '--policy', 'anti-affinity'),
        'For server 5 of 5: 0 of 4 hosts: group-limit 4 (',
    ),
)
def test_the_fault_says_why_there_is_no_host(made, words, fault):
    code, booted, _ = run(made, BootServers, *words)
    assert code == 1
    for server in booted:
        assert fault in server['Fault']


def test_a_zone_that_there_is_not_is_refused(made):
    with pytest.raises(errors.OptionError, match='Name one of nova, zone-cell1, zone'):
        run(made, BootServers, '--availability-zone', 'mars')
    assert run(made, ListServers)[1] == []


@cases(
    'words',
    ('asked for', ('--host', 'cell2-h1')),
    ('forced', ('--availability-zone', 'zone-cell2:cell2-h1')),
)
def test_a_server_goes_to_the_host_that_is_named(made, words):
    code, (server,), _ = run(made, BootServers, 'one', *words)
    assert (code, server['Host']) == (0, 'cell2-h1')


def test_hints_reach_the_filters(made):
    _, (first,), _ = run(made, BootServers, 'first')
    hint = f'same_host={first["ID"]}'
    _, (second,), _ = run(made, BootServers, 'second', '--hint', hint)
    assert second['Host'] == first['Host']


def test_a_server_is_shown_with_all_that_is_known_of_it(made):
    _, (server,), _ = run(
        made, BootServers, 'one', '--flavor', 'vcpus=2,ram=512,disk=1'
    )
    code, shown, _ = run(made, ShowServer, 'one')
    assert code == 0
    assert (shown['status'], shown['host']) == ('ACTIVE', server['Host'])
    (held,) = shown['allocations']
    assert held['provider'] == server['Host']
    assert held['resources'] == {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 1}
    assert shown['actions'][0]['action'] == 'create'
    assert shown['flavor'] == 'inline (2 CPUs, 512 MiB, 1 GiB)'


def test_a_server_moves_within_its_cell_and_is_resized(made):
    run(made, BootServers, 'one', '--host', 'cell1-h1')
    code, (moved,), _ = run(made, MoveServer, 'one', '--to', 'cell1-h2')
    assert (code, moved['From'], moved['To']) == (0, 'cell1-h1', 'cell1-h2')
    code, (moved,), _ = run(made, MoveServer, 'one', '--flavor', 'm1.small')
    assert (code, moved['To'], moved['Status']) == (0, 'cell1-h1', 'ACTIVE')
    assert made.held() == {moved['ID']: {'cell1-h1'}}
    _, shown, _ = run(made, ShowServer, 'one')
    assert shown['allocations'][0]['resources']['MEMORY_MB'] == 2048
    assert shown['flavor'] == 'm1.small (1 CPUs, 2048 MiB, 20 GiB)'
    assert [each['status'] for each in shown['moves']] == ['confirmed', 'confirmed']


def test_a_server_that_no_host_takes_stays(made):
    run(made, BootServers, 'one', '--host', 'cell1-h1')
    with pytest.raises(
        errors.RequestError, match=r'stays where it is: .*No valid host'
    ):
        run(made, MoveServer, 'one', '--flavor', 'vcpus=64,ram=512,disk=1')
    _, (listed,), _ = run(made, ListServers)
    assert (listed['Status'], listed['Task'], listed['Host']) == (
        'ACTIVE',
        None,
        'cell1-h1',
    )
    assert made.held() == {listed['ID']: {'cell1-h1'}}


def test_a_host_of_another_cell_is_no_destination(made):
    run(made, BootServers, 'one', '--host', 'cell1-h1')
    with pytest.raises(errors.OptionError, match='cell2-h1 is not in cell1'):
        run(made, MoveServer, 'one', '--to', 'cell2-h1')


def test_a_server_whose_host_is_gone_is_deleted_by_force(made):
    _, (server,), _ = run(made, BootServers, 'one')
    code, (gone,), _ = run(made, DeleteServers, 'one', '--force', '--yes')
    assert (code, gone['Outcome']) == (0, 'deleted')
    assert made.held() == {}
    assert made.api.cell_of(server['ID']) is None


def test_a_cell_that_is_away_is_said(made):
    _, (server,), _ = run(made, BootServers, 'one', '--host', 'cell2-h1')
    with made.cloud.databases['cell2'].cell.begin() as connection:
        connection.exec_driver_sql('ALTER TABLE instances RENAME TO away')
    _, (listed,), said = run(made, ListServers)
    with made.cloud.databases['cell2'].cell.begin() as connection:
        connection.exec_driver_sql('ALTER TABLE away RENAME TO instances')
    assert (listed['ID'], listed['Status']) == (server['ID'], 'UNKNOWN')
    assert 'Its 1 servers are UNKNOWN' in said
