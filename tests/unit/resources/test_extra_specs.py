# SPDX-License-Identifier: Apache-2.0
"""Which extra specs speak of resources and traits, and which are ignored."""

import pytest

from novasched.resources.groups import read_extra_specs
from novasched.resources.query import Group
from tests.support.tables.cases import cases


@cases('specs, groups',
    ('none', {}, {}),
    ('not ours', {'hw:cpu_policy': 'shared'}, {}),
    ('zero is kept', {'resources:VCPU': '0'}, {'': Group('', {'VCPU': 0})}),
    ('without a suffix', {'resources:CUSTOM_GOLD': '1', 'trait:CUSTOM_X': 'required'},
     {'': Group('', {'CUSTOM_GOLD': 1}, frozenset({'CUSTOM_X'}))}),
    ('with a suffix', {'resources_a-1:VGPU': '2', 'trait_a-1:CUSTOM_X': 'forbidden'},
     {'_a-1': Group('_a-1', {'VGPU': 2}, forbidden=frozenset({'CUSTOM_X'}))}),
    ('a suffix longer than 64', {f'resources{"x" * 65}:VGPU': '2'}, {}),
    ('a suffix with a strange character', {'resources1 :VGPU': '2'}, {}),
)  # fmt: skip
def test_groups(specs, groups):
    wishes = read_extra_specs(specs)
    assert (wishes.groups, wishes.warnings) == (groups, [])


AMOUNTS = 'Resource amounts must be nonnegative integers.'


@pytest.mark.parametrize(('key', 'value', 'warning'), [
    ('resources:GOLD', '1', "Received an invalid ResourceClass 'GOLD' in extra_specs."),
    ('resources:VCPU', '-1', f"{AMOUNTS} Received '-1'"),
    ('resources1:VCPU', '1.5', f"{AMOUNTS} Received '1.5'"),
    ('trait:CUSTOM_X', 'maybe',
     "Only (required, forbidden) traits are supported. Received 'maybe'."),
    ('group_policy', 'all',
     "Invalid group_policy 'all'. Valid values are 'none' and 'isolate'."),
])  # fmt: skip
def test_nonsense_is_ignored_with_a_warning(key, value, warning):
    wishes = read_extra_specs({key: value})
    assert wishes.warnings == [warning]
    assert wishes.group_policy is None
    assert all(group.is_empty for group in wishes.groups.values())


def test_nonsense_names_a_group_all_the_same():
    wishes = read_extra_specs({'resources1:VGPU': 'many'})
    assert wishes.groups == {'1': Group('1')}


@pytest.mark.parametrize('policy', ['none', 'isolate'])
def test_group_policy(policy):
    assert read_extra_specs({'group_policy': policy}).group_policy == policy
