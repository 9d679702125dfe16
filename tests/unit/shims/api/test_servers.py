# SPDX-License-Identifier: Apache-2.0
"""Servers, wherever they are."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.ports import CELL0_UUID
from novasched.shims.api import servers
from novasched.shims.store.events import Fault
from novasched.shims.store.listing import Row


def buried(made, name='dead'):
    (uuid,) = made.boot(name)
    failed = {'host': None, 'node': None, 'vm_state': 'error'}
    made.build(uuid, made.cell0, CELL0_UUID, **failed)
    made.cell0.add_fault(uuid, Fault('first'))
    made.cell0.add_fault(uuid, Fault('No valid host was found. '))
    return uuid


def test_all_servers_are_found_wherever_they_are(made):
    (asked,) = made.boot('asked')
    alive, dead = made.running('alive'), buried(made)
    assert made.servers.all() == [
        servers.Server(asked, 'asked', 'BUILD', 'scheduling', project_id='project'),
        servers.Server(
            alive, 'alive', 'ACTIVE', None, 'h1', None, 'cell1', 'project', None
        ),
        servers.Server(
            dead, 'dead', 'ERROR', None, None, None, 'cell0', 'project',
            'No valid host was found. ',
        ),
    ]  # fmt: skip
    assert [each.uuid for each in made.servers.some([dead, asked])] == [dead, asked]
    assert made.servers.some([]) == []
    assert made.warnings == []


def test_a_server_that_its_host_has_deleted_is_not_listed(made):
    uuid = made.running()
    made.cell1.destroy(uuid)
    assert made.servers.all() == []


def test_servers_of_a_cell_that_is_away_are_unknown(made):
    uuid = made.running()
    with made.neighbours.databases.cell.begin() as connection:
        connection.exec_driver_sql('DROP TABLE instances')
    (found,) = made.servers.all()
    assert (found.uuid, found.status) == (uuid, 'UNKNOWN')
    assert 'Its 1 servers are UNKNOWN' in made.warnings[0]


def test_a_server_is_found_by_name_or_uuid(made):
    uuid = made.running('one')
    assert made.servers.one('one') == made.servers.one(uuid)
    with pytest.raises(errors.OptionError, match='there is no server two'):
        made.servers.one('two')
    other = made.running('one')
    with pytest.raises(errors.OptionError, match=f'{uuid}, {other}. Name a uuid'):
        made.servers.one('one')


def test_where_a_server_is(made):
    (asked,) = made.boot('asked')
    uuid = made.running('one')
    link, instance = made.servers.located(made.servers.one('one'))
    assert (link.cell.name, instance.uuid) == ('cell1', uuid)
    assert made.servers.located(made.servers.one(asked)) is None


@pytest.mark.parametrize(
    ('vm_state', 'task_state', 'status'),
    [
        ('building', 'spawning', 'BUILD'),
        ('active', None, 'ACTIVE'),
        ('active', 'resize_prep', 'RESIZE'),
        ('active', 'deleting', 'ACTIVE'),
        ('paused', None, 'PAUSED'),
        (None, None, 'UNKNOWN'),
    ],
)
def test_the_status_is_in_the_words_of_the_api(vm_state, task_state, status):
    row = Row('u', 'n', vm_state, task_state, *[None] * 6)
    assert servers.status_of(row) == status


def test_what_is_worked_on_has_not_ended():
    made = [
        servers.Server('1', '', 'ACTIVE'),
        servers.Server('2', '', 'ACTIVE', 'resize_prep'),
        servers.Server('3', '', 'BUILD', 'scheduling'),
        servers.Server('4', '', 'ERROR'),
    ]
    assert [each.uuid for each in servers.ended(made)] == ['1', '4']
