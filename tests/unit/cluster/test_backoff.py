# SPDX-License-Identifier: Apache-2.0
"""A cell is left out for longer each time, until it has answered for long."""

from novasched.cluster.cells import STEADY_S, CircuitBreaker
from tests.support.tables.cases import cases

LONGEST_S = 15


@cases(
    'alone, answers_s, second_s',
    ('it did not answer', False, None, 2),
    ('it answered for a moment', False, 2, 2),
    ('it has answered for long', False, STEADY_S, 1),
    ('there is no other', True, None, 1),
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


def test_closed_circuit_does_not_close_again():
    circuit = CircuitBreaker()
    assert not circuit.close(0)
    assert not circuit.is_open
