# SPDX-License-Identifier: Apache-2.0
"""Servers deleted, whatever they are."""

import pytest

from novasched.ports import CELL0_UUID
from novasched_lab.api import boot
from novasched_lab.api.servers import DeleteRequest
from novasched_lab.db.cell_servers import Migration

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


def test_one_that_is_only_asked_for(made, delete):
    group = boot.group_for(made.api_context, made.context, 'web', 'affinity')
    (uuid,) = made.boot(group=group)
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)


def test_one_that_a_conductor_works_on(made, delete):
    (uuid,) = made.boot()
    ((_, instance),) = made.api.with_builds()
    made.cell1.create(instance)
    made.api.map_to_cell(uuid, made.cells.of_host('h1').cell.uuid)
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)
    assert made.computes.told == []


def test_one_that_is_buried(made, delete):
    (uuid,) = made.boot()
    made.build(uuid, made.cell0, CELL0_UUID, **NO_HOST)
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)


def test_one_in_a_cell_without_a_host(made, delete):
    uuid = made.running(**NO_HOST)
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


def test_one_that_is_gone_already(made, delete):
    uuid = made.running()
    made.cell1.destroy(uuid)
    assert delete.run(uuid) is True
    assert_nothing_is_left(made, uuid)
