# SPDX-License-Identifier: Apache-2.0
"""Servers, wherever they are."""

import itertools

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.ports import CELL0_UUID
from novasched_lab.api import servers
from novasched_lab.db.cell_servers import Fault, LiveRow
from tests.support.tables.cases import cases


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
        servers.ServerSummary(
            asked, 'asked', 'BUILD', 'scheduling', project_id='project'
        ),
        servers.ServerSummary(
            alive, 'alive', 'ACTIVE', None, 'h1', None, 'cell1', 'project', None
        ),
        servers.ServerSummary(
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
    row = LiveRow('u', 'n', vm_state, task_state, *[None] * 6)
    assert servers.status_of(row) == status


def test_server_with_a_task_has_not_ended():
    made = [
        servers.ServerSummary('1', '', 'ACTIVE'),
        servers.ServerSummary('2', '', 'ACTIVE', 'resize_prep'),
        servers.ServerSummary('3', '', 'BUILD', 'scheduling'),
        servers.ServerSummary('4', '', 'ERROR'),
    ]
    assert [each.uuid for each in servers.ended(made)] == ['1', '4']


def moving(made, uuids, after):
    """Let a conductor take servers up after so many reads of the API database."""
    reads = itertools.count()
    begun = []

    def read(*_):
        if begun or next(reads) < after:
            return
        begun.append(True)
        for uuid in uuids:
            made.build(uuid)

    sa.event.listen(made.neighbours.databases.api, 'checkin', read)
    return begun


@pytest.mark.parametrize('after', range(3))
@cases(
    'look',
    ('all', lambda made, uuids: made.servers.all()),
    ('some', lambda made, uuids: made.servers.some(uuids)),
)
def test_a_server_that_is_taken_up_meanwhile_is_never_lost(made, look, after):
    uuids = made.boot(count=2)
    begun = moving(made, uuids, after)
    for _ in range(3):
        found = look(made, uuids)
        assert [each.uuid for each in found] == uuids
        assert {each.status for each in found} <= {'BUILD', 'ACTIVE'}
    assert begun


def test_requested_server_is_listed_even_if_it_is_gone(made):
    first, second = made.boot(count=2)
    made.api.forget(first)
    found = made.servers.asked_for({first: 'one', second: 'two'})
    assert [(s.uuid, s.name, s.status) for s in found] == [
        (first, 'one', 'DELETED'),
        (second, 'vm-2', 'BUILD'),
    ]
    assert [each.uuid for each in servers.ended(found)] == [first]
