# SPDX-License-Identifier: Apache-2.0
"""Moves: both ends are held, or all is as it was."""

import oslo_messaging
import pytest

from lab.tests.unit.fakes import context, flavor, no_valid_host
from novasched import errors
from novasched.inspection.session.server_request import destined
from novasched_lab.conductor.tasks import BuildTask, MigrationTask
from novasched_lab.db import server_tables
from novasched_lab.failures import SchedulerBroke
from tests.support.tables.cases import cases


@pytest.fixture
def instance(neighbours):
    """An instance that runs on h1."""
    ((made, request),) = neighbours.ask_for()
    BuildTask(neighbours.context, context(), {}).run([(made, request)])
    neighbours.computes.told.clear()
    neighbours.schedulers.asked.clear()
    neighbours.cell1.update(
        made.uuid, host='h1', node='n1', vm_state='active', task_state=None
    )
    return neighbours.cell1.instance(made.uuid)


def move(neighbours, instance, **arguments):
    arguments.setdefault('flavor', None)
    MigrationTask(neighbours.context, context()).run(instance, **arguments)


def migration(neighbours):
    (row,) = neighbours.databases.rows(server_tables.migrations)
    return row


def test_move_holds_the_source_and_asks_the_destination(neighbours, instance):
    neighbours.schedulers.hosts = ('h2', 'h3')
    move(neighbours, instance)
    row = migration(neighbours)
    assert neighbours.allocations.swapped == [(instance.uuid, row['uuid'])]
    ((what, host, told),) = neighbours.computes.told
    assert (what, host) == ('prep_resize', 'h2')
    assert told['migration']['dest_compute'] == row['dest_compute'] == 'h2'
    assert told['migration']['uuid'] == row['uuid']
    assert told['host_list'] == []
    ((request, _),) = neighbours.schedulers.asked
    assert request.ignore_hosts == ['h1']
    assert (row['migration_type'], row['status']) == ('migration', 'pre-migrating')


def test_a_host_that_is_asked_for_is_the_destination(neighbours, instance):
    asked = destined(neighbours.api.request_spec(instance.uuid), 'h2')
    move(neighbours, instance, request=asked)
    ((request, _),) = neighbours.schedulers.asked
    assert request.requested_destination.host == 'h2'
    assert request.requested_destination.cell.name == 'cell1'


def test_a_resize_asks_for_the_new_size(neighbours, instance):
    move(neighbours, instance, flavor=flavor(vcpus=4))
    ((request, _),) = neighbours.schedulers.asked
    assert request.vcpus == 4
    assert migration(neighbours)['migration_type'] == 'resize'


def test_a_resize_may_stay_where_that_is_allowed(neighbours, instance):
    conductor = neighbours.made_context(resizes_on_same_host=True)
    MigrationTask(conductor, context()).run(instance, flavor(vcpus=4))
    ((request, _),) = neighbours.schedulers.asked
    assert request.ignore_hosts == []


@cases(
    'break_it, raised, says',
    (
        'there is no host',
        lambda n: setattr(n.schedulers, 'raises', no_valid_host()),
        errors.NoValidHost,
        'No valid host found for cold migrate',
    ),
    (
        'the scheduler does not answer',
        lambda n: setattr(n.schedulers, 'raises', oslo_messaging.MessagingTimeout()),
        oslo_messaging.MessagingTimeout,
        None,
    ),
    (
        'a filter breaks with an error of Python',
        lambda n: setattr(n.schedulers, 'raises', ZeroDivisionError('by zero')),
        SchedulerBroke,
        'The scheduler failed with ZeroDivisionError: by zero',
    ),
    (
        'the host cannot be told',
        lambda n: setattr(n.computes, 'silent', True),
        oslo_messaging.MessageDeliveryFailure,
        None,
    ),
    (
        'placement does not swap',
        lambda n: setattr(n.allocations, 'swaps', False),
        errors.NoValidHost,
        'No valid host found',
    ),
)
def test_a_move_that_fails_leaves_all_as_it_was(
    neighbours, instance, break_it, raised, says
):
    break_it(neighbours)
    with pytest.raises(raised, match=says):
        move(neighbours, instance)
    row = migration(neighbours)
    assert row['status'] == 'error'
    assert neighbours.allocations.swapped[-1] == (row['uuid'], instance.uuid)
    after = neighbours.cell1.instance(instance.uuid)
    assert (after.vm_state, after.task_state) == ('active', None)
    assert neighbours.cell1.last_fault(instance.uuid) is not None


@cases(
    'values',
    ('something is done to it', {'task_state': 'deleting'}),
    ('it is on no host', {'host': None}),
)
def test_instance_that_cannot_be_moved_is_not_touched(neighbours, instance, values):
    neighbours.cell1.update(instance.uuid, **values)
    with pytest.raises(errors.InvalidRequest):
        move(neighbours, instance)
    assert neighbours.databases.rows(server_tables.migrations) == []


def test_a_move_that_a_host_has_begun_is_left_to_it(neighbours, instance):
    neighbours.computes.silent = True
    swap = neighbours.allocations.swap

    def begun(context, source, target):
        neighbours.cell1.update_migration(target, status='migrating')
        return swap(context, source, target)

    neighbours.allocations.swap = begun
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        MigrationTask(neighbours.context, context()).run(instance, None)
    assert len(neighbours.allocations.swapped) == 1
    assert migration(neighbours)['status'] == 'migrating'
