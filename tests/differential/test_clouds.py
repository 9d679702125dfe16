# SPDX-License-Identifier: Apache-2.0
"""Random clouds, decided by nova and by us: every yes and no, weight and rank.

``--seeds N`` makes N clouds; ``--seed S --seeds 1`` makes the cloud of seed S, which
is always the same one.
"""

import json

import pytest

from tests.differential.comparison import NOT_HERE

SAME_SEEDS = range(200)


def test_both_decide_alike(comparison, seeds):
    report = comparison.check(seeds)
    if report:
        pytest.fail(report, pytrace=False)


def test_every_filter_and_weigher_of_nova_is_compared(peer, comparison):
    assert {*peer.filters} - {*comparison.filters} == NOT_HERE
    assert comparison.weighers == peer.weighers


def test_a_seed_makes_the_same_cloud_again(comparison):
    assert comparison.cloud(5) == comparison.cloud(5)
    assert comparison.cloud(5) != comparison.cloud(6)


@pytest.mark.exhaustive('of the clouds, not of what decides on them')
def test_a_cloud_that_is_saved_stays_the_same(comparison):
    for seed in SAME_SEEDS:
        cloud = comparison.cloud(seed)
        assert json.loads(json.dumps(cloud)) == cloud


@pytest.fixture(scope='module')
def answers(peer, comparison):
    """What nova says on some clouds, those that it refuses left out."""
    theirs, _ = comparison.compare([comparison.cloud(seed) for seed in SAME_SEEDS])
    return [answer for answer in theirs if 'refused' not in answer]


@pytest.mark.exhaustive('of the clouds, not of what decides on them')
def test_clouds_make_every_filter_say_yes_and_no(comparison, answers):
    said = {
        name: {outcome for answer in answers for outcome in answer['filters'][name]}
        for name in comparison.filters
    }
    assert {n for n, found in said.items() if True not in found} == set()
    assert {n for n, found in said.items() if False not in found} == {'AllHostsFilter'}


@pytest.mark.exhaustive('of the clouds, not of what decides on them')
def test_clouds_make_every_weigher_tell_hosts_apart(comparison, answers):
    def tells_apart(name):
        given = [answer['weighers'][name].get('weights', ()) for answer in answers]
        return any(len(set(weights)) > 1 for weights in given)

    assert [name for name in comparison.weighers if not tells_apart(name)] == []


@pytest.mark.exhaustive('of the clouds, not of what decides on them')
def test_clouds_make_decisions_of_every_length(answers):
    lengths = {len(answer['decisions']) for answer in answers}
    assert lengths == {1, 2, 3, 4}
