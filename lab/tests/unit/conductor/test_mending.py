# SPDX-License-Identifier: Apache-2.0
"""What a conductor left that was killed, wherever it was."""

from __future__ import annotations

import datetime
import threading

import pytest

from lab.tests.unit.fakes import CELL1_UUID, context
from lab.tests.unit.waiting import soon
from novasched.db import tables
from novasched_lab.conductor.mending import LOST, Mending
from novasched_lab.db import server_tables
from novasched_lab.store.events import Fault
from novasched_lab.store.migrations import Migration


@pytest.fixture
def age(neighbours):
    """Make all that is there two hours old."""

    def make():
        before = datetime.datetime.now() - datetime.timedelta(hours=2)  # noqa: DTZ005
        for engine, table in (
            (neighbours.databases.api, server_tables.build_requests),
            (neighbours.databases.cell, tables.instances),
            (neighbours.databases.cell, server_tables.migrations),
        ):
            with engine.begin() as connection:
                connection.execute(
                    table.update().values(created_at=before, updated_at=before)
                )

    return make


def mend(neighbours):
    Mending(neighbours.parts, 1800).mend()


def test_what_was_not_placed_is_buried(neighbours, age):
    ((instance, _),) = neighbours.ask_for()
    age()
    mend(neighbours)
    assert neighbours.cell0.last_fault(instance.uuid).message == LOST
    assert neighbours.cell0.instance(instance.uuid).vm_state == 'error'
    assert not neighbours.api.is_asked_for(instance.uuid)
    assert neighbours.allocations.removed[instance.uuid]


def test_what_a_cell_has_already_fails_there(neighbours, age):
    ((instance, _),) = neighbours.ask_for()
    neighbours.cell1.create(instance)
    age()
    mend(neighbours)
    assert neighbours.api.cell_of(instance.uuid) == CELL1_UUID
    assert neighbours.cell1.instance(instance.uuid).vm_state == 'error'
    assert neighbours.cell0.instance(instance.uuid) is None


def test_what_was_never_sent_to_a_host_fails(neighbours, age):
    ((instance, _),) = neighbours.ask_for()
    neighbours.cell1.create(instance)
    neighbours.api.map_to_cell(instance.uuid, CELL1_UUID)
    neighbours.api.delete_build(instance.uuid)
    age()
    mend(neighbours)
    assert neighbours.cell1.last_fault(instance.uuid).message == LOST
    assert neighbours.allocations.removed[instance.uuid]


@pytest.mark.parametrize(
    ('fault', 'removed'),
    [
        pytest.param('MessagingTimeout', True, id='the scheduler may have gone on'),
        pytest.param('No valid host was found. ', False, id='there was no host'),
    ],
)
def test_what_was_claimed_after_nobody_waited_is_freed(neighbours, fault, removed):
    ((instance, _),) = neighbours.ask_for()
    neighbours.cell0.create(instance.replaced(vm_state='error'))
    neighbours.cell0.add_fault(instance.uuid, Fault(fault))
    neighbours.api.delete_build(instance.uuid)
    late = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1830)
    with neighbours.cell0.database.write() as connection:
        connection.execute(
            tables.instances.update().values(created_at=late.replace(tzinfo=None))
        )
    mend(neighbours)
    assert (instance.uuid in neighbours.allocations.removed) == removed


def test_a_move_that_has_not_begun_is_taken_back(neighbours, age):
    ((instance, _),) = neighbours.ask_for()
    neighbours.cell1.create(instance)
    neighbours.api.delete_build(instance.uuid)
    neighbours.cell1.update(
        instance.uuid, host='h1', vm_state='active', task_state='resize_prep'
    )
    migration = Migration.of(instance.uuid, 'migration', 'h1', 'n1')
    neighbours.cell1.add_migration(migration)
    age()
    mend(neighbours)
    assert neighbours.allocations.swapped == [(migration.uuid, instance.uuid)]
    assert neighbours.cell1.migration(migration.uuid).status == 'error'
    assert neighbours.cell1.instance(instance.uuid).task_state is None


def test_what_is_young_or_done_is_left(neighbours, age):
    ((done, _),) = neighbours.ask_for()
    neighbours.cell1.create(done)
    neighbours.cell1.start_action(context(), done.uuid, 'create')
    neighbours.cell1.update(done.uuid, host='h1', vm_state='active')
    neighbours.api.delete_build(done.uuid)
    age()
    ((young, _),) = neighbours.ask_for()
    mend(neighbours)
    assert neighbours.api.is_asked_for(young.uuid)
    assert neighbours.cell1.instance(done.uuid).vm_state == 'active'
    assert not neighbours.allocations.removed


def test_it_looks_when_it_starts(neighbours, age):
    ((instance, _),) = neighbours.ask_for()
    age()
    mending = Mending(neighbours.parts, 1800)
    mending.start()
    soon(lambda: not neighbours.api.is_asked_for(instance.uuid))
    mending.stop()
    (thread,) = [t for t in threading.enumerate() if t.name == 'mending']
    thread.join(10)
    assert not thread.is_alive()
