# SPDX-License-Identifier: Apache-2.0
"""Server groups of all ages."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.instance_group import InstanceGroup


@pytest.mark.parametrize(
    ('given', 'policy', 'policies'),
    [
        pytest.param({'policy': 'affinity'}, 'affinity', ['affinity'], id='policy'),
        pytest.param(
            {'policies': ['affinity']}, 'affinity', ['affinity'], id='policies'
        ),
        pytest.param({'policies': []}, None, [], id='no policies'),
        pytest.param({'policies': None}, None, None, id='null policies'),
        pytest.param({'policy': None}, None, None, id='null policy'),
        pytest.param({}, None, None, id='neither'),
        pytest.param(
            {'policy': 'affinity', 'policies': ['anti-affinity']},
            'affinity',
            ['anti-affinity'],
            id='both, each its own',
        ),
    ],
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


@pytest.mark.parametrize(
    ('given', 'rules'),
    [
        pytest.param({}, {}, id='unset'),
        pytest.param({'_rules': {}}, {}, id='none'),
        pytest.param(
            {'_rules': {'max_server_per_host': '2'}},
            {'max_server_per_host': 2},
            id='text is a number',
        ),
    ],
)
def test_rules(given, rules):
    assert InstanceGroup(**given).rules == rules


def test_a_rule_that_is_no_number():
    with pytest.raises(errors.InvalidRequest, match=r'InstanceGroup\._rules: '):
        _ = InstanceGroup(_rules={'max_server_per_host': 'two'}).rules


def test_other_unset_fields_are_unset():
    with pytest.raises(errors.UnsetField):
        _ = InstanceGroup().hosts
