# SPDX-License-Identifier: Apache-2.0
"""Policies by short texts."""

import pytest

from novasched import errors
from novasched.policy_lab.policy import content_of, parse, policy_of
from tests.support.clouds.traces import policy


def multipliers(made):
    return {each.name: each.multiplier for each in made.profile.weighers}


def test_short_names_set_multipliers_and_the_rest():
    made = policy(
        'cpu:-1,ram:-2.5,subset:7,filters:ComputeFilter+IoOpsFilter,numa_packing:1'
    )
    assert multipliers(made)['CPUWeigher'] == -1.0
    assert multipliers(made)['RAMWeigher'] == -2.5
    assert multipliers(made)['IoOpsWeigher'] == -1.0
    assert made.profile.host_subset_size == 7
    names = [each.name for each in made.profile.filters]
    assert names == ['ComputeFilter', 'IoOpsFilter']
    assert made.profile.fitting.pack


def test_words_override_a_file(tmp_path):
    file = tmp_path / 'nova.conf'
    file.write_text('[filter_scheduler]\ncpu_weight_multiplier = 3\n')
    assert multipliers(policy(str(file)))['CPUWeigher'] == 3.0
    assert multipliers(policy(f'{file},cpu:4'))['CPUWeigher'] == 4.0


@pytest.mark.parametrize(
    ('text', 'flavors'),
    [
        ('keep_room:2', ['1:2=0.7']),
        ('keep_room_weight_multiplier:2', ['1:2=0.7']),
        ('{file}', ['1:2']),
        ('{file},cpu:4', ['1:2']),
        ('{file},keep_room:4', ['1:2=0.7']),
        ('keep_room:2,keep_room_flavors:3:4', ['3:4']),
    ],
)
def test_shares_are_for_words_that_turn_keep_room_on(tmp_path, text, flavors):
    file = tmp_path / 'nova.conf'
    file.write_text('[filter_scheduler]\nkeep_room_weight_multiplier = 3\n')
    words = parse(f'now={text.format(file=file)}')
    made = policy_of(words, ['1:2=0.7'], public=['1:2'])
    assert made.conf.filter_scheduler.keep_room_flavors == flavors


def test_content_changes_with_the_file(tmp_path):
    file = tmp_path / 'nova.conf'
    file.write_text('[filter_scheduler]\n')
    before = content_of(parse(f'now={file}'))
    file.write_text('[filter_scheduler]\nram_weight_multiplier = 2\n')
    assert content_of(parse(f'now={file}')) != before


@pytest.mark.parametrize(
    'text', ['pack', '=cpu:1', 'a/b=cpu:1', 'p=cpx:1', 'p=cpu:x', 'p=/no/such/file']
)
def test_policy_that_is_none_is_refused(text):
    with pytest.raises(errors.OptionError):
        policy_of(parse(text))
