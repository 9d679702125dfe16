# SPDX-License-Identifier: Apache-2.0
"""How long nova-scheduler took, by its notifications."""

from novasched.rpc.tap import Phase
from novasched.shadow.phases import MOST, Phases


def test_time_from_start_to_end_is_known_of_the_last_decision():
    phases = Phases()
    for at_s, name in ((1.0, 'start'), (1.5, 'end'), (2.0, 'start'), (2.2, 'end')):
        phases.add(Phase('req-1', name, at_s))
    assert round(phases.took_s('req-1'), 6) == 0.2
    assert phases.took_s('req-2') is None


def test_end_without_a_start_says_nothing():
    phases = Phases()
    phases.add(Phase('req-1', 'end', 1.0))
    assert phases.took_s('req-1') is None


def test_oldest_requests_are_forgotten():
    phases = Phases()
    for number in range(MOST + 1):
        phases.add(Phase(str(number), 'start', 0.0))
        phases.add(Phase(str(number), 'end', 1.0))
    assert phases.took_s('0') is None
    assert phases.took_s(str(MOST)) == 1.0
