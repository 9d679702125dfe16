# SPDX-License-Identifier: Apache-2.0
"""Server groups of all ages."""

import pytest

from novasched import errors
from novasched.objects.instance_group import InstanceGroup
from tests.support.tables.cases import cases


@cases(
    'given, policy, policies',
    ('policy', {'policy': 'affinity'}, 'affinity', ['affinity']),
    ('policies', {'policies': ['affinity']}, 'affinity', ['affinity']),
    ('no policies', {'policies': []}, None, []),
    ('null policies', {'policies': None}, None, None),
    ('null policy', {'policy': None}, None, None),
    ('neither', {}, None, None),
    (
        'both, each its own',
        {'policy': 'affinity', 'policies': ['anti-affinity']},
        'affinity',
        ['anti-affinity'],
    ),
)
@pytest.mark.parametrize('policy_first', [True, False])
def test_policy_and_policies_speak_for_each_other(
    given, policy, policies, policy_first
):
    group = InstanceGroup(**given)
    if policy_first:
        assert group.policy == policy
    assert group.policies == policies
    assert group.policy == policy


@cases(
    'given, rules',
    ('unset', {}, {}),
    ('none', {'_rules': {}}, {}),
    (
        'text is a number',
        {'_rules': {'max_server_per_host': '2'}},
        {'max_server_per_host': 2},
    ),
)
def test_rules(given, rules):
    assert InstanceGroup(**given).rules == rules


def test_a_rule_that_is_no_number():
    with pytest.raises(errors.InvalidRequest, match=r'InstanceGroup\._rules: '):
        _ = InstanceGroup(_rules={'max_server_per_host': 'two'}).rules


def test_other_unset_fields_are_unset():
    with pytest.raises(errors.UnsetField):
        _ = InstanceGroup().hosts
