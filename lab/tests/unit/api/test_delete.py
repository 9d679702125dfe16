# SPDX-License-Identifier: Apache-2.0
"""Servers deleted, whatever they are."""

import pytest

from novasched.ports import CELL0_UUID
from novasched_lab.api import boot
from novasched_lab.api.servers import DeleteRequest
from novasched_lab.db.cell_servers import Migration
from tests.support.tables.cases import cases

NO_HOST = {'host': None, 'node': None, 'vm_state': 'error'}


@pytest.fixture
def delete(made):
    return DeleteRequest(made.api_context, made.context)


def assert_nothing_is_left(made, uuid):
    assert made.servers.some([uuid]) == []
    assert made.api.with_builds() == []
    assert made.api.request_spec(uuid) is None
    assert made.cell0.instance(uuid) is None
    assert made.cell1.instance(uuid) is None
    assert made.api.server_group_of(uuid) is None
    assert uuid in made.allocations.removed


def asked_for(made):
    group = boot.group_for(made.api_context, made.context, 'web', 'affinity')
    (uuid,) = made.boot(group=group)
    return uuid


def worked_on(made):
    (uuid,) = made.boot()
    ((_, instance),) = made.api.with_builds()
    made.cell1.create(instance)
    made.api.map_to_cell(uuid, made.cells.of_host('h1').cell.uuid)
    return uuid


def buried(made):
    (uuid,) = made.boot()
    made.build(uuid, made.cell0, CELL0_UUID, **NO_HOST)
    return uuid


def gone(made):
    uuid = made.running()
    made.cell1.destroy(uuid)
    return uuid


@cases(
    'make',
    ('it is only asked for', asked_for),
    ('a conductor works on it', worked_on),
    ('it is buried', buried),
    ('it is in a cell without a host', lambda made: made.running(**NO_HOST)),
    ('it is gone already', gone),
)
def test_server_without_a_host_is_deleted_at_once(made, delete, make):
    uuid = make(made)
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)
    assert made.computes.told == []


def test_one_that_runs_is_deleted_by_its_host(made, delete):
    uuid = made.running()
    assert delete.run(uuid) is False
    ((what, host, told),) = made.computes.told
    assert (what, host, told['instance'].uuid) == ('terminate', 'h1', uuid)
    assert made.cell1.instance(uuid).task_state == 'deleting'
    assert not delete.is_done(uuid)
    made.cell1.destroy(uuid)
    assert delete.is_done(uuid)
    assert_nothing_is_left(made, uuid)


def test_one_whose_host_does_not_listen(made, delete):
    uuid = made.running()
    made.computes.silent = True
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)


def test_by_force_no_host_is_asked(made):
    uuid = made.running()
    move = Migration.of(uuid, 'migration', 'h1', 'n1')
    made.cell1.add_migration(move)
    assert DeleteRequest(made.api_context, made.context, force=True).run(uuid) is True
    assert_nothing_is_left(made, uuid)
    assert made.computes.told == []
    assert move.uuid in made.allocations.removed
    assert made.cell1.migration(move.uuid).status == 'error'
