# SPDX-License-Identifier: Apache-2.0
"""Instances that a host refused: the next host, or a fault."""

from lab.tests.unit.fakes import context, selection
from novasched_lab.conductor.tasks import BuildTask, RescheduleTask
from tests.support.tables.cases import cases

TRIED = {'num_attempts': 1, 'hosts': [['h1', 'n1']], 'exc_reason': 'refused'}


def refused(neighbours):
    """An instance that its first host has handed back."""
    ((instance, request),) = neighbours.ask_for()
    BuildTask(neighbours.context, context(), {}).run([(instance, request)])
    neighbours.computes.told.clear()
    return instance, request


def retry(neighbours, instance, request, hosts=('h2',), tried=TRIED):
    selections = None if hosts is None else [selection(host) for host in hosts]
    task = RescheduleTask(neighbours.context, context(), {})
    task.run(instance, request, {'retry': tried}, selections)


def fault(neighbours, instance):
    assert neighbours.cell1.instance(instance.uuid).vm_state == 'error'
    assert neighbours.allocations.removed[instance.uuid]
    return neighbours.cell1.last_fault(instance.uuid).message


def test_next_claimable_host_gets_the_build(neighbours):
    instance, request = refused(neighbours)
    neighbours.placement.full = {'h2'}
    retry(neighbours, instance, request, ['h2', 'h3', 'h4'])
    ((_, host, told),) = neighbours.computes.told
    assert host == 'h3'
    assert [each.service_host for each in told['host_list']] == ['h4']
    assert told['filter_properties']['retry'] == {
        'num_attempts': 2,
        'hosts': [['h1', 'n1'], ['h3', 'h3.example.org']],
    }
    assert neighbours.placement.claimed == [(instance.uuid, 'h3')]


def test_a_claim_in_conflict_is_tried_again_after_the_others(neighbours):
    instance, request = refused(neighbours)
    neighbours.placement.conflicts['h2'] = 1
    neighbours.placement.full = {'h3'}
    retry(neighbours, instance, request, ['h2', 'h3'])
    ((_, host, told),) = neighbours.computes.told
    assert host == 'h2'
    assert [each.service_host for each in told['host_list']] == ['h3']


def test_without_a_list_the_scheduler_is_asked(neighbours):
    instance, request = refused(neighbours)
    retry(neighbours, instance, request, None)
    assert neighbours.schedulers.asked[-1][1] == [instance.uuid]
    assert [host for _, host, _ in neighbours.computes.told] == ['h1']


@cases(
    'hosts, tried, says',
    ('no host is left', [], TRIED, 'Exhausted all hosts available'),
    ('the last one is full', ['h2'], TRIED, 'Exhausted all hosts'),
    (
        'too many attempts count more than no host',
        [],
        {**TRIED, 'num_attempts': 3},
        'Exceeded max scheduling attempts 3',
    ),
)
def test_an_instance_that_cannot_be_tried_again_fails(neighbours, hosts, tried, says):
    instance, request = refused(neighbours)
    neighbours.placement.full = {'h2'}
    retry(neighbours, instance, request, hosts, tried)
    message = fault(neighbours, instance)
    assert message.startswith('Exceeded maximum number of retries. ')
    assert says in message


def conflicts(neighbours):
    neighbours.placement.conflicts['h2'] = 2


def breaks(neighbours):
    neighbours.schedulers.raises = ZeroDivisionError('by zero')


def is_silent(neighbours):
    neighbours.placement.silent = {'h2'}


def is_unreachable(neighbours):
    neighbours.computes.silent = True


@cases(
    'break_it, hosts, says',
    ('claims keep conflicting', conflicts, ['h2'], 'Exhausted all hosts available'),
    ('the scheduler breaks', breaks, None, 'ZeroDivisionError'),
    ('a claim has no answer', is_silent, ['h2'], 'no answer'),
    ('the host cannot be told', is_unreachable, ['h2'], 'MessageDeliveryFailure'),
)
def test_instance_that_reaches_no_host_fails(neighbours, break_it, hosts, says):
    instance, request = refused(neighbours)
    break_it(neighbours)
    retry(neighbours, instance, request, hosts)
    assert neighbours.computes.told == []
    assert says in fault(neighbours, instance)


@cases(
    'delete',
    ('by its cell', lambda around, uuid: around.cell1.destroy(uuid)),
    ('by all of the API', lambda around, uuid: around.api.forget(uuid)),
)
def test_deleted_instance_is_let_go(neighbours, delete):
    instance, request = refused(neighbours)
    delete(neighbours, instance.uuid)
    retry(neighbours, instance, request)
    assert neighbours.computes.told == []
    assert neighbours.allocations.removed[instance.uuid]


def test_one_that_a_host_has_all_the_same_is_left_to_it(neighbours):
    instance, request = refused(neighbours)
    neighbours.cell1.update(instance.uuid, host='h2', vm_state='active')
    neighbours.computes.silent = True
    retry(neighbours, instance, request)
    assert neighbours.cell1.instance(instance.uuid).vm_state == 'active'
    assert not neighbours.allocations.removed
