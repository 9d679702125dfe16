# SPDX-License-Identifier: Apache-2.0
"""A cell is left out for longer each time, until it has answered for long."""

from __future__ import annotations

import pytest

from novasched.cluster.cells import STEADY_S, RetryBackoff
from tests.unit.cluster.fakes import FakeClock


@pytest.mark.parametrize(
    ('alone', 'answers_s', 'second_s'),
    [
        pytest.param(False, None, 2, id='it did not answer'),
        pytest.param(False, 2, 2, id='it answered for a moment'),
        pytest.param(False, STEADY_S, 1, id='it has answered for long'),
        pytest.param(True, None, 1, id='there is no other'),
    ],
)
def test_the_second_pause(alone, answers_s, second_s):
    clock = FakeClock()
    backoff = RetryBackoff(clock, longest_s=15)
    assert backoff.begin('a', alone=False)
    clock.advance(1)
    if answers_s is not None:
        assert backoff.end('a')
        clock.advance(answers_s)
    assert backoff.begin('a', alone=alone) is (answers_s is not None)
    clock.advance(second_s - 0.5)
    assert not backoff.is_over('a')
    clock.advance(0.5)
    assert backoff.is_over('a')


def test_what_is_forgotten_was_never_left_out():
    backoff = RetryBackoff(FakeClock(), longest_s=15)
    assert not backoff.end('a')
    backoff.begin('a', alone=False)
    backoff.forget('a')
    assert 'a' not in backoff
    assert backoff.is_over('a')
