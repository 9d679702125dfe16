# SPDX-License-Identifier: Apache-2.0
"""Whether the hard policy of a group holds, and who yields."""

import pytest

from novasched.scheduler.group_policy import Conflict, HardPolicy
from tests.support.clouds import factories
from tests.support.tables.cases import cases

APART, TWO, TOGETHER = (
    HardPolicy('anti-affinity'),
    HardPolicy('anti-affinity', 2),
    HardPolicy('affinity'),
)


@cases('policy, mine, others, expected',
    ('alone', APART, {'b': 'h1'}, {}, None),
    ('others elsewhere', APART, {'b': 'h1'}, {'a': ['h2']}, None),
    ('the senior, apart', APART, {'a': 'h1'}, {'b': ['h1'], 'c': ['h2']},
     Conflict({'b': ['h1']}, True, 0)),
    ('the third of one host takes the second best', APART, {'c': 'h1'},
     {'a': ['h1'], 'b': ['h1']}, Conflict({'a': ['h1'], 'b': ['h1']}, False, 1)),
    ('two on a host', TWO, {'c': 'h1'}, {'a': ['h1']}, None),
    ('one too many, which is senior all the same', TWO, {'b': 'h1'},
     {'a': ['h1'], 'c': ['h1']}, Conflict({'a': ['h1'], 'c': ['h1']}, True, 1)),
    ('two of one request, each on a host of another', APART, {'b': 'h1', 'd': 'h2'},
     {'a': ['h1'], 'e': ['h2']}, Conflict({'a': ['h1'], 'e': ['h2']}, False, 0)),
    ('its own are not the business of this', APART, {'a': 'h1', 'b': 'h1'}, {}, None),
    ('one that moves holds two hosts', APART, {'a': 'h1'}, {'b': ['h0', 'h1']},
     Conflict({'b': ['h0', 'h1']}, True, 0)),
    ('together', TOGETHER, {'b': 'h1'}, {'a': ['h1'], 'c': ['h0', 'h1']}, None),
    ('the host of the senior one is where to go', TOGETHER, {'c': 'h1'},
     {'b': ['h2'], 'a': ['h3'], 'd': ['h1']}, Conflict({'a': ['h3']}, False)),
    ('beside the senior one', TOGETHER, {'c': 'h1'}, {'b': ['h2'], 'a': ['h1']},
     Conflict({'b': ['h2']}, True)),
)  # fmt: skip
def test_conflicts(policy, mine, others, expected):
    assert policy.conflict(mine, others) == expected


@pytest.mark.parametrize('name', ['anti-affinity', 'affinity'])
def test_hard_policy_comes_from_the_group(name):
    request = factories.request(instance_group=factories.group(policy=name))
    assert HardPolicy.of(request) == HardPolicy(name)


@cases(
    'group',
    ('no group', None),
    ('a soft policy', factories.group(policy='soft-anti-affinity')),
    ('a soft policy', factories.group(policy='soft-affinity')),
    ('a limit that is no number', factories.group(max_server_per_host='x')),
)
def test_soft_or_missing_policy_is_not_verified(group):
    assert HardPolicy.of(factories.request(instance_group=group)) is None


def test_affinity_with_hosts_is_bound_to_them():
    group = factories.group(policy='affinity', hosts=['h1'])
    found = HardPolicy.of(factories.request(instance_group=group))
    assert found == HardPolicy('affinity', is_bound=True)


@cases(
    'others, expected',
    ('some are there', {'a': ['h1'], 'b': ['h2']}, None),
    ('all have left', {'a': ['h2'], 'd': ['h2']}, Conflict({'a': ['h2']}, False)),
    ('none is left', {}, None),
)
def test_bound_request_conflicts_only_if_all_members_have_left(others, expected):
    policy = HardPolicy('affinity', is_bound=True)
    assert policy.conflict({'c': 'h1'}, others) == expected


def test_without_a_group_at_all():
    assert HardPolicy.of(factories.request()) is None


def test_the_limit_of_a_host_is_the_rule_of_the_group():
    group = factories.group(max_server_per_host='3')
    found = HardPolicy.of(factories.request(instance_group=group))
    assert found == HardPolicy('anti-affinity', 3)
