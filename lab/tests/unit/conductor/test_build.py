# SPDX-License-Identifier: Apache-2.0
"""New instances: whatever happens, each is built or buried, and none leaks."""

import oslo_messaging

from lab.tests.unit.fakes import context, no_valid_host
from novasched import errors
from novasched.db import tables
from novasched.ports import CELL0_UUID
from novasched_lab.conductor.tasks import BuildTask
from tests.support.tables.cases import cases


def build(neighbours, pairs, **values):
    made = neighbours.made_context(**values)
    asked = list(pairs)
    BuildTask(made, context(), {'admin_password': 'secret'}).run(asked)


def buried(neighbours, uuid):
    """The message of the fault of an instance that is in cell0."""
    found = neighbours.cell0.instance(uuid)
    assert (found.vm_state, found.task_state) == ('error', None)
    assert not neighbours.api.is_asked_for(uuid)
    return neighbours.cell0.last_fault(uuid).message


def test_all_are_sent_to_the_hosts_that_were_chosen(neighbours):
    pairs = neighbours.ask_for(2)
    build(neighbours, pairs)
    sent = [(what, host) for what, host, _ in neighbours.computes.told]
    assert sent == [('build', 'h1')] * 2
    ((_, _, told), _) = neighbours.computes.told
    assert [each.service_host for each in told['host_list']] == ['h2']
    assert told['admin_password'] == 'secret'
    assert told['filter_properties']['retry']['hosts'] == [['h1', 'h1.example.org']]
    for instance, _ in pairs:
        assert neighbours.cell1.instance(instance.uuid).availability_zone == 'az1'
        assert not neighbours.api.is_asked_for(instance.uuid)
    assert not neighbours.allocations.removed


@cases(
    'problem, message, released',
    ('there is no host', no_valid_host(), 'No valid host was found. ', False),
    (
        'the scheduler does not answer',
        oslo_messaging.MessagingTimeout('late'),
        'MessagingTimeout',
        True,
    ),
    (
        'the scheduler breaks',
        oslo_messaging.RemoteError('KeyError', 'x', []),
        'KeyError',
        True,
    ),
    (
        'a filter breaks with an error of Python',
        ZeroDivisionError('division by zero\nTraceback (most recent call last):'),
        'ZeroDivisionError',
        True,
    ),
)
def test_without_hosts_all_are_buried(neighbours, problem, message, released):
    pairs = neighbours.ask_for(2)
    neighbours.schedulers.raises = problem
    build(neighbours, pairs)
    for instance, _ in pairs:
        assert buried(neighbours, instance.uuid) == message
        assert bool(neighbours.allocations.removed[instance.uuid]) == released


def test_instance_of_an_unreachable_host_fails(neighbours):
    ((instance, _),) = pairs = neighbours.ask_for()
    neighbours.computes.silent = True
    build(neighbours, pairs)
    found = neighbours.cell1.instance(instance.uuid)
    assert (found.vm_state, found.task_state) == ('error', None)
    fault = neighbours.cell1.last_fault(instance.uuid)
    assert fault.message == 'MessageDeliveryFailure'
    assert neighbours.allocations.removed[instance.uuid]
    assert not neighbours.api.is_asked_for(instance.uuid)


def test_a_host_without_a_cell_is_no_host_for_the_one_instance(neighbours):
    ((instance, _),) = pairs = neighbours.ask_for()
    neighbours.schedulers.hosts = ('h9',)
    build(neighbours, pairs)
    assert buried(neighbours, instance.uuid).startswith('No host-to-cell mapping')
    assert neighbours.allocations.removed[instance.uuid]


def test_instance_deleted_during_its_build_leaves_nothing(neighbours):
    ((instance, _),) = pairs = neighbours.ask_for()
    neighbours.api.delete_build(instance.uuid)
    build(neighbours, pairs)
    assert neighbours.computes.told == []
    assert neighbours.api.with_builds() == []
    assert neighbours.allocations.removed[instance.uuid]
    assert neighbours.databases.rows(tables.instances) == []


def test_buried_instance_stays_in_cell0(neighbours):
    ((instance, _),) = pairs = neighbours.ask_for()
    BuildTask(neighbours.context, context()).bury(
        instance, errors.NoValidHost('too late')
    )
    build(neighbours, pairs)
    assert neighbours.api.cell_of(instance.uuid) == CELL0_UUID
    assert neighbours.allocations.removed[instance.uuid]


def test_a_single_attempt_is_sent_without_retry(neighbours):
    pairs = neighbours.ask_for()
    build(neighbours, pairs, max_attempts=1)
    ((_, _, told),) = neighbours.computes.told
    assert 'retry' not in told['filter_properties']
