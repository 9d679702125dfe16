# SPDX-License-Identifier: Apache-2.0
"""A cell is left out for longer each time, until it has answered for long."""

from __future__ import annotations

import pytest

from novasched.cluster.cells import STEADY_S, CircuitBreaker

LONGEST_S = 15


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
    circuit = CircuitBreaker()
    assert circuit.open(0, LONGEST_S, alone=False)
    now_s = 1
    if answers_s is not None:
        assert circuit.close(now_s)
        now_s += answers_s
    assert circuit.open(now_s, LONGEST_S, alone=alone) is (answers_s is not None)
    assert circuit.is_open
    assert circuit.until_s == now_s + second_s


def test_what_was_never_left_out_does_not_come_back():
    circuit = CircuitBreaker()
    assert not circuit.close(0)
    assert not circuit.is_open
