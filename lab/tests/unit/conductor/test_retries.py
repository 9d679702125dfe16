# SPDX-License-Identifier: Apache-2.0
"""Attempts are counted, unless there must be no other."""

import pytest

from lab.tests.unit.fakes import selection
from novasched.objects.request_spec import SchedulerLimits
from novasched_lab.conductor.task import properties_of, with_attempt, with_selection
from novasched_lab.failures import MaxRetriesExceeded
from tests.support.clouds import factories
from tests.support.tables.cases import cases


@cases(
    'properties, attempts, retry',
    ('the first attempt', {}, 3, {'num_attempts': 1, 'hosts': []}),
    (
        'what was wrong is forgotten',
        {'retry': {'num_attempts': 1, 'hosts': [['h', 'n']], 'exc_reason': 'no'}},
        3,
        {'num_attempts': 2, 'hosts': [['h', 'n']]},
    ),
    ('there is only one', {}, 1, None),
    ('a host is forced', {'force_hosts': ['h']}, 3, None),
    ('a node is forced', {'force_nodes': ['n']}, 3, None),
    (
        'two hosts are forced',
        {'force_hosts': ['g', 'h']},
        3,
        {'num_attempts': 1, 'hosts': []},
    ),
)
def test_attempts(properties, attempts, retry):
    before = dict(properties)
    assert with_attempt(properties, 'uuid', attempts).get('retry') == retry
    assert properties == before


def test_one_attempt_too_many():
    retry = {'num_attempts': 3, 'hosts': [['h', 'n']], 'exc_reason': 'no room'}
    with pytest.raises(MaxRetriesExceeded) as raised:
        with_attempt({'retry': retry}, 'uuid', 3)
    assert str(raised.value) == (
        'Exceeded maximum number of retries. Exceeded max scheduling attempts 3 for '
        'instance uuid. Last exception: no room'
    )


def test_the_error_of_the_last_host_is_logged(caplog):
    retry = {'num_attempts': 1, 'hosts': [['h', 'n']], 'exc_reason': 'no room'}
    with_attempt({'retry': retry}, 'uuid', 3)
    logged = [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]
    assert logged[-1].endswith('Error from last host: h (node n): no room')


def test_a_host_that_is_chosen_is_remembered_with_its_limits():
    limits = SchedulerLimits(vcpu=4)
    made = with_selection(
        {'retry': {'num_attempts': 1, 'hosts': []}}, selection('h1', limits=limits)
    )
    assert made['retry']['hosts'] == [['h1', 'h1.example.org']]
    assert made['limits'] == {'vcpu': 4}


def test_a_forced_host_has_no_limits():
    made = with_selection({'force_hosts': ['h1']}, selection('h1'))
    assert 'limits' not in made


def test_properties_are_made_of_what_messages_carry():
    group = factories.group(members=['b', 'a'], hosts=['h'])
    made = properties_of(factories.request(instance_group=group, force_hosts=['h1']))
    assert made['group_members'] == ['a', 'b']
    assert made['force_hosts'] == ['h1']
