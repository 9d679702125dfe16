# SPDX-License-Identifier: Apache-2.0
"""Requests for one server group, in every order of their steps: see group_model.py."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from novasched.claiming.request import MOST_ABORTS
from novasched.scheduler.group_policy import AFFINITY, ANTI_AFFINITY, HardPolicy
from tests.properties.group_model import ALL, ENDED, At, Broken, Guard, Model

APART, TOGETHER = HardPolicy(ANTI_AFFINITY), HardPolicy(AFFINITY)

MODELS = {
    'two of two hosts': Model(APART, ('a', 'b'), (2, 2)),
    'two of one host': Model(APART, ('a', 'b'), (2,)),
    'two of one host, which is all they see': Model(
        APART, ('a', 'b'), (2,), sees_all=False
    ),
    'three, two on a host': Model(HardPolicy(ANTI_AFFINITY, 2), tuple('abc'), (3, 3)),
    'what the look shows is of one host': Model(
        APART, ('a', 'b'), (2, 2, 2), sees_all=False
    ),
    'one is killed': Model(APART, ('a', 'b'), (2, 2), kills=1),
    'one is delivered twice': Model(APART, ('a', 'a'), (2, 2), prefers=(0, 1)),
    'one is delivered twice, one killed': Model(
        APART, ('a', 'b', 'a'), (2, 2), kills=1, prefers=(0, 0, 1)
    ),
    'together, by other views': Model(TOGETHER, ('a', 'b'), (2, 2), prefers=(0, 1)),
    'together, one killed, one host too small': Model(
        TOGETHER, ('a', 'b'), (1, 2), kills=1, prefers=(0, 1)
    ),
    'three together': Model(TOGETHER, tuple('abc'), (3, 3), prefers=(0, 1, 1)),
    'claims in one POST, some refused': Model(
        TOGETHER, ('a', 'b'), (1, 2), claims_together=True
    ),
    'claims in one POST, its worker is killed': Model(
        APART, ('a', 'b'), (2, 2), kills=1, claims_together=True
    ),
}


@pytest.mark.parametrize('name', MODELS)
def test_the_invariants_hold_in_every_order(name):
    model = MODELS[name]
    model.finish_all(model.explore())


@pytest.mark.exhaustive('the same with more members, in half a million states')
@pytest.mark.parametrize('sees_all', [True, False])
def test_they_hold_of_three_on_three_hosts(sees_all):
    model = Model(APART, tuple('abc'), (3, 3, 3), sees_all=sees_all)
    model.finish_all(model.explore())


@pytest.mark.parametrize(
    ('guard', 'name', 'problem'),
    [
        (Guard.LOOKS_AFTER_CLAIM, 'two of two hosts', 'the policy'),
        (Guard.LOOKS_AFTER_CLAIM, 'together, by other views', 'the policy'),
        (Guard.ALL_YIELD, 'two of two hosts', 'the policy'),
        (Guard.ALL_YIELD, 'together, by other views', 'the policy'),
        (Guard.READS_MEMBERS, 'two of two hosts', 'the policy'),
        (Guard.UNDOES_ITS_OWN, 'one is delivered twice, one killed', 'holds nothing'),
        (Guard.KEEPS_A_JOURNAL, 'one is killed', 'neither answered nor undone'),
        (
            Guard.KEEPS_A_JOURNAL,
            'claims in one POST, its worker is killed',
            'neither answered nor undone',
        ),
        (Guard.CLAIMS_ONCE, 'one is delivered twice', 'holds two hosts'),
        (Guard.SENIOR_STAYS, 'two of two hosts', 'hinder each other'),
        (Guard.SENIOR_STAYS, 'together, by other views', 'hinder each other'),
        (
            Guard.LOOKS_BEFORE_NO,
            'two of one host, which is all they see',
            'was refused',
        ),
    ],
)
def test_without_a_guard_they_do_not(guard, name, problem):
    model = replace(MODELS[name], guards=ALL - {guard})
    with pytest.raises(Broken, match=problem):
        model.finish_all(model.explore())


def test_each_guard_is_removed_once():
    cases = next(
        mark.args[1]
        for mark in test_without_a_guard_they_do_not.pytestmark
        if mark.name == 'parametrize'
    )
    assert {guard for guard, *_ in cases} == ALL


@pytest.mark.parametrize('policy', [APART, TOGETHER])
@pytest.mark.parametrize('sees_all', [True, False])
def test_sixteen_at_once_have_their_hosts_long_before_the_bound(policy, sees_all):
    """In any order of steps, as chance has it."""
    members = tuple(f'{number:02}' for number in range(16))
    capacities = (16,) * 16
    prefers = (0,) if policy is APART else tuple(range(16))
    model = Model(
        policy,
        members,
        capacities,
        relooks=5,
        sees_all=sees_all,
        prefers=prefers,
    )
    rng, most = random.Random(31), 0
    for _ in range(40):
        state, yields = model.first(), dict.fromkeys(range(16), 0)
        while left := [n for n, r in enumerate(state.requests) if r.at not in ENDED]:
            number = rng.choice(left)
            state = model.step(state, number)
            yields[number] += state.requests[number].at is At.UNDO
        model.check(state)
        model.check_end(state)
        assert {request.at for request in state.requests} == {At.ANSWERED}
        most = max(most, *yields.values())
    assert most * 3 <= MOST_ABORTS * 2, most
