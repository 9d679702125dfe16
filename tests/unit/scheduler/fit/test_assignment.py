# SPDX-License-Identifier: Apache-2.0
"""Whether every guest node can have a host node of its own."""

from __future__ import annotations

import itertools
import random

import pytest

from novasched.scheduler.fit.assignment import bits, completable


def test_the_positions_of_a_mask():
    assert list(bits(0b100101)) == [0, 2, 5]
    assert list(bits(0)) == []


@pytest.mark.parametrize(('able', 'free', 'most', 'answer'), [
    pytest.param([], 0b11, [0], True, id='nothing to place'),
    pytest.param([0b11, 0b01], 0b11, [2], True, id='one makes room for the other'),
    pytest.param([0b01, 0b01], 0b11, [2], False, id='two want the same'),
    pytest.param([0b11, 0b11], 0b01, [2], False, id='too few are free'),
    pytest.param([0b11, 0b11], 0b11, [1], False, id='too many of one kind'),
])  # fmt: skip
def test_guest_nodes_without_a_place(able, free, most, answer):
    assert completable(able, free, [0, 0], most) is answer


def test_it_answers_like_trying_everything():
    rng = random.Random(4)
    answers = set()
    for _ in range(2000):
        hosts, guests = rng.randint(1, 5), rng.randint(1, 4)
        kinds = [rng.randrange(3) for _ in range(hosts)]
        most = [rng.randrange(3) for _ in range(3)]
        able = [rng.getrandbits(hosts) | rng.getrandbits(hosts) for _ in range(guests)]
        free = rng.getrandbits(hosts) | rng.getrandbits(hosts)
        expected = any(
            all(able[g] & free & 1 << h for g, h in enumerate(chosen))
            and all(sum(kinds[h] == k for h in chosen) <= most[k] for k in range(3))
            for chosen in itertools.permutations(range(hosts), guests)
        )
        assert completable(able, free, kinds, most) is expected
        answers.add(expected)
    assert answers == {False, True}
